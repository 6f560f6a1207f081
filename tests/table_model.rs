//! The session table does what its reference model does, whatever is done to it.

use proptest::prelude::*;
use sessile_tests::table::{Case, check_table};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn the_table_agrees_with_its_model(case in Case::strategy()) {
        check_table(case.settings, &case.steps);
    }
}
