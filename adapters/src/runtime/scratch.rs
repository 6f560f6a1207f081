//! One read buffer per thread.
//!
//! hyper lends uninitialised memory to read into; filling it without `unsafe` means either to zero it on each read or to
//! copy. Reading into memory that stays initialised and copying what came is the cheaper one, since most reads are short
//! or find nothing at all.

use std::cell::RefCell;
use std::task::{Poll, ready};

use hyper::rt::ReadBufCursor;

/// Room for one read; a body of megabytes still comes in few pieces.
const SIZE: usize = 64 << 10;

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; SIZE].into_boxed_slice());
}

/// Lets `read` fill a slice no longer than what `cursor` has room for, and hands over what it read.
pub(super) fn read_through<E>(
    mut cursor: ReadBufCursor<'_>,
    read: impl FnOnce(&mut [u8]) -> Poll<Result<usize, E>>,
) -> Poll<Result<(), E>> {
    SCRATCH.with_borrow_mut(|scratch| {
        let room = cursor.remaining().min(scratch.len());
        let count = ready!(read(&mut scratch[..room]))?;
        cursor.put_slice(&scratch[..count]);
        Poll::Ready(Ok(()))
    })
}
