//! The simulated runtime itself.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sessile::runtime::{Runtime as _, Timer as _};
use sessile_core::Timestamp;
use sessile_tests::sim::{Sim, promise, run};

/// Tasks that note their number, some with a pause.
async fn order(sim: Sim) -> Vec<usize> {
    let order = Arc::new(Mutex::new(Vec::new()));
    let tasks: Vec<_> = (0..20)
        .map(|number| {
            let (order, clock) = (Arc::clone(&order), sim.clone());
            sim.task(async move {
                clock.sleep(Duration::from_millis(number as u64 % 3)).await;
                order.lock().unwrap().push(number);
            })
        })
        .collect();
    for task in tasks {
        task.await;
    }
    let order = order.lock().unwrap();
    order.clone()
}

#[test]
fn the_seed_decides_the_order_and_time_does_what_it_should() {
    let (one, trace) = run(7, order);
    assert_eq!((&one, &trace), (&run(7, order).0, &run(7, order).1));
    assert_ne!(one, run(8, order).0);
    assert!(one.is_sorted_by_key(|number| number % 3), "{one:?}");
}

#[test]
fn time_passes_only_when_nothing_else_can_happen() {
    let ((), _) = run(1, |sim| async move {
        sim.sleep(Duration::from_secs(1_000_000)).await;
        assert_eq!(sim.now(), Timestamp::from_secs(1_000_000));
        let mut timer = sim.timer_at(Timestamp::MAX);
        timer.reset(Timestamp::from_secs(1_000_001));
        timer.await;
        assert_eq!(sim.now(), Timestamp::from_secs(1_000_001));
    });
}

#[test]
#[should_panic(expected = "nothing can happen any more")]
fn waiting_for_nothing_is_told() {
    run(1, |_| std::future::pending::<()>());
}

#[test]
#[should_panic(expected = "tasks are left")]
fn a_task_that_is_left_is_told() {
    run(1, |sim| async move { sim.spawn(std::future::pending()) });
}

/// From `Drop`, and after the end.
#[test]
fn spawning_is_possible_anywhere() {
    struct Spawning(Sim, Arc<AtomicUsize>);
    impl Drop for Spawning {
        fn drop(&mut self) {
            let ran = Arc::clone(&self.1);
            self.0.spawn(async move {
                ran.fetch_add(1, Ordering::SeqCst);
            });
        }
    }
    let ran = Arc::new(AtomicUsize::new(0));
    let (left, _) = run(1, |sim| {
        let ran = Arc::clone(&ran);
        async move {
            let (outlet, told) = promise();
            let spawning = Spawning(sim.clone(), Arc::clone(&ran));
            sim.spawn(async move {
                drop(spawning);
                outlet.put(());
            });
            told.await;
            Spawning(sim, ran)
        }
    });
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    drop(left);
    assert_eq!(ran.load(Ordering::SeqCst), 1, "the run is over");
}
