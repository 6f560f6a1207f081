//! What is this request?
