//! Tests, on operating-system threads, of stopping the world and of changing the number of Ps.

use std::cell::RefCell;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use crate::several::{go_each, join_all, spawn_each};
use gmp_sched::native;
use gmp_sched::procs::ProcsError;
use gmp_sched::stop_the_world::StopReason;
use thread_tests::THREADS;

/// The state that the Gs of a test share.
#[derive(Default)]
struct Scene {
    is_stopped: AtomicBool,
    steps: AtomicU64,
    finished: AtomicUsize,
}

impl Scene {
    fn step(&self) {
        assert!(!self.is_stopped.load(Ordering::SeqCst), "a G runs while the world is stopped");
        self.steps.fetch_add(1, Ordering::SeqCst);
    }

    /// Stops the world and checks that no other G runs.
    fn stop(&self) {
        let world = native::stop_the_world();
        assert!(!self.is_stopped.swap(true, Ordering::SeqCst), "stopped twice");
        let steps = self.steps.load(Ordering::SeqCst);
        (0..3).for_each(|_| thread::yield_now());
        assert_eq!(self.steps.load(Ordering::SeqCst), steps);
        self.is_stopped.store(false, Ordering::SeqCst);
        drop(world);
    }
}

/// The body of one G of the stress test: performs six random operations.
fn act(scene: &Scene, seed: u32) {
    let mut random = fastrand::Rng::with_seed(u64::from(seed));
    for _ in 0..6 {
        scene.step();
        match random.u8(..64) {
            0..4 => native::sleep(Duration::from_micros(random.u64(..300))),
            4..8 => native::blocking(|| thread::sleep(Duration::from_micros(20))),
            8..12 => native::syscall(|| thread::sleep(Duration::from_micros(20))),
            12..20 => native::syscall(|| ()),
            20 => native::go(native::yield_now).join().unwrap(),
            21..24 => {
                let _locked = native::lock_thread();
                let before = thread::current().id();
                native::yield_now();
                native::blocking(thread::yield_now);
                native::sleep(Duration::from_micros(random.u64(..100)));
                assert_eq!(thread::current().id(), before, "a locked G changed its thread");
            }
            _ => native::yield_now(),
        }
    }
    scene.finished.fetch_add(1, Ordering::SeqCst);
}

/// Runs `goroutines` Gs while other Gs change the number of Ps and stop the world.
fn stress(processors: usize, goroutines: usize) {
    let scene = Arc::new(Scene::default());
    let shared = scene.clone();
    let (counts, stops) = THREADS.run_with(processors, move |scheduler| {
        // This call makes sure that the world is stopped at least once, because the Gs that call `act` may all end
        // before one of the `disturbers` runs for the first time.
        shared.stop();
        let disturbers = spawn_each(0..3u32, |n| {
            let scene = shared.clone();
            move || {
                let mut random = fastrand::Rng::with_seed(u64::from(n));
                while scene.finished.load(Ordering::SeqCst) < goroutines {
                    match random.bool() {
                        true => scene.stop(),
                        false => drop(native::set_procs(random.usize(1..=processors)).unwrap()),
                    }
                    native::sleep(Duration::from_micros(random.u64(..500)));
                }
            }
        });
        join_all(spawn_each(0..goroutines, |n| {
            let scene = shared.clone();
            move || act(&scene, n as u32)
        }));
        join_all(disturbers);
        // The joiner of a G may continue before the G is counted as finished.
        while scheduler.counts().finished < scheduler.counts().spawned {
            native::yield_now();
        }
        (scheduler.counts(), scheduler.stops())
    });
    assert_eq!(scene.finished.load(Ordering::SeqCst), goroutines);
    assert!(stops.count > 0 && stops.longest_for.is_some(), "{stops:?}");
    assert_eq!(counts.spawned, counts.finished, "{counts:?}");
}

#[test]
fn stress_with_2_machines() {
    stress(2, 4000);
}

#[test]
fn stress_with_8_machines() {
    stress(8, 4000);
}

#[test]
fn stress_with_64_machines() {
    stress(64, 4000);
}

/// This test takes too long for an ordinary run. This command runs it: `cargo test -p thread-tests --test threads --
/// --ignored stop_the_world`.
#[test]
#[ignore = "takes minutes"]
fn long_stress() {
    for round in 0..40 {
        stress([2, 3, 4, 8, 16, 32, 64][round % 7], 20_000);
    }
}

