//! Panics and exits of Gs in unusual places: in the drop of a payload, between two steps of an operation, and in a
//! system call. No G may outlive what it borrows, and no waiter may hang.
#![deny(unsafe_code)]

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gmp_sched::JoinError;
use gmp_sched::device_signals::Signal;
use gmp_sched::native::{self, Context, ErrorGroup, JoinHandle, Native, SingleFlight, WaitGroup};
use gmp_sched::sync::Fetched;
use thread_tests::THREADS;

/// Panics without printing a message.
fn panics() -> ! {
    resume_unwind(Box::new("on purpose"))
}

/// Returns whether `body` panics. The payload is not dropped, because its drop may panic, too.
fn has_panicked(body: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(body)).map_err(mem::forget).is_err()
}

/// A value whose drop panics. If a `Bomb` contains another one, the inner one is the payload of the panic.
struct Bomb(Option<Box<Bomb>>);

impl Bomb {
    fn new() -> Self {
        Self(Some(Box::new(Self(None))))
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        match self.0.take() {
            Some(next) => resume_unwind(next),
            None => panics(),
        }
    }
}

#[test]
fn panic_payload_that_panics_in_drop_is_a_panic_for_the_joiner() {
    for processors in [1, 4] {
        THREADS.run(processors, || {
            let handle: JoinHandle<()> = native::go(|| resume_unwind(Box::new(Bomb::new())));
            let ended = handle.join();
            assert!(ended == Err(JoinError::panicked()));
            assert!(!has_panicked(|| drop(ended)));
        });
    }
}

#[test]
fn join_error_carries_the_payload_of_the_panic() {
    struct Reason(u32);
    for processors in [1, 4] {
        THREADS.run(processors, || {
            let handle: JoinHandle<()> = native::go(|| resume_unwind(Box::new(Reason(7))));
            let error = handle.join().unwrap_err();
            assert!(error.is_panic());
            assert_eq!(error.to_string(), "the G panicked", "a payload that is no text is not shown");
            // The joiner can continue the panic with the same payload.
            let raised = catch_unwind(AssertUnwindSafe(|| resume_unwind(error.into_panic()))).unwrap_err();
            assert_eq!(raised.downcast_ref::<Reason>().unwrap().0, 7);

            let exits: JoinHandle<()> = native::go(|| native::goexit());
            assert_eq!(exits.join().unwrap_err().try_into_panic().unwrap_err(), JoinError::Exited);
        });
    }
}

#[test]
fn scope_and_coroutine_panic_with_the_payload_of_their_body() {
    struct Reason(u32);
    let reason =
        |body: &dyn Fn()| catch_unwind(AssertUnwindSafe(body)).unwrap_err().downcast_ref::<Reason>().unwrap().0;
    THREADS.run(2, move || {
        assert_eq!(reason(&|| native::scope(|_| resume_unwind(Box::new(Reason(1))))), 1);
        assert_eq!(
            reason(&|| _ = native::pull(|_: &mut native::Yielder<u32>| resume_unwind(Box::new(Reason(2)))).next()),
            2
        );
    });
}

#[test]
fn payload_that_nobody_takes_is_dropped_once() {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    for processors in [1, 4] {
        THREADS.run(processors, || {
            let drops = Arc::new(AtomicUsize::new(0));
            let fail = || -> JoinHandle<()> {
                let payload = Counted(drops.clone());
                native::go(move || resume_unwind(Box::new(payload)))
            };
            assert!(fail().join().is_err());
            assert_eq!(drops.load(Ordering::Relaxed), 1);
            let not_joined = fail();
            while !not_joined.is_finished() {
                native::yield_now();
            }
            drop(not_joined);
            assert_eq!(drops.load(Ordering::Relaxed), 2);
            drop(fail().join().unwrap_err().into_panic());
            assert_eq!(drops.load(Ordering::Relaxed), 3);
        });
    }
}

#[test]
fn scope_waits_for_its_children_when_a_panic_payload_panics_in_drop() {
    for processors in [1, 4] {
        THREADS.run(processors, || {
            let finished = AtomicBool::new(false);
            assert!(has_panicked(|| native::scope(|scope| {
                scope.go(|| {
                    native::sleep(Duration::from_millis(20));
                    finished.store(true, Ordering::Relaxed);
                });
                resume_unwind(Box::new(Bomb::new()));
            })));
            assert!(finished.load(Ordering::Relaxed), "the scope was left while its child ran");
        });
    }
}

