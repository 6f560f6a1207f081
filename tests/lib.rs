//! What proves sessile: reference models, the steps that drive a model and the real thing side by side, and the checks
//! between the two. The suites beside this file, the fuzz targets in `fuzz/` and the replay of their corpora all call
//! the same functions here.

#[cfg(feature = "client")]
pub mod client;
pub mod events;
#[cfg(feature = "sim")]
pub mod line;
#[cfg(feature = "client")]
pub mod principals;
pub mod pure;
pub mod session;
#[cfg(feature = "sim")]
pub mod sim;
pub mod store;
pub mod table;
#[cfg(feature = "client")]
pub mod threads;

use std::path::PathBuf;

use arbitrary::{Arbitrary, Unstructured};

/// The inputs that are committed for a fuzz target, with their file names, in order of name.
///
/// # Panics
///
/// If there are none: a replay of nothing proves nothing.
#[must_use]
pub fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries
        .map(|entry| {
            let path = entry.expect("a readable folder").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (name, std::fs::read(path).expect("a readable file"))
        })
        .collect();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files.sort();
    files
}

/// Reads a fuzz input as the fuzzer does. `None` if it is too short to be one.
#[must_use]
pub fn decode<'a, T: Arbitrary<'a>>(input: &'a [u8]) -> Option<T> {
    T::arbitrary_take_rest(Unstructured::new(input)).ok()
}
