//! The scheduler on operating-system threads, with the same loop, queues and protocols that run in the kernel.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::several::{go_each, join_all, spawn_each};
use gmp_sched::JoinError;
use gmp_sched::goroutine::{Status, WaitReason};
use gmp_sched::native::{self, JoinHandle, Native};
use gmp_sched::platform::{Pinned, Platform};
use thread_tests::THREADS;

/// Runs `body` with schedulers of 1, 2 and 4 Ps, and passes the number of Ps to `body`.
fn with_processors(body: fn(usize)) {
    for processors in [1, 2, 4] {
        THREADS.run(processors, move || body(processors));
    }
}

/// `suspended_at` returns where a G will continue. It returns `None` for a G that has not begun, and for one that runs.
#[test]
fn g_is_suspended_somewhere_while_it_waits_to_continue() {
    THREADS.run_with(1, |scheduler| {
        let main = scheduler.goroutines().find(|goroutine| goroutine.status() == Status::Running).unwrap();
        let handle = native::go(native::yield_now);
        let other = scheduler.goroutines().find(|goroutine| goroutine.id() == handle.id()).unwrap();
        assert_eq!((main.suspended_at(), other.suspended_at()), (None, None));
        native::yield_now();
        assert!(other.suspended_at().is_some());
        handle.join().unwrap();
    });
}

#[test]
fn results_are_dropped_exactly_once() {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let drops = Arc::new(AtomicUsize::new(0));
    for processors in [1, 2, 4] {
        drops.store(0, Ordering::Relaxed);
        let dropped = drops.clone();
        THREADS.run(processors, move || {
            for round in 0..3000 {
                let (closure, result) = (Counted(dropped.clone()), Counted(dropped.clone()));
                let handle = native::go(move || {
                    if round % 3 == 0 {
                        native::yield_now();
                    }
                    let _closure = closure;
                    result
                });
                match round % 4 {
                    0 => drop(handle.join().unwrap()),
                    1 => handle.detach(),
                    2 => {
                        native::yield_now();
                        drop(handle);
                    }
                    _ => {
                        while !handle.is_finished() {
                            native::yield_now();
                        }
                        drop(handle);
                    }
                }
            }
            while dropped.load(Ordering::Relaxed) < 6000 {
                native::yield_now();
            }
        });
        assert_eq!(drops.load(Ordering::Relaxed), 6000);
    }
}

#[test]
fn blocked_call_hands_its_p_off() {
    // There is one P, so the other G runs only if the P is handed off while the first G blocks its thread.
    for known in [true, false] {
        THREADS.run(1, move || {
            let (release, gate) = std::sync::mpsc::channel::<()>();
            let ran = Arc::new(AtomicBool::new(false));
            let seen = ran.clone();
            let blocked = native::go(move || {
                let wait = move || gate.recv().unwrap();
                if known {
                    native::blocking(wait);
                } else {
                    native::syscall(wait);
                }
                seen.load(Ordering::SeqCst)
            });
            // `blocked` is in `runnext` and runs first. This G continues only after the P has been handed off.
            native::yield_now();
            ran.store(true, Ordering::SeqCst);
            release.send(()).unwrap();
            assert!(blocked.join().unwrap());
        });
    }
}

#[test]
fn goroutine_ids_are_unique_and_main_is_one() {
    THREADS.run(4, || {
        let main = Pinned::<Native>::new().goroutine();
        assert_eq!((main.id().get(), main.creator()), (1, None));
        let handles = go_each(0..4000, move |_| {
            native::yield_now();
            native::go(|| ()).id()
        });
        let mut ids = HashSet::new();
        for handle in handles {
            assert!(ids.insert(handle.id()));
            assert!(ids.insert(handle.join().unwrap()));
        }
    });
}

/// When main returns, the program is over, and Gs that still wait are abandoned.
#[test]
fn waiting_gs_are_abandoned_when_main_returns() {
    for _ in 0..50 {
        for processors in [1, 2] {
            THREADS.run(processors, || {
                for _ in 0..3 {
                    native::go(|| {
                        gmp_sched::park::park::<Native>(WaitReason::Parked, |_, _| true);
                        unreachable!("nobody readies it");
                    })
                    .detach();
                }
                native::yield_now();
            });
        }
    }
}

#[test]
fn stacks_of_dead_gs_can_be_released() {
    for processors in [1, 2, 4] {
        THREADS.run_with(processors, move |scheduler| {
            let slots = scheduler.goroutines().count();
            let spawn_many = || (0..1000u64).map(|n| native::go(move || n)).collect::<Vec<_>>();
            for _ in 0..3 {
                let sum: u64 = spawn_many().into_iter().map(|handle| handle.join().unwrap()).sum();
                assert_eq!(sum, 499_500);
                let cached = scheduler.cached_stacks();
                let given_back = scheduler.free_idle_stacks(usize::MAX);
                // The call may leave up to 64 stacks on each P except the caller's.
                assert!(given_back + 64 * (processors - 1) >= cached, "{given_back} of {cached}");
                // One more stack per P is allowed, because a G that was joined may have left its stack on that P
                // meanwhile.
                assert!(scheduler.cached_stacks() <= 65 * (processors - 1));
                assert_eq!(scheduler.free_idle_stacks(0), 0);
            }
            if processors == 1 {
                assert_eq!(
                    scheduler.goroutines().count(),
                    slots.max(1001),
                    "slots are reused without their stacks as well"
                );
            }
        });
    }
}

