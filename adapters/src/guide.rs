//! Guides, one for each kind of reader, and the tables of limits and errors.
//!
//! | you | read |
//! | --- | --- |
//! | have a server, and want it served in a few lines on a runtime and an HTTP stack of your choice | [`serve`] |
//! | have a loop of your own, and want the decisions alone | [`mod@core`] |
//! | fuzz and property-test session logic | [`mod@test`] |
//! | only run the program | [`program`] |
//! | look for a setting | [`limits`] |
//! | look for what an error means | [`errors`] |

#[doc = include_str!("guide/core.md")]
pub mod core {}
#[doc = include_str!("guide/errors.md")]
pub mod errors {}
#[doc = include_str!("guide/limits.md")]
pub mod limits {}
#[doc = include_str!("guide/program.md")]
pub mod program {}
#[doc = include_str!("guide/serve.md")]
pub mod serve {}
#[doc = include_str!("guide/test.md")]
pub mod test {}