#[test]
fn scope_in_a_system_call_panics_before_its_body_runs() {
    THREADS.run(2, || {
        for call in [has_panicked_in_syscall, has_panicked_in_blocking] {
            let ran = AtomicBool::new(false);
            let body = || ran.store(true, Ordering::Relaxed);
            assert!(call(&|| native::scope(|_| body())));
            assert!(call(&|| {
                let result: Result<(), ()> = native::try_scope(&Context::background(), |_| {
                    body();
                    Ok(())
                });
                result.unwrap();
            }));
            assert!(!ran.load(Ordering::Relaxed), "the scope ran its body although it cannot wait");
        }
        // Outside of a system call, a scope works as usual.
        native::scope(|scope| drop(scope.go(native::yield_now)));
    });
}

fn has_panicked_in_syscall(body: &dyn Fn()) -> bool {
    native::syscall(|| has_panicked(body))
}

fn has_panicked_in_blocking(body: &dyn Fn()) -> bool {
    native::blocking(|| has_panicked(body))
}

#[test]
fn system_call_ends_when_its_body_panics() {
    THREADS.run(2, || {
        assert!(has_panicked(|| native::syscall(|| panics())));
        assert!(has_panicked(|| native::blocking(|| panics())));
        native::go(native::yield_now).join().unwrap();
    });
}

/// A call panics while another G keeps the only P busy. So the G that unwinds has to wait for a P at the end of the
/// call. It must continue on its thread, because the standard library counts panics for each thread.
#[test]
fn g_that_unwinds_out_of_a_system_call_stays_on_its_thread() {
    struct AfterCall(thread::ThreadId);
    impl Drop for AfterCall {
        fn drop(&mut self) {
            assert_eq!(thread::current().id(), self.0, "the G unwinds on another thread");
        }
    }
    fn pause_and_panic() {
        thread::sleep(Duration::from_millis(20));
        panics();
    }
    let calls: [fn(); 2] = [|| native::syscall(pause_and_panic), || native::blocking(pause_and_panic)];
    for call in calls {
        THREADS.run(1, move || {
            let busy = native::go(|| {
                let end = Instant::now() + Duration::from_millis(60);
                while Instant::now() < end {}
            });
            let unwinds = native::go(move || {
                let _after = AfterCall(thread::current().id());
                call();
            });
            assert!(unwinds.join().is_err());
            busy.join().unwrap();
        });
    }
}

#[test]
fn dropped_result_of_a_scoped_goroutine_that_panics_in_drop_is_a_panic_of_the_scope() {
    for processors in [1, 4] {
        THREADS.run(processors, || {
            // If the handle was dropped before the G ends, the G drops the result. Otherwise, the drop of the handle
            // drops the result.
            for is_late in [false, true] {
                assert!(has_panicked(|| native::scope(|scope| {
                    let handle = scope.go(Bomb::new);
                    while is_late && !handle.is_finished() {
                        native::yield_now();
                    }
                    drop(handle);
                })));
            }
        });
    }
}

#[test]
fn spawn_in_a_scope_that_panics_leaves_nothing_to_wait_for() {
    THREADS.run(2, || {
        native::scope(|scope| {
            assert!(native::syscall(|| has_panicked(|| drop(scope.go(|| ())))));
            thread::scope(|threads| {
                let outside = threads.spawn(|| has_panicked(|| drop(scope.go(|| ()))));
                assert!(outside.join().unwrap());
            });
        });
    });
}

#[test]
fn group_whose_spawn_panics_has_nothing_under_way() {
    THREADS.run(2, || {
        let group = Arc::new(WaitGroup::new());
        assert!(native::syscall(|| has_panicked(|| group.go(|| ()))));
        assert!(group.wait_timeout(Duration::ZERO));
        assert!(thread::scope(|threads| threads.spawn(|| has_panicked(|| group.go(|| ()))).join().unwrap()));
        assert!(group.wait_timeout(Duration::ZERO));
    });
}

#[test]
fn error_group_whose_spawn_panics_gives_its_permit_back() {
    THREADS.run(2, || {
        let group = ErrorGroup::<()>::with_limit(1);
        for _ in 0..3 {
            assert!(native::syscall(|| has_panicked(|| group.go(|| Ok(())))));
            assert!(native::syscall(|| has_panicked(|| assert!(group.try_go(|| Ok(())).is_ok()))));
        }
        assert!(group.try_go(|| Ok(())).is_ok());
        assert_eq!(group.wait(), Ok(()));
    });
}

