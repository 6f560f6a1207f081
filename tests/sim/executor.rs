//! One thread, virtual time, and a seed that picks the next task.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use fastrand::Rng;
use sessile::runtime::{Runtime, Timer};
use sessile_core::Timestamp;

use super::tasks::{Joined, promise};

/// The runtime of one simulated run. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub struct Sim(Arc<Shared>);

struct Shared(Mutex<State>);

struct State {
    /// The run is over: nothing is started any more.
    ended: bool,
    next: u64,
    now: Timestamp,
    /// Tasks that were woken, each once.
    ready: Vec<TaskId>,
    rng: Rng,
    tasks: BTreeMap<TaskId, Task>,
    timers: BTreeMap<(Timestamp, u64), Waker>,
    trace: Vec<Step>,
}

type TaskId = u64;
type TaskFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// `None` while it is polled.
struct Task(Option<TaskFuture>);

/// The future that was given to [`run`]. It is no task, since it may borrow.
const MAIN: TaskId = 0;

/// No run of a test needs nearly so many; beyond it two tasks wake each other for ever.
const MOST_STEPS: usize = 20_000_000;

/// One thing that happened in a run, for comparing runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Time moved on, to this.
    Time(Timestamp),
    /// A task was polled.
    Task(u64),
    /// Bytes went through a pipe of the network, or its end did (0).
    Bytes {
        /// Of the pipe.
        number: u64,
        /// How many.
        length: usize,
    },
}

/// Runs what `start` makes of a fresh runtime to its end, and then every task to its own. Gives what it came to, and the trace.
///
/// # Panics
///
/// With the seed, if anything in it panics, if nothing can ever happen again before the end, or if a task is left that waits for
/// nothing.
pub fn run<F: Future>(seed: u64, start: impl FnOnce(Sim) -> F) -> (F::Output, Vec<Step>) {
    let _replay = Replay(seed);
    let sim = Sim(Arc::new(Shared(Mutex::new(State {
        ended: false,
        next: MAIN + 1,
        now: Timestamp::ZERO,
        ready: vec![MAIN],
        rng: Rng::with_seed(seed),
        tasks: BTreeMap::new(),
        timers: BTreeMap::new(),
        trace: Vec::new(),
    }))));
    let _end = EndOnDrop(&sim);
    let output = sim.drive(start(sim.clone()));
    sim.finish();
    let trace = std::mem::take(&mut sim.lock().trace);
    (output, trace)
}

impl Sim {
    /// A generator of random numbers that is nobody else's, from the seed of the run.
    #[must_use]
    pub fn fork(&self) -> Rng {
        self.lock().rng.fork()
    }

    /// Starts a task whose output can be waited for.
    pub fn task<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> Joined<T> {
        let (outlet, joined) = promise();
        self.spawn(async move { outlet.put(task.await) });
        joined
    }

    /// Lets time pass.
    pub async fn sleep(&self, time: Duration) {
        self.timer_at(self.now().saturating_add(time)).await;
    }

    /// Ends the run where it is: what is left of tasks and timers is dropped, and nothing is started any more.
    pub fn abandon(&self) {
        let mut state = self.lock();
        state.ended = true;
        let (tasks, timers) = (std::mem::take(&mut state.tasks), std::mem::take(&mut state.timers));
        drop(state);
        drop((tasks, timers));
    }

