//! Models of the locks and some other types of `sync`. The holder of a lock sees what earlier holders did, an exclusive
//! holder is the only one, and no wakeup is lost.
//!
//! The models run the code of these types in `sync`. Only the switch is replaced: a G that would park waits for a word
//! that the waker sets (`entities::loom_wait`).

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind};

use loom::cell::UnsafeCell;

use super::explore;
use super::platform::{Model, Setting, run_as, spawn_as};
use crate::base::atomic::{AtomicU32, Ordering};
use crate::entities::goroutine::WaitReason;
use crate::library::sync::readers::{OneCount, Readers, SpreadCounts};
use crate::library::sync::{Once, RawMutex, RawRwLock, Semaphore, WaitGroup};

/// A number of which loom checks every access. loom reports a change that is not ordered with all other accesses, and
/// a read that is not ordered with all changes.
#[derive(Default)]
struct Checked(UnsafeCell<u32>);

// SAFETY: loom checks every access to this cell, and reports each access that the lock does not order.
#[expect(unsafe_code, reason = "shares a checked cell between loom's threads")]
unsafe impl Sync for Checked {}
// SAFETY: as for `Sync`.
#[expect(unsafe_code, reason = "shares a checked cell between loom's threads")]
unsafe impl Send for Checked {}

impl Checked {
    fn change(&self) {
        #[expect(unsafe_code, reason = "writes the checked cell")]
        // SAFETY: loom checks that there is no concurrent access.
        self.0.with_mut(|value| unsafe { *value += 1 });
    }

    fn read(&self) -> u32 {
        #[expect(unsafe_code, reason = "reads the checked cell")]
        // SAFETY: loom checks that there is no concurrent change.
        self.0.with(|value| unsafe { *value })
    }
}

/// Runs each of `bodies` as a G on a separate M. Returns `shared` when all of them have ended.
fn run_all<T: Send + Sync + 'static>(shared: T, bodies: &[fn(&T)]) -> Arc<T> {
    crate::entities::loom_wait::reset();
    let setting = Setting::new(bodies.len());
    let shared = Arc::new(shared);
    let (&here, others) = bodies.split_first().expect("there is something to do");
    let others: Vec<_> = others
        .iter()
        .map(|&body| {
            let shared = shared.clone();
            spawn_as(setting.running_machine(), move |_| body(&shared))
        })
        .collect();
    run_as(setting.running_machine(), |_| here(&shared));
    others.into_iter().for_each(|other| other.join().unwrap());
    shared
}

type Guarded<L> = (L, Checked);

fn lock_and_change((mutex, value): &Guarded<RawMutex<Model>>) {
    mutex.acquire(WaitReason::MutexLock, None);
    value.change();
    mutex.release();
}

#[test]
fn mutex_has_one_holder_at_a_time() {
    explore(|| {
        fn twice(guarded: &Guarded<RawMutex<Model>>) {
            lock_and_change(guarded);
            lock_and_change(guarded);
        }
        let shared = run_all((RawMutex::new(), Checked::default()), &[twice, twice]);
        assert_eq!(shared.1.read(), 4);
        assert!(shared.0.try_acquire());
    });
}

#[test]
fn mutex_has_one_holder_of_three_at_a_time() {
    explore(|| {
        let shared =
            run_all((RawMutex::new(), Checked::default()), &[lock_and_change, lock_and_change, lock_and_change]);
        assert_eq!(shared.1.read(), 3);
    });
}

/// A G calls `try_lock` while another G is being woken for the mutex. The call may take the mutex first; the woken G
/// then waits again and is not lost.
#[test]
fn try_lock_takes_a_mutex_ahead_of_waiters() {
    explore(|| {
        fn try_and_change((mutex, value): &Guarded<RawMutex<Model>>) {
            if mutex.try_acquire() {
                value.change();
                mutex.release();
            }
        }
        let shared =
            run_all((RawMutex::new(), Checked::default()), &[lock_and_change, lock_and_change, try_and_change]);
        assert!(shared.1.read() >= 2);
    });
}

#[test]
fn mutex_is_handed_over() {
    explore(|| {
        fn fairly((mutex, value): &Guarded<RawMutex<Model>>) {
            mutex.acquire(WaitReason::MutexLock, None);
            value.change();
            mutex.release_fairly();
        }
        let shared = run_all((RawMutex::new(), Checked::default()), &[fairly, fairly, lock_and_change]);
        assert_eq!(shared.1.read(), 3);
    });
}

type Shared<R> = Guarded<RawRwLock<Model, R>>;

fn read<R: Readers>((lock, value): &Shared<R>) {
    let slot = lock.share(None).expect("it waits for ever");
    assert!(value.read() <= 2);
    lock.unshare(slot);
}

fn write<R: Readers>((lock, value): &Shared<R>) {
    assert!(lock.exclude(None));
    value.change();
    lock.include();
}

fn try_write<R: Readers>((lock, value): &Shared<R>) {
    if lock.try_exclude() {
        value.change();
        lock.include();
    }
}

