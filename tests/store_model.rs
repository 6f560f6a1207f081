//! Clients read each event once and in order, whatever the store of a session does.

use proptest::prelude::*;
use sessile_tests::store::{Case, check_store};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn each_event_is_read_once_and_in_order_whatever_the_store_does(case in Case::strategy()) {
        check_store(case.settings, &case.steps);
    }
}