    /// Writes down that bytes moved.
    pub(super) fn note(&self, step: Step) {
        self.lock().trace.push(step);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A run that failed may have failed here, and is still to be put away.
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn drive<F: Future>(&self, main: F) -> F::Output {
        let mut main = pin!(main);
        let waker = self.waker(MAIN);
        loop {
            match self.next_ready() {
                Some(MAIN) => {
                    if let Poll::Ready(output) = main.as_mut().poll(&mut Context::from_waker(&waker)) {
                        return output;
                    }
                }
                Some(task) => self.poll_task(task),
                None => assert!(self.advance(), "nothing can happen any more: {}", self.describe()),
            }
        }
    }

    /// Runs what is left.
    fn finish(&self) {
        loop {
            match self.next_ready() {
                Some(MAIN) => {}
                Some(task) => self.poll_task(task),
                None if self.lock().tasks.is_empty() => return,
                None => assert!(self.advance(), "tasks are left: {}", self.describe()),
            }
        }
    }

    fn describe(&self) -> String {
        let state = self.lock();
        format!("{} tasks at {:?}", state.tasks.len(), state.now)
    }

    fn next_ready(&self) -> Option<TaskId> {
        let mut state = self.lock();
        let State { ready, rng, trace, .. } = &mut *state;
        if ready.is_empty() {
            return None;
        }
        assert!(trace.len() < MOST_STEPS, "the run does not come to an end");
        let task = ready.swap_remove(rng.usize(..ready.len()));
        trace.push(Step::Task(task));
        Some(task)
    }

    fn poll_task(&self, id: TaskId) {
        let Some(mut future) = self.lock().tasks.get_mut(&id).and_then(|task| task.0.take()) else { return };
        let polled = future.as_mut().poll(&mut Context::from_waker(&self.waker(id)));
        let mut state = self.lock();
        match polled {
            Poll::Pending => drop(state.tasks.insert(id, Task(Some(future)))),
            Poll::Ready(()) => {
                state.tasks.remove(&id);
                // What it drops may start tasks.
                drop(state);
                drop(future);
            }
        }
    }

    /// Jumps to the next timer and wakes all that are due then. `false`: there is none.
    fn advance(&self) -> bool {
        let due: Vec<_> = {
            let mut state = self.lock();
            let Some((&(at, _), _)) = state.timers.first_key_value() else { return false };
            state.now = at;
            state.trace.push(Step::Time(at));
            let later = state.timers.split_off(&(at, u64::MAX));
            std::mem::replace(&mut state.timers, later).into_values().collect()
        };
        due.into_iter().for_each(Waker::wake);
        true
    }

    fn waker(&self, task: TaskId) -> Waker {
        Waker::from(Arc::new(TaskWaker { task, sim: Arc::downgrade(&self.0) }))
    }
}

impl Runtime for Sim {
    type Timer = SimTimer;

    fn now(&self) -> Timestamp {
        self.lock().now
    }

    fn timer_at(&self, at: Timestamp) -> SimTimer {
        SimTimer { at, number: None, sim: self.clone() }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut state = self.lock();
        if state.ended {
            drop(state);
            drop(task);
            return;
        }
        let id = state.next;
        state.next += 1;
        state.tasks.insert(id, Task(Some(Box::pin(task))));
        state.ready.push(id);
    }
}

impl std::fmt::Debug for Sim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sim({})", self.describe())
    }
}

/// A timer of virtual time.
#[derive(Debug)]
pub struct SimTimer {
    at: Timestamp,
    /// Its place among the timers, once it was polled.
    number: Option<u64>,
    sim: Sim,
}

impl SimTimer {
    fn forget(&mut self) {
        if let Some(number) = self.number.take() {
            let waker = self.sim.lock().timers.remove(&(self.at, number));
            drop(waker);
        }
    }
}

impl Timer for SimTimer {
    fn reset(&mut self, at: Timestamp) {
        self.forget();
        self.at = at;
    }
}

impl Future for SimTimer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut state = this.sim.lock();
        if this.at <= state.now {
            drop(state);
            this.forget();
            return Poll::Ready(());
        }
        let number = *this.number.get_or_insert_with(|| {
            state.next += 1;
            state.next
        });
        let former = state.timers.insert((this.at, number), cx.waker().clone());
        drop(state);
        drop(former);
        Poll::Pending
    }
}

impl Drop for SimTimer {
    fn drop(&mut self) {
        self.forget();
    }
}

struct TaskWaker {
    task: TaskId,
    sim: Weak<Shared>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        let Some(shared) = self.sim.upgrade() else { return };
        let Ok(mut state) = shared.0.lock() else { return };
        let lives = self.task == MAIN || state.tasks.contains_key(&self.task);
        if lives && !state.ready.contains(&self.task) {
            state.ready.push(self.task);
        }
    }
}

/// Drops the tasks of a run that did not come to its end: they hold the runtime, and it holds them.
struct EndOnDrop<'a>(&'a Sim);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// Says how to run it again.
struct Replay(u64);

impl Drop for Replay {
    #[expect(clippy::print_stderr, reason = "the test harness shows it with the failure")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the run failed: SESSILE_SEED={} runs it again", self.0);
        }
    }
}
