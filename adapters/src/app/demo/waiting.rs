//! What takes time: it waits, sends notifications, or asks the client.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use super::DemoState;
use super::listen::Subscription;
use super::log::{self, Target};
use super::question::{Heard, Question};
use super::tools::{failure, text};
use crate::app::{Context, Reply};

/// A request that takes time, and whose parameters have been read.
pub(super) enum Waiting {
    Ask(Question),
    Listen(Subscription),
    Log { target: Target, n: u32 },
    Slow { time: Duration },
}

impl Waiting {
    pub(super) async fn run(self, context: Context<DemoState>) -> Reply {
        match self {
            Self::Ask(question) => ask(&context, &question).await,
            Self::Listen(subscription) => subscription.run(&context).await,
            Self::Log { target, n } => send_notes(&context, target, n).await,
            Self::Slow { time } => slow(&context, time).await,
        }
    }
}

/// How often progress is reported.
const TICK: Duration = Duration::from_millis(200);

async fn slow(context: &Context<DemoState>, time: Duration) -> Reply {
    let total = time.as_secs_f64();
    if context.wants_progress() && !time.is_zero() {
        // One timer for the whole, so that the ticks may come late without delaying the end.
        let mut whole = pin!(context.sleep(time));
        let mut done = Duration::ZERO;
        while !comes_first(whole.as_mut(), pin!(context.sleep(TICK))).await {
            done += TICK;
            if done < time {
                context.progress(done.as_secs_f64(), Some(total), None);
            }
        }
        context.progress(total, Some(total), None);
    } else if !time.is_zero() {
        context.sleep(time).await;
    }
    text(context, &format!("Done after {total} seconds."))
}

/// Whether the first of the two is done before the other, or with it.
async fn comes_first(mut one: Pin<&mut impl Future>, mut other: Pin<&mut impl Future>) -> bool {
    poll_fn(|cx| {
        if one.as_mut().poll(cx).is_ready() {
            return Poll::Ready(true);
        }
        other.as_mut().poll(cx).map(|_| false)
    })
    .await
}

async fn send_notes(context: &Context<DemoState>, target: Target, n: u32) -> Reply {
    /// How many are sent at a stretch. A stream holds a bounded number that nobody has read and drops the oldest beyond, so
    /// that its reader needs a turn now and then; how often it gets one if we only yield is up to the runtime.
    const STRETCH: u32 = 256;
    const PAUSE: Duration = Duration::from_millis(1);
    let mut sent = 0_u32;
    for number in 1..=n {
        sent += u32::from(log::send(context, target, number, n));
        if number % STRETCH == 0 && number < n {
            context.sleep(PAUSE).await;
        }
    }
    let filtered = if sent == n {
        ""
    } else if context.state().level.load(Ordering::Relaxed) == log::SILENT {
        "; the request names no log level"
    } else {
        "; the others are below the level that the client has set"
    };
    text(context, &format!("Sent {sent} of {n} log messages{filtered}."))
}

/// Asks the client while the call waits.
async fn ask(context: &Context<DemoState>, question: &Question) -> Reply {
    if !question.is_declared(context.state()) {
        return failure(context, question.undeclared());
    }
    let answer = match context.request(question.method(), &question.params()).await {
        Ok(answer) => answer,
        Err(error) => return failure(context, &format!("Asking the {} failed: {error}.", question.asked())),
    };
    match question.read(&answer) {
        Heard::Text(said) => text(context, &said),
        Heard::Nothing(why) => failure(context, why),
        Heard::Unreadable(why) => failure(context, &why),
    }
}
