//! What the fuzzers have found once is replayed by every test run, through the same functions.

use std::fmt::Debug;

use arbitrary::Arbitrary;
use sessile_tests::{corpus, decode, session, store, table};

#[test]
fn the_session_passes_its_corpus() {
    replay::<session::Case>("session", |case| session::check_session(case.settings, &case.steps));
}

#[test]
fn the_store_passes_its_corpus() {
    replay::<store::Case>("store", |case| store::check_store(case.settings, &case.steps));
}

#[test]
fn the_table_passes_its_corpus() {
    replay::<table::Case>("table", |case| table::check_table(case.settings, &case.steps));
}

fn replay<T: for<'a> Arbitrary<'a> + Debug>(target: &str, check: impl Fn(&T)) {
    let mut cases = 0;
    for (name, input) in corpus(target) {
        let Some(case) = decode::<T>(&input) else { continue };
        // Captured, and shown with a failure.
        #[expect(clippy::print_stdout, reason = "says which input fails")]
        {
            println!("{name}: {case:?}");
        }
        check(&case);
        cases += 1;
    }
    assert!(cases > 0, "no input could be read");
}