#[test]
fn exit_drops_the_gs_values_and_is_returned_by_join() {
    struct Told(Arc<AtomicUsize>);
    impl Drop for Told {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    with_processors(|processors| {
        let dropped = THREADS.run(processors, || {
            let dropped = Arc::new(AtomicUsize::new(0));
            for round in 0..100 {
                let told = Told(dropped.clone());
                let ending = native::go(move || {
                    let _told = told;
                    if round % 2 == 0 {
                        native::yield_now();
                    }
                    native::goexit();
                });
                assert_eq!(ending.join(), Err(JoinError::Exited));
            }
            // The exit of a G that is not joined is not an error.
            native::go(|| native::goexit()).detach();
            native::yield_now();
            dropped.load(Ordering::Relaxed)
        });
        assert_eq!(dropped, 100);
    });
}

#[test]
fn unwinding_g_stays_alone_on_its_thread() {
    /// A value whose destructor yields, sleeps and joins a G, 20 times. It also counts the times at which it finds that
    /// it is on another thread than the given one.
    struct WaitsInDrop(thread::ThreadId, Arc<AtomicUsize>);
    impl Drop for WaitsInDrop {
        fn drop(&mut self) {
            for _ in 0..20 {
                native::yield_now();
                native::sleep(Duration::from_micros(20));
                native::go(native::yield_now).join().unwrap();
                assert!(thread::panicking());
                self.1.fetch_add(usize::from(thread::current().id() != self.0), Ordering::Relaxed);
            }
        }
    }
    with_processors(|_| {
        let moved = Arc::new(AtomicUsize::new(0));
        let is_over = Arc::new(AtomicBool::new(false));
        let innocent = spawn_each(0..64, |_| {
            let is_over = is_over.clone();
            move || {
                let mut panicking = 0;
                while !is_over.load(Ordering::Relaxed) {
                    panicking += usize::from(thread::panicking());
                    native::sleep(Duration::from_micros(200));
                }
                panicking
            }
        });
        let unwinding = spawn_each(0..16, |round| {
            let moved = moved.clone();
            move || {
                native::yield_now();
                let _waits = WaitsInDrop(thread::current().id(), moved);
                if round % 2 == 0 {
                    native::goexit();
                }
                std::panic::resume_unwind(Box::new("without a message"));
            }
        });
        let ended: Vec<_> = unwinding.into_iter().map(|handle: JoinHandle<()>| handle.join()).collect();
        assert!(ended.iter().all(|result| result.is_err()));
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(moved.load(Ordering::Relaxed), 0, "moves of Gs that unwound");
        let seen: usize = innocent.into_iter().map(|handle| handle.join().unwrap()).sum();
        assert_eq!(seen, 0, "times that a G saw a panic of another");
    });
}

#[test]
fn names_and_stack_sizes_are_as_chosen() {
    THREADS.run_with(2, |scheduler| {
        let (sender, receiver) = native::channel::<()>(0);
        let wait = move || _ = receiver.recv();
        let (named, unnamed) = (native::Builder::new().name("named").go(wait.clone()), native::go(wait));
        for (handle, name) in [(&named, Some("named")), (&unnamed, None)] {
            let found = scheduler.goroutines().find(|goroutine| goroutine.id() == handle.id()).unwrap();
            while found.status() != Status::Waiting {
                native::yield_now();
            }
            assert_eq!(found.name().as_ref().map(|name| name.as_str()), name);
            assert_eq!(found.wait_reason(), WaitReason::ChanReceive);
            assert!(found.waiting_since() <= Native::now());
        }
        drop(sender);
        named.join().unwrap();
        unnamed.join().unwrap();
        for size in [1, 100_000, 8 << 20] {
            let spare = native::Builder::new()
                .stack_size(size)
                .go(|| {
                    let here = 0u8;
                    let address = std::ptr::from_ref(&here).addr();
                    let pinned = Pinned::<Native>::new();
                    address - pinned.goroutine().stack().start
                })
                .join()
                .unwrap();
            assert!(spare + 16 * 1024 >= size, "{spare} bytes of {size}");
        }
    });
}

#[test]
fn scheduler_that_has_ended_releases_its_stacks() {
    const RUNS: usize = 40;
    const STACKS: usize = 500;
    // Only writable mappings are counted, because the allocator reserves more address space than it uses.
    let mapped = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let size = |line: &str| {
            let (range, rights) = line.split_once(' ')?;
            let (start, end) = range.split_once('-')?;
            let address = |digits| usize::from_str_radix(digits, 16).unwrap();
            rights.starts_with("rw").then(|| address(end) - address(start))
        };
        maps.lines().filter_map(size).sum::<usize>()
    };
    let before = mapped();
    for _ in 0..RUNS {
        THREADS.run(8, || {
            join_all(go_each(0..STACKS, move |_| native::sleep(Duration::from_micros(100))));
        });
    }
    let after = mapped();
    // Threads of the last runs may not have ended yet, so some of their memory may still be mapped.
    let limit = RUNS * STACKS * Native::STACK_SIZE / 2;
    assert!(after < before + limit, "{before} bytes mapped before, {after} after, not to be {limit} more");
}