#[test]
fn set_procs_sets_the_number_of_ps() {
    THREADS.run_with(2, |scheduler| {
        assert_eq!((scheduler.procs(), scheduler.procs_limit()), (2, native::PROCS_LIMIT));
        assert_eq!(native::set_procs(5), Ok(2));
        assert_eq!((scheduler.procs(), scheduler.processors().len()), (5, 5));
        assert_eq!(native::set_procs(1), Ok(5));
        assert_eq!(native::set_procs(1), Ok(1));
        // The world was stopped once for each change. The last call changed nothing, so it did not stop the world.
        assert_eq!(scheduler.stops().count, 2);
        assert!(scheduler.stops().longest_for == Some(StopReason::Procs) || scheduler.stops().longest.is_zero());
    });
}

#[test]
fn set_procs_out_of_range_changes_nothing() {
    THREADS.run_with(2, |scheduler| {
        let error = ProcsError::OutOfRange { limit: native::PROCS_LIMIT };
        assert_eq!((native::set_procs(0), native::set_procs(native::PROCS_LIMIT + 1)), (Err(error), Err(error)));
        assert_eq!(error.to_string(), "the number of Ps must be 1 to 64");
        assert_eq!((scheduler.procs(), scheduler.stops().count), (2, 0));
    });
}

/// Six Gs wait for each other without calling the scheduler. With six Ps, all Gs arrive; with fewer, the test would
/// hang.
#[test]
fn more_ps_run_more_gs_at_the_same_time() {
    THREADS.run(1, || {
        native::set_procs(6).unwrap();
        let arrived = Arc::new(AtomicUsize::new(0));
        join_all(spawn_each(0..6, |_| {
            let arrived = arrived.clone();
            move || {
                arrived.fetch_add(1, Ordering::SeqCst);
                while arrived.load(Ordering::SeqCst) < 6 {
                    thread::yield_now();
                }
            }
        }));
    });
}

/// A locked G stays on its thread whatever it does, and no other G runs on that thread.
#[test]
fn locked_g_is_alone_on_its_thread() {
    thread_local!(static VISITOR: std::cell::Cell<usize> = const { std::cell::Cell::new(0) });
    /// Not inlined, because a G that is not locked may continue on another thread, and the compiler may keep the
    /// address of a thread-local variable within one function.
    #[inline(never)]
    fn visitor() -> usize {
        VISITOR.get()
    }
    for processors in [1, 2, 4] {
        THREADS.run(processors, || {
            let handles = go_each(1..20, move |n| {
                let outer = native::lock_thread();
                VISITOR.set(n);
                for round in 0..30 {
                    match round % 5 {
                        0 => native::yield_now(),
                        1 => native::go(native::yield_now).join().unwrap(),
                        2 => native::blocking(thread::yield_now),
                        3 => native::sleep(Duration::from_micros(30)),
                        // Dropping the inner guard does not unlock the G.
                        _ => drop(native::lock_thread()),
                    }
                    assert_eq!(VISITOR.get(), n);
                }
                VISITOR.set(0);
                drop(outer);
            });
            let others = go_each(0..50, move |_| {
                for _ in 0..50 {
                    assert_eq!(visitor(), 0, "on the thread of a locked G");
                    native::yield_now();
                }
            });
            handles.into_iter().chain(others).for_each(|handle| handle.join().unwrap());
        });
    }
}

/// Either side of a coroutine may be locked to a thread. That side then stays on its thread.
#[test]
fn coroutine_leaves_locked_gs_on_their_threads() {
    for (processors, is_outer_locked, is_inner_locked) in
        [(1, true, false), (1, false, true), (1, true, true), (3, true, false), (3, false, true), (3, true, true)]
    {
        THREADS.run(processors, move || {
            let others = go_each(0..4, move |_| (0..200).for_each(|_| native::yield_now()));
            let outer = is_outer_locked.then(|| native::lock_thread());
            let here = thread::current().id();
            let mut places = native::pull(move |yielder| {
                let inner = is_inner_locked.then(|| native::lock_thread());
                while yielder.yield_value(thread::current().id()) {}
                drop(inner);
            });
            let first = places.next();
            for _ in 0..50 {
                let place = places.next();
                native::yield_now();
                assert!(!is_inner_locked || place == first, "the inner G changed its thread");
                assert!(!is_outer_locked || thread::current().id() == here, "the outer G changed its thread");
                assert!(!is_outer_locked || place != Some(here), "on the thread of a locked G");
            }
            places.stop();
            drop(outer);
            join_all(others);
        });
    }
}

/// A G that ends while it is locked unlocks its M. So with one P and thousands of such Gs, the number of Ms stays
/// small.
#[test]
fn g_that_ends_locked_unlocks_its_m() {
    THREADS.run_with(1, |scheduler| {
        for _ in 0..2000 {
            native::go(|| std::mem::forget(native::lock_thread())).join().unwrap();
        }
        assert!(scheduler.machines().count() < 10, "{} Ms", scheduler.machines().count());
        assert!(scheduler.machines().all(|machine| machine.locked_goroutine().is_none()));
    });
}

