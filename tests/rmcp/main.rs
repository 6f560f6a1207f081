//! A handler of the crate rmcp on our sessions: what it finds, what it says and where that is heard, in both eras.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod handler;
mod legacy;
mod modern;
mod mounted;
mod runtimes;
