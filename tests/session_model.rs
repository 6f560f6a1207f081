//! A session does what its reference model does, whatever client, app, driver and clock do to it.

use proptest::prelude::*;
use sessile_tests::session::{Case, check_session};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    // R069: ids come from a small pool, and each answer has to be on the stream of its request.
    #[test]
    fn the_session_agrees_with_its_model(case in Case::strategy()) {
        check_session(case.settings, &case.steps);
    }
}