/// A G leaves its [`LockedThread`](gmp_sched::lock_os_thread::LockedThread) in a thread-local variable. Another G that
/// drops the value does not unlock itself, whether or not it is locked, and neither does the end of the thread.
#[test]
fn g_cannot_be_unlocked_by_the_lock_of_another_g() {
    type Lock = gmp_sched::lock_os_thread::LockedThread<native::Native>;
    std::thread_local! {
        static KEPT: RefCell<Vec<Lock>> = const { RefCell::new(Vec::new()) };
    }
    fn keep() {
        KEPT.with_borrow_mut(|kept| kept.push(native::lock_thread()));
    }
    THREADS.run_with(1, |scheduler| {
        let is_locked = || scheduler.machines().any(|machine| machine.locked_goroutine().is_some());
        // The G ends locked, so its M is unlocked, and runs the next G as well.
        native::go(|| (0..3).for_each(|_| keep())).join().unwrap();
        native::go(move || {
            let mine = native::lock_thread();
            assert!(KEPT.with_borrow_mut(Vec::pop).is_some(), "the Gs run on one thread");
            assert!(is_locked(), "the value of another G has unlocked this one");
            drop(mine);
            assert!(!is_locked());
            assert!(KEPT.with_borrow_mut(Vec::pop).is_some());
            drop(native::lock_thread());
            assert!(!is_locked(), "the depth of the locks has changed");
        })
        .join()
        .unwrap();
    });
}

/// The two Gs of a coroutine switch to each other directly, without a pick. They stop with the world nevertheless. If
/// they did not, the stop would last until the coroutine has yielded all its values.
#[test]
fn coroutine_stops_with_the_world() {
    const VALUES: usize = 30_000_000;
    THREADS.run(2, || {
        let [is_running, is_over] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let (runs, ends) = (is_running.clone(), is_over.clone());
        let puller = native::go(move || {
            let values = native::pull(|yielder| while yielder.yield_value(()) {}).take(VALUES);
            let values = values.take_while(|()| {
                runs.store(true, Ordering::Relaxed);
                !ends.load(Ordering::Relaxed)
            });
            values.count()
        });
        // The main G keeps its P busy, so that the other P runs the coroutine.
        while !is_running.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        for _ in 0..3 {
            drop(native::stop_the_world());
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(puller.join().unwrap() < VALUES, "the world stopped only after the end of the coroutine");
    });
}

/// If several Gs want to stop the world, they do so one by one, in FIFO order.
#[test]
fn concurrent_stops_are_served_in_order() {
    THREADS.run(1, || {
        // With one P, no other G runs between the moment when a G logs its arrival and the beginning of its wait.
        let arrivals = Arc::new(std::sync::Mutex::new(Vec::new()));
        let log = Arc::new(std::sync::Mutex::new(Vec::new()));
        let world = native::stop_the_world();
        let handles = spawn_each(0..4, |n| {
            let (arrivals, log) = (arrivals.clone(), log.clone());
            move || {
                arrivals.lock().unwrap().push(n);
                let world = native::stop_the_world();
                log.lock().unwrap().push(n);
                drop(world);
            }
        });
        drop(world);
        join_all(handles);
        assert_eq!(log.lock().unwrap().len(), 4);
        assert_eq!(*log.lock().unwrap(), *arrivals.lock().unwrap());
    });
}

#[test]
#[should_panic(expected = "the world is stopped, by the caller itself")]
fn second_stop_by_the_stopper_panics() {
    THREADS.run(2, || {
        let _world = native::stop_the_world();
        let _again = native::stop_the_world();
    });
}

/// A locked G that is woken by a foreign thread still runs on its own thread.
#[test]
fn locked_g_woken_by_a_foreign_thread_stays_on_its_thread() {
    THREADS.run(4, || {
        let spinning = Arc::new(AtomicBool::new(true));
        let others = spawn_each(0..8, |_| {
            let spinning = spinning.clone();
            move || {
                while spinning.load(Ordering::Relaxed) {
                    native::yield_now();
                }
            }
        });
        let locked = native::go(|| {
            let _locked = native::lock_thread();
            let home = thread::current().id();
            for _ in 0..200 {
                let mut is_woken = false;
                native::block_on(poll_fn(move |context| {
                    if is_woken {
                        return Poll::Ready(());
                    }
                    is_woken = true;
                    let waker = context.waker().clone();
                    drop(thread::spawn(move || waker.wake()));
                    Poll::Pending
                }));
                assert_eq!(thread::current().id(), home);
            }
        });
        locked.join().unwrap();
        spinning.store(false, Ordering::Relaxed);
        join_all(others);
    });
}
