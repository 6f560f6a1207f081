//! What the fuzzers have found once is replayed by every test run, through the same functions.

use sessile_tests::table::{Case, check_table};
use sessile_tests::{corpus, decode};

#[test]
fn the_table_passes_its_corpus() {
    let mut cases = 0;
    for (name, input) in corpus("table") {
        let Some(case) = decode::<Case>(&input) else { continue };
        // Captured, and shown with a failure.
        #[expect(clippy::print_stdout, reason = "says which input fails")]
        {
            println!("{name}: {case:?}");
        }
        check_table(case.settings, &case.steps);
        cases += 1;
    }
    assert!(cases > 0, "no input could be read");
}
