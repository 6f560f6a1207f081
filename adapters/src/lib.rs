//! MCP sessions over Streamable HTTP.
pub mod runtime;
pub use sessile_core as core;
