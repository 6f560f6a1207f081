//! What goes over the wire: tables of requests and answers that run over the pure core, over the service and over sockets, and
//! the behaviours of the service that take more than one request to see. No test sleeps: time is virtual,
//! and over a socket, which knows no virtual time, nothing is waited for but bytes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod alike;
mod apps;
mod batches;
mod bytes;
mod captured;
mod coverage;
mod embedding;
mod endings;
mod expect;
mod faults;
mod hooks;
mod junk;
mod lifetime;
mod modes;
mod notes;
mod numbers;
mod over_axum;
mod over_core;
mod over_service;
mod over_socket;
mod owners;
mod paths;
mod raw;
mod resume;
mod row;
mod secrets;
mod shutdown;
mod socket;
mod spans;
mod stateless;
mod store;
mod streams;
mod tools;
