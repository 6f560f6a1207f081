//! The one list, and a test for each of its entries on each stack.

use crate::stacks::{Needs, run};

/// Makes of the list a module of tests for each stack.
macro_rules! behaviours {
    ($($module:ident :: $name:ident $(($needs:ident))?,)*) => {
        /// Every name, in order.
        const NAMES: &[&str] = &[$(stringify!($name)),*];

        behaviours!(@stack simulated Simulated [$($module $name $(($needs))?,)*]);
        behaviours!(@stack tokio_paused TokioPaused [$($module $name $(($needs))?,)*]);
        behaviours!(@stack tokio_sockets TokioSockets [$($module $name $(($needs))?,)*]);
        behaviours!(@stack smol_sockets SmolSockets [$($module $name $(($needs))?,)*]);
        behaviours!(@stack async_std_sockets AsyncStdSockets [$($module $name $(($needs))?,)*]);
        behaviours!(@stack http2 Http2 [$($module $name $(($needs))?,)*]);
        behaviours!(@stack axum Axum [$($module $name $(($needs))?,)*]);

        /// The stacks, as they are called in the names of tests.
        const STACKS: [&str; 7] =
            ["simulated", "tokio_paused", "tokio_sockets", "smol_sockets", "async_std_sockets", "http2", "axum"];
    };
    (@stack $stack:ident $type:ident [$($module:ident $name:ident $(($needs:ident))?,)*]) => {
        mod $stack {
            $(
                #[test]
                fn $name() {
                    super::run::<crate::stacks::$type>(
                        stringify!($name),
                        behaviours!(@needs $($needs)?),
                        |world| Box::pin(crate::$module::$name(world)),
                    );
                }
            )*
        }
    };
    (@needs) => { super::Needs::Nothing };
    (@needs $needs:ident) => { super::Needs::$needs };
}

behaviours! {
    opening::initialize_opens_a_session,
    opening::the_version_that_is_asked_for_is_negotiated,
    opening::an_initialize_that_the_app_refuses_opens_nothing,
    opening::an_app_that_ends_before_its_answer_opens_nothing,
    opening::a_slow_initialize_becomes_a_stream(Time),
    opening::a_client_that_leaves_before_the_head_leaves_no_session,
    answers::an_answer_at_once_is_json,
    answers::notes_come_before_the_answer_and_in_order,
    answers::an_answer_later_than_the_window_is_a_stream(Time),
    answers::a_client_that_takes_one_kind_gets_it,
    answers::silence_is_filled_with_comments(Time),
    answers::calls_at_once_get_their_own_answers,
    answers::a_batch_is_answered_as_one,
    streams::the_standalone_stream_carries_what_belongs_to_no_request,
    streams::what_nobody_hears_waits_for_a_listener,
    streams::the_newest_get_carries_and_the_next_takes_over,
    streams::one_get_too_many_ends_the_oldest,
    resuming::a_request_stream_goes_on_after_a_lost_connection,
    resuming::the_standalone_stream_goes_on_after_a_lost_connection,
    resuming::a_stream_that_was_delivered_is_over,
    resuming::what_was_never_given_can_not_be_resumed,
    resuming::an_app_sends_its_client_away_and_it_comes_back,
    resuming::listeners_are_sent_away_and_come_back,
    resuming::a_connection_is_ended_so_that_its_client_polls(Time),
    resuming::only_those_who_expect_it_are_primed,
    cancelling::a_cancelled_call_ends_without_an_answer,
    cancelling::a_cancellation_of_nothing_is_accepted,
    cancelling::a_lost_connection_cancels_nothing_in_a_session,
    cancelling::a_lost_connection_cancels_a_modern_request,
    ending::delete_answers_what_is_open_with_errors,
    ending::a_session_that_is_gone_is_unknown,
    ending::an_app_that_crashes_ends_its_session,
    ending::an_idle_session_expires_and_a_busy_one_does_not(Time),
    ending::a_session_that_is_never_used_expires(Time),
    ending::a_lifetime_ends_a_busy_session_too(Time),
    limits::a_full_table_says_when_to_come_back,
    limits::the_longest_idle_makes_room,
    limits::too_many_requests_in_flight,
    limits::an_id_in_flight_is_taken,
    limits::a_body_that_is_too_large_is_refused,
    limits::a_body_that_does_not_come_is_given_up(Time),
    limits::what_waits_for_a_reader_is_bounded,
    limits::a_reader_that_does_not_read_is_cut_off(OurConnections),
    limits::a_connection_that_asks_nothing_is_closed(OneExchange),
    owners::a_foreign_session_is_as_unknown_as_none,
    owners::everybody_has_their_own,
    refusals::hosts_and_origins_are_checked,
    refusals::other_methods_are_refused,
    refusals::hostile_headers_break_nothing,
    refusals::what_is_no_message_is_refused,
    stateless::each_request_is_served_alone,
    modern::a_request_needs_no_session_and_ignores_one,
    modern::an_unknown_method_is_not_found,
    modern::headers_must_agree_with_the_body,
    modern::where_only_sessions_are_served_it_is_told_so,
    modern::a_silent_request_is_kept_alive(Time),
    asking::an_app_asks_its_client_within_a_call,
    asking::where_there_is_no_way_to_ask_the_app_is_told,
    asking::a_question_that_was_taken_waits_for_its_client(Time),
    shutdown::streams_end_and_calls_finish,
    shutdown::what_is_left_gets_an_error,
    apps_of_sessions::it_answers_and_ends_with_its_session,
    apps_of_sessions::it_ends_and_its_session_with_it,
    rows::methods,
    rows::host_origin,
    rows::cors,
    rows::media,
    rows::version,
    rows::modern,
    rows::eras,
    rows::session,
    rows::body,
    rows::initialize,
    rows::answers,
    rows::limits,
    rows::endings,
}

/// Each stack has the same tests, as the test program itself lists them.
#[test]
fn every_stack_has_the_whole_list() {
    let program = std::env::current_exe().expect("this program");
    let output = std::process::Command::new(program).arg("--list").output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("names");
    let mut wanted = NAMES.to_vec();
    wanted.sort_unstable();
    for stack in STACKS {
        let prefix = format!("list::{stack}::");
        let lines = text.lines().filter_map(|line| line.strip_prefix(&prefix)?.strip_suffix(": test"));
        let mut found: Vec<_> = lines.collect();
        found.sort_unstable();
        assert_eq!(found, wanted, "{stack}");
    }
}
