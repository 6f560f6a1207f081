//! The program `sessile` from outside: real processes, real sockets, hostile children and hostile clients.
//!
//! Each test starts a program of its own on a free port of the loopback address. A test waits for a condition, never for
//! a time; where it says how long something may take, the bound is generous, since the machine may be busy.
//!
//! Numbers such as R022 name the field reports whose fault the test rules out.

// Processes are found through /proc.
#![cfg(target_os = "linux")]

mod admission;
mod answers;
mod children;
mod clients;
mod crashes;
mod demo;
mod ends;
mod harness;
mod http;
mod lifetime;
mod log;
mod modern;
mod noise;
mod process_one;
mod session;
mod shutdown;
mod stateless;
mod streams;
mod warden;
