//! One session and a store that is late, fails, lies or keeps silent.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sessile_tests::store::{Case, check_store};

fuzz_target!(|case: Case| check_store(case.settings, &case.steps));