fn readers_and_writers<R: Readers>() {
    for bodies in [[read::<R>, read, write].as_slice(), &[write, write, read], &[read, try_write]] {
        explore(|| {
            let shared = run_all((RawRwLock::<Model, R>::new(), Checked::default()), bodies);
            assert!(shared.0.try_exclude());
        });
    }
}

#[test]
fn readers_and_writers_of_one_count() {
    readers_and_writers::<OneCount>();
}

#[test]
fn readers_and_writers_of_spread_counts() {
    readers_and_writers::<SpreadCounts>();
}

/// A reader holds the lock all the time. Another reader is never refused, although a writer tries to lock and fails.
fn refused_writer_refuses_no_reader<R: Readers>() {
    explore(|| {
        let shared = (RawRwLock::<Model, R>::new(), ());
        let slot = shared.0.share(None).expect("it waits for ever");
        let shared = run_all(
            shared,
            &[
                |(lock, ())| assert!(!lock.try_exclude(), "a reader holds the lock"),
                |(lock, ())| lock.unshare(lock.try_share().expect("refused because of a writer that was refused")),
            ],
        );
        shared.0.unshare(slot);
        assert!(shared.0.try_exclude());
    });
}

/// The lock is free. A reader and a writer try to lock, and at least one of them succeeds.
fn reader_and_writer_are_not_both_refused<R: Readers>() {
    explore(|| {
        type Tries<R> = (RawRwLock<Model, R>, AtomicU32);
        let shared: Arc<Tries<R>> = run_all(
            (RawRwLock::new(), AtomicU32::new(0)),
            &[
                |(lock, locked)| {
                    if lock.try_exclude() {
                        locked.fetch_add(1, Ordering::Relaxed);
                        lock.include();
                    }
                },
                |(lock, locked)| {
                    if let Some(slot) = lock.try_share() {
                        locked.fetch_add(1, Ordering::Relaxed);
                        lock.unshare(slot);
                    }
                },
            ],
        );
        assert_ne!(shared.1.load(Ordering::Relaxed), 0, "each is refused because of the other");
    });
}

#[test]
fn refused_writer_is_not_seen_by_readers() {
    refused_writer_refuses_no_reader::<OneCount>();
    refused_writer_refuses_no_reader::<SpreadCounts>();
}

#[test]
fn reader_and_writer_that_try_are_not_both_refused() {
    reader_and_writer_are_not_both_refused::<OneCount>();
    reader_and_writer_are_not_both_refused::<SpreadCounts>();
}

#[test]
fn permit_has_one_holder_at_a_time() {
    explore(|| {
        fn take((semaphore, value): &Guarded<Semaphore<Model>>) {
            let _permit = semaphore.acquire(1);
            value.change();
        }
        let shared = run_all((Semaphore::new(1), Checked::default()), &[take, take, take]);
        assert_eq!((shared.1.read(), shared.0.available()), (3, 1));
    });
}

#[test]
fn effects_of_a_once_are_seen_by_all() {
    explore(|| {
        fn once((once, value): &Guarded<Once<Model>>) {
            once.call_once(|| value.change());
            assert_eq!(value.read(), 1);
        }
        run_all((Once::new(), Checked::default()), &[once, once, once]);
    });
}

#[test]
fn effects_of_tasks_are_seen_by_waiters_of_a_wait_group() {
    explore(|| {
        type Group = (WaitGroup<Model>, [Checked; 2]);
        fn wait((group, values): &Group) {
            group.wait();
            assert_eq!((values[0].read(), values[1].read()), (1, 1));
        }
        let group = WaitGroup::new();
        group.add(2);
        run_all(
            (group, [Checked::default(), Checked::default()]),
            &[
                wait,
                |(group, values)| {
                    values[0].change();
                    group.done();
                },
                |(group, values)| {
                    values[1].change();
                    group.done();
                },
            ],
        );
    });
}

/// Misuses of a wait group are refused. Other Gs never see a counter that the refused call has changed: no wait ends
/// early, and no correct call is refused.
#[test]
fn refused_change_of_a_wait_group_is_not_seen() {
    fn refused(change: impl FnOnce()) {
        assert!(catch_unwind(AssertUnwindSafe(change)).is_err(), "it is not refused");
    }
    fn use_correctly(group: &WaitGroup<Model>) {
        assert!(!group.wait_timeout(Duration::ZERO), "a task is under way");
        group.done();
        group.add(1);
    }
    explore(|| {
        let group = WaitGroup::new();
        group.add(5);
        // The sum is 2^32, of which a word of 32 bits keeps 0.
        let group = run_all(group, &[|group| refused(|| group.add(u32::MAX - 4)), use_correctly]);
        (0..5).for_each(|_| group.done());
        group.wait();
    });
    explore(|| {
        let misuse = |group: &WaitGroup<Model>| {
            // The counter may be one, because of the other G. Then this call is not a misuse that can be noticed.
            if catch_unwind(AssertUnwindSafe(|| group.done())).is_ok() {
                group.add(1);
            }
        };
        let group = run_all(WaitGroup::new(), &[misuse, |group| group.add(1)]);
        group.done();
        group.wait();
    });
}
