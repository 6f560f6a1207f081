//! One session against its reference model.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sessile_tests::session::{Case, check_session};

fuzz_target!(|case: Case| check_session(case.settings, &case.steps));