#[test]
fn wait_for_a_signal_that_panics_leaves_the_signal_free() {
    THREADS.run(2, || {
        let signal: &'static Signal<Native> = Box::leak(Box::default());
        assert!(native::syscall(|| has_panicked(|| signal.wait())));
        assert!(!signal.wait_timeout(Duration::from_millis(1)), "nobody raised it");
    });
}

#[test]
fn long_chain_of_context_values_is_dropped_without_recursion() {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    struct Counted;
    impl Drop for Counted {
        fn drop(&mut self) {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    }
    THREADS.run(1, || {
        let mut context = Context::background();
        for _ in 0..100_000 {
            context = context.with_value(Counted);
        }
        drop(context);
        assert_eq!(DROPPED.load(Ordering::Relaxed), 100_000);
    });
}

#[test]
fn long_chain_of_cancel_hooks_is_called_and_dropped_without_recursion() {
    static CALLED: AtomicUsize = AtomicUsize::new(0);
    fn count() {
        CALLED.fetch_add(1, Ordering::Relaxed);
    }
    THREADS.run(1, || {
        for fails in [true, false] {
            let mut group = ErrorGroup::new();
            for _ in 0..100_000 {
                group = group.on_cancel(count);
            }
            group.go(move || if fails { Err(()) } else { Ok(()) });
            assert_eq!(group.wait().is_err(), fails);
        }
        assert_eq!(CALLED.load(Ordering::Relaxed), 100_000);
    });
}

#[test]
fn stack_that_is_too_large_for_the_address_space_is_an_error() {
    THREADS.run(1, || {
        for size in [usize::MAX, usize::MAX - 4096, usize::MAX - 8192, isize::MAX as usize] {
            assert!(native::Builder::new().stack_size(size).try_go(|| ()).is_err());
        }
    });
}

#[test]
fn coroutine_that_ends_itself_ends_the_caller_of_next_or_stop() {
    for processors in [1, 4] {
        THREADS.run(processors, || {
            let next = native::go(|| {
                let mut values = native::pull(|yielder| {
                    let _ = yielder.yield_value(1);
                    native::goexit();
                });
                assert_eq!(values.next(), Some(1));
                values.next()
            });
            assert_eq!(next.join(), Err(JoinError::Exited));
            let stop = native::go(|| {
                let mut values = native::pull(|yielder| {
                    while yielder.yield_value(1) {}
                    native::goexit();
                });
                assert_eq!(values.next(), Some(1));
                values.stop();
            });
            assert_eq!(stop.join(), Err(JoinError::Exited));
        });
    }
}

#[test]
fn coroutine_that_ended_itself_has_no_more_values() {
    THREADS.run(1, || {
        let values = Arc::new(native::Mutex::new(native::pull(|_: &mut native::Yielder<u32>| native::goexit())));
        let others = values.clone();
        assert_eq!(native::go(move || others.lock().next()).join(), Err(JoinError::Exited));
        assert_eq!(values.lock().next(), None);
    });
}

#[test]
fn dropping_a_coroutine_that_ends_itself_does_not_end_the_caller() {
    THREADS.run(1, || {
        let handle = native::go(|| {
            let mut values = native::pull(|yielder| {
                while yielder.yield_value(1) {}
                native::goexit();
            });
            assert_eq!(values.next(), Some(1));
            drop(values);
            7
        });
        assert_eq!(handle.join(), Ok(7));
    });
}

/// If cloning the value of a call panics, the value must not be the result of a later call.
#[test]
fn call_of_a_single_flight_ends_when_cloning_its_value_panics() {
    struct Text {
        number: u32,
        clone_panics: bool,
    }
    impl Clone for Text {
        fn clone(&self) -> Self {
            if self.clone_panics {
                panics();
            }
            Self { ..*self }
        }
    }
    THREADS.run(1, || {
        let flights = SingleFlight::new();
        let call = |number, clone_panics| flights.call("name", || Text { number, clone_panics });
        assert!(has_panicked(|| _ = call(1, true)));
        let fetched = call(2, false);
        assert_eq!((fetched.value.number, fetched.is_shared), (2, false));
    });
}

/// If the function of a call panics and no other caller waits for that call, the call is over. So the next caller
/// shares nothing.
#[test]
fn call_of_a_single_flight_is_not_shared_after_its_function_has_panicked() {
    THREADS.run(1, || {
        let flights = SingleFlight::new();
        assert!(has_panicked(|| _ = flights.call("name", || panics())));
        assert_eq!(flights.call("name", || 2), Fetched { value: 2, is_shared: false });
    });
}
