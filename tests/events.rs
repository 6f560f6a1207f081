//! A stream of events as its reader sees it.

/// One event that came to its end. Comments are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamEvent {
    /// `None` if it has no data.
    pub data: Option<String>,
    /// Where to go on after it.
    pub id: Option<String>,
    /// What it says about coming back, in milliseconds.
    pub retry: Option<u64>,
}

/// Puts events together from pieces that end anywhere. What has not come to its end counts for nothing.
#[derive(Clone, Debug, Default)]
pub struct EventReader {
    unread: Vec<u8>,
}

impl EventReader {
    /// Takes more of the stream.
    pub fn push(&mut self, piece: &[u8]) {
        self.unread.extend_from_slice(piece);
    }
}

/// The events that are complete.
impl Iterator for EventReader {
    type Item = StreamEvent;

    fn next(&mut self) -> Option<StreamEvent> {
        loop {
            let end = self.unread.windows(2).position(|pair| pair == b"\n\n")? + 2;
            let text = String::from_utf8(self.unread.drain(..end).collect()).expect("events are UTF-8");
            let mut event = StreamEvent::default();
            for line in text.lines() {
                let (field, value) = line.split_once(':').unwrap_or((line, ""));
                let value = value.strip_prefix(' ').unwrap_or(value);
                match field {
                    "data" if value.is_empty() && event.data.is_none() => {}
                    "data" => match &mut event.data {
                        Some(data) => *data = format!("{data}\n{value}"),
                        none => *none = Some(value.to_owned()),
                    },
                    "id" => event.id = Some(value.to_owned()),
                    "retry" => event.retry = value.parse().ok(),
                    _ => {}
                }
            }
            if event != StreamEvent::default() {
                return Some(event);
            }
        }
    }
}
