//! The session table against its reference model.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sessile_tests::table::{Case, check_table};

fuzz_target!(|case: Case| check_table(case.settings, &case.steps));
