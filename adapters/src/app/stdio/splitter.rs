//! Cuts a stream of bytes into lines.
//!
//! Owns the framing of MCP over stdio: LF alone ends a line (2025-11-25, transports, stdio), whatever else a reader of
//! text might take for a line's end; one CR before it and a byte order mark at the very start are dropped. Does not
//! know what a line means, and never looks at a byte twice to find its end.

use bytes::Bytes;
use memchr::memchr;

/// What a first read has room for. Most messages are far smaller.
const SMALL_READ: usize = 16 * 1024;
/// What further reads of one line have room for: all that a pipe usually holds.
const LARGE_READ: usize = 64 * 1024;
/// From here on a line may keep the buffer that it was read into, instead of being copied out of it.
const WORTH_KEEPING: usize = 4 * 1024;
const BOM: &[u8] = b"\xef\xbb\xbf";

/// The bytes that were read and are not yet a line.
#[derive(Debug)]
pub(super) struct Splitter {
    buffer: Vec<u8>,
    /// Where the unfinished line begins: before it are lines that were given out.
    start: usize,
    /// Up to where there is no LF.
    scanned: usize,
    max_line: usize,
    at_start: bool,
}

/// A line is longer than it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl Splitter {
    /// A splitter of lines of at most `max_line` bytes, the LF not counted.
    pub(super) const fn new(max_line: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, scanned: 0, max_line, at_start: true }
    }

    /// The buffer to append to, and for how many bytes there should be room.
    pub(super) fn space(&mut self) -> (&mut Vec<u8>, usize) {
        // What is left of an unfinished line is part of one read, so moving it is cheap.
        self.buffer.drain(..self.start);
        self.scanned -= self.start;
        self.start = 0;
        let room = if self.buffer.is_empty() { SMALL_READ } else { LARGE_READ };
        (&mut self.buffer, room)
    }

    /// The next line that is complete, if there is one.
    ///
    /// # Errors
    ///
    /// If it is too long, complete or not. There is no line after that.
    pub(super) fn next_line(&mut self) -> Result<Option<Bytes>, TooLong> {
        let found = memchr(b'\n', &self.buffer[self.scanned..]);
        let end = found.map_or(self.buffer.len(), |at| self.scanned + at);
        if end - self.start > self.max_line {
            return Err(TooLong);
        }
        if found.is_none() {
            self.scanned = end;
            return Ok(None);
        }
        Ok(Some(self.take(end)))
    }

    /// What came after the last LF, when the stream has ended.
    pub(super) fn finish(&mut self) -> Option<Bytes> {
        let end = self.buffer.len();
        (end > self.start && end - self.start <= self.max_line).then(|| self.take(end))
    }

    /// Forgets what has been read.
    pub(super) fn clear(&mut self) {
        self.start = self.buffer.len();
        self.scanned = self.start;
        if self.buffer.capacity() > LARGE_READ {
            self.settle();
        }
    }

    /// To be called when there is nothing more to read for now: gives back what memory it can.
    pub(super) fn settle(&mut self) {
        if self.start == self.buffer.len() {
            self.buffer = Vec::new();
        } else if self.start > 0 {
            self.buffer = self.buffer[self.start..].to_vec();
        }
        self.scanned -= self.start;
        self.start = 0;
    }

    /// Takes the line that ends before `end`, where an LF is or nothing.
    fn take(&mut self, end: usize) -> Bytes {
        let next = self.buffer.len().min(end + 1);
        let mut from = self.start;
        if std::mem::replace(&mut self.at_start, false) && self.buffer[from..end].starts_with(BOM) {
            from += BOM.len();
        }
        let to = if self.buffer[from..end].ends_with(b"\r") { end - 1 } else { end };
        let rest = self.buffer.len() - next;
        if to - from < WORTH_KEEPING.max(rest) {
            // A copy, so that a small line does not keep a large buffer alive for as long as somebody holds it.
            let line = Bytes::copy_from_slice(&self.buffer[from..to]);
            self.start = next;
            self.scanned = next;
            return line;
        }
        // The line keeps the buffer and the rest, which is smaller, moves.
        let rest = self.buffer[next..].to_vec();
        let kept = std::mem::replace(&mut self.buffer, rest);
        self.start = 0;
        self.scanned = 0;
        Bytes::from(kept).slice(from..to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A generator of Marsaglia's (xorshift64): the same numbers for the same seed, everywhere.
    struct Random(u64);

    impl Random {
        const fn new(seed: u64) -> Self {
            Self(seed)
        }

        const fn next(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0
        }

        const fn below(&mut self, bound: usize) -> usize {
            (self.next() >> 11) as usize % bound
        }
    }

    fn lines(splitter: &mut Splitter, bytes: &[u8]) -> Result<Vec<Bytes>, TooLong> {
        splitter.space().0.extend_from_slice(bytes);
        let mut lines = Vec::new();
        while let Some(line) = splitter.next_line()? {
            lines.push(line);
        }
        Ok(lines)
    }

    #[test]
    fn only_lf_ends_a_line() {
        // R217, R219, R220.
        let mut splitter = Splitter::new(100);
        let text = "\u{feff}{\"a\":1}\r\n\n\u{feff}b\r\r\nx\ry\u{2028}\u{2029}\u{85}\u{b}\u{c}z\nrest";
        assert_eq!(
            lines(&mut splitter, text.as_bytes()).expect("short"),
            ["{\"a\":1}", "", "\u{feff}b\r", "x\ry\u{2028}\u{2029}\u{85}\u{b}\u{c}z"].map(Bytes::from)
        );
        assert_eq!(splitter.finish().expect("a rest"), "rest");
        assert_eq!(splitter.finish(), None);
    }

    #[test]
    fn a_line_beyond_the_limit_is_told_before_it_ends() {
        // R215.
        let mut splitter = Splitter::new(10);
        assert_eq!(lines(&mut splitter, b"0123456789\n").expect("just fits").len(), 1);
        assert_eq!(lines(&mut splitter, b"0123456789"), Ok(vec![]));
        assert_eq!(lines(&mut splitter, b"0"), Err(TooLong));
        assert_eq!(lines(&mut Splitter::new(10), b"0123456789a\n"), Err(TooLong));
    }

    #[test]
    fn no_large_buffer_is_kept() {
        let mut splitter = Splitter::new(usize::MAX);
        let big = vec![b'x'; 1 << 20];
        assert_eq!(lines(&mut splitter, &big), Ok(vec![]));
        let given = lines(&mut splitter, b"\nsmall\npart").expect("short");
        assert_eq!(given.iter().map(Bytes::len).collect::<Vec<_>>(), [1 << 20, 5]);
        assert!(splitter.buffer.capacity() < 1024);
        splitter.settle();
        assert_eq!(lines(&mut splitter, b"ial\n").expect("short"), ["partial"]);
        splitter.settle();
        assert_eq!(splitter.buffer.capacity(), 0, "an idle splitter holds no memory");
    }

    #[test]
    fn every_line_comes_out_once_and_in_order_however_the_bytes_are_cut() {
        // R218: random bytes in random chunks, among them messages, torn code points, huge lines and bare CRs.
        for seed in 1..=200 {
            let mut random = Random::new(seed);
            let mut stream = Vec::new();
            let mut expected = Vec::new();
            for number in 0..random.below(40) {
                let mut line = match random.below(4) {
                    0 => (0..random.below(50)).map(|_| random.next() as u8).filter(|byte| *byte != b'\n').collect(),
                    1 => vec![random.next() as u8 | 0x80; random.below(20_000)],
                    2 => Vec::new(),
                    _ => format!("{{\"jsonrpc\":\"2.0\",\"id\":{number},\"result\":{{\"é\":\"𝄞\u{2028}\"}}}}")
                        .into_bytes(),
                };
                if number == 0 && line.starts_with(BOM) {
                    line.clear();
                }
                stream.extend_from_slice(&line);
                if line.last() == Some(&b'\r') {
                    line.pop();
                } else if random.below(3) == 0 {
                    stream.push(b'\r');
                }
                stream.push(b'\n');
                expected.push(line);
            }
            let mut splitter = Splitter::new(usize::MAX);
            let mut given = Vec::new();
            let mut rest = &stream[..];
            while !rest.is_empty() {
                let most = [1, 10, 5_000, 100_000][random.below(4)];
                let (chunk, after) = rest.split_at(rest.len().min(1 + random.below(most)));
                given.extend(lines(&mut splitter, chunk).expect("no limit"));
                if random.below(2) == 0 {
                    splitter.settle();
                }
                rest = after;
            }
            assert!(given == expected, "seed {seed}");
            assert_eq!(splitter.finish(), None, "seed {seed}");
        }
    }
}
