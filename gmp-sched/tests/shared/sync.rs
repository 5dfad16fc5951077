//! Tests of error groups, `OnceCell` and semaphores.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;

use gmp_sched::cancel::ContextError;
use gmp_sched::sync::TryGoError;

use super::platform::{Context, ErrorGroup, Lazy, OnceCell, Semaphore, channel, go, now, sleep, yield_now};
use super::several::{join_all, spawn_each};

fn once_cell_is_initialised_once() {
    static LAZY: Lazy<String> = Lazy::new(|| "made".to_string());
    let cell = Arc::new(OnceCell::new());
    let all = spawn_each(0..8u32, |n| {
        let cell = cell.clone();
        move || {
            let value = *cell.get_or_init(|| {
                yield_now();
                n
            });
            (value, LAZY.len())
        }
    });
    let value = *cell.get_or_init(|| 99);
    assert!(join_all(all).into_iter().all(|seen| seen == (value, 4)));
    assert_eq!(cell.set(5), Err(5));
    assert_eq!(Arc::try_unwrap(cell).unwrap().into_inner(), Some(value));
}
shared_test!(once_cell_is_initialised_once);

/// A request for many permits is not overtaken by requests for few permits. When the large request is cancelled, the
/// small requests are granted.
fn large_request_for_permits_is_not_overtaken() {
    let semaphore = Arc::new(Semaphore::new(3));
    let held = semaphore.acquire(2);
    let (context, cancel) = Context::background().with_cancel();
    let large = {
        let semaphore = semaphore.clone();
        go(move || semaphore.acquire_until(3, &context).map(drop).err())
    };
    // One of the three permits is free. As soon as the large request waits, `try_acquire` no longer gets this permit.
    while semaphore.try_acquire(1).is_some() {
        yield_now();
    }
    let small = {
        let semaphore = semaphore.clone();
        go(move || drop(semaphore.acquire(1)))
    };
    yield_now();
    assert!(!small.is_finished());
    cancel.cancel();
    assert_eq!(large.join().unwrap(), Some(ContextError::Canceled));
    small.join().unwrap();
    drop(held);
    assert_eq!(semaphore.available(), 3);
}
shared_test!(large_request_for_permits_is_not_overtaken);

/// As with Go's `errgroup.WithContext`, the first error cancels the group's context, and so ends the waits of the
/// group's Gs. The error does not cancel the parent context.
fn first_error_cancels_the_group() {
    let (above, _cancel) = Context::background().with_cancel();
    let (group, context) = ErrorGroup::new().with_context(&above);
    let told = Arc::new(AtomicU32::new(0));
    let group = {
        let told = told.clone();
        group.on_cancel(move || _ = told.fetch_add(1, Ordering::Relaxed))
    };
    let (_sender, never) = channel::<u8>(0);
    for number in 0..6 {
        let (context, never) = (context.clone(), never.clone());
        let body = move || match number {
            // This G fails first, because the others wait for its failure.
            3 => Err("first".to_string()),
            4 => {
                let _ = never.recv_until(&context);
                Ok(())
            }
            _ => match never.recv_until(&context) {
                Ok(_) => Ok(()),
                Err(error) => Err(error.to_string()),
            },
        };
        group.go(body);
    }
    assert_eq!(group.wait(), Err("first".to_string()));
    assert_eq!((context.err(), above.err()), (Some(ContextError::Canceled), None));
    assert_eq!(context.cause().unwrap().to_string(), "first");
    assert_eq!(told.load(Ordering::Relaxed), 1);
    // If no G fails, the context is cancelled when all Gs have ended, and the function of `on_cancel` is not called.
    let (group, context) = ErrorGroup::new().with_context(&above);
    let seen = context.clone();
    group.go(move || seen.check());
    let group = group.on_cancel(|| unreachable!("nobody failed"));
    assert_eq!((group.wait(), context.err()), (Ok(()), Some(ContextError::Canceled)));
    assert_eq!(context.cause().unwrap().to_string(), "context canceled");
    // When the parent context is cancelled, the group's context is cancelled, too.
    let (above, cancel) = Context::background().with_cancel();
    let (group, context) = ErrorGroup::new().with_context(&above);
    group.go(move || Err::<(), _>(context.wait()));
    cancel.cancel();
    assert_eq!(group.wait(), Err(ContextError::Canceled));
}
shared_test!(first_error_cancels_the_group);

/// A context and a hook that are added to a group after its first error are cancelled and called at once.
fn group_that_has_failed_cancels_what_is_added_later() {
    let group = ErrorGroup::new();
    group.go(|| Err("first"));
    while !group.is_canceled() {
        yield_now();
    }
    let told = Arc::new(AtomicU32::new(0));
    let tells = told.clone();
    let (group, context) = group.with_context(&Context::background());
    let group = group.on_cancel(move || _ = tells.fetch_add(1, Ordering::Relaxed));
    assert_eq!(told.load(Ordering::Relaxed), 1);
    assert!(context.is_done());
    assert_eq!(context.cause().unwrap().to_string(), "first");
    let waits = context.clone();
    group.go(move || {
        waits.wait();
        Err("second")
    });
    assert_eq!((group.wait(), told.load(Ordering::Relaxed)), (Err("first"), 1));
}
shared_test!(group_that_has_failed_cancels_what_is_added_later);

fn error_group_respects_its_limit() {
    const LIMIT: u32 = 3;
    let group = ErrorGroup::<()>::with_limit(LIMIT);
    let (under_way, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let body = || {
        let (under_way, most) = (under_way.clone(), most.clone());
        move || {
            most.fetch_max(under_way.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            (0..3).for_each(|_| yield_now());
            under_way.fetch_sub(1, Ordering::Relaxed);
            Ok(())
        }
    };
    for _ in 0..40 {
        group.go(body());
        drop(group.try_go(body()));
    }
    assert_eq!(group.wait(), Ok(()));
    assert!(most.load(Ordering::Relaxed) <= LIMIT);
    // When the limit is reached, the group accepts no more Gs.
    let (open, gate) = channel::<()>(0);
    let group = ErrorGroup::<()>::with_limit(1);
    group.go(move || gate.recv().map_err(|_| ()).or(Ok(())));
    assert!(matches!(group.try_go(|| Ok(())), Err(TryGoError::LimitReached(_))));
    drop(open);
    assert_eq!(group.wait(), Ok(()));
}
shared_test!(error_group_respects_its_limit);

/// As in the tests of Go's `x/sync/semaphore`: whether a request for one permit is granted, by each kind of request.
fn permits_are_granted_while_there_are_some() {
    let requests: [fn(&Semaphore, u32) -> bool; 3] = [
        |semaphore, permits| semaphore.try_acquire(permits).map(|permit| permit.forget()).is_some(),
        |semaphore, permits| {
            let granted = semaphore.acquire_timeout(permits, Duration::from_millis(1));
            granted.map(|permit| permit.forget()).is_some()
        },
        |semaphore, permits| {
            let (context, _cancel) = Context::background().with_timeout(Duration::from_millis(1));
            semaphore.acquire_until(permits, &context).map(|permit| permit.forget()).is_ok()
        },
    ];
    for request in requests {
        let semaphore = Semaphore::new(2);
        semaphore.acquire(1).forget();
        assert!(request(&semaphore, 1) && !request(&semaphore, 1));
        semaphore.release(2);
        assert!(request(&semaphore, 1) && !request(&semaphore, 2) && !request(&semaphore, 3));
        semaphore.acquire(1).forget();
        assert!(!request(&semaphore, 1) && request(&semaphore, 0));
    }
}
shared_test!(permits_are_granted_while_there_are_some);

/// A request for more permits than there are waits until its limit is over. Meanwhile it keeps no other request waiting.
fn impossible_request_for_permits_waits_alone() {
    const SIZE: u32 = 2;
    let semaphore = Arc::new(Semaphore::new(SIZE));
    let (context, cancel) = Context::background().with_cancel();
    let too_big = {
        let semaphore = semaphore.clone();
        go(move || semaphore.acquire_until(SIZE + 1, &context).map(drop))
    };
    yield_now();
    let group = ErrorGroup::new();
    for _ in 0..3 * SIZE {
        let semaphore = semaphore.clone();
        group.go(move || {
            let _permit = semaphore.acquire_until(1, now() + Duration::from_secs(3600))?;
            sleep(Duration::from_micros(100));
            Ok::<_, ContextError>(())
        });
    }
    assert_eq!(group.wait(), Ok(()));
    assert!(!too_big.is_finished() && semaphore.try_acquire(SIZE).is_some());
    cancel.cancel();
    assert_eq!(too_big.join(), Ok(Err(ContextError::Canceled)));
    assert_eq!(semaphore.available(), SIZE);
}
shared_test!(impossible_request_for_permits_waits_alone);

/// A request whose context is cancelled before permits are released is not granted.
fn cancelled_request_for_permits_is_not_granted() {
    for _ in 0..20 {
        let semaphore = Arc::new(Semaphore::new(2));
        let (context, cancel) = Context::background().with_cancel();
        semaphore.acquire(1).forget();
        let other = {
            let semaphore = semaphore.clone();
            go(move || {
                // As soon as the large request waits, `try_acquire` no longer gets the other permit.
                while semaphore.try_acquire(1).is_some() {
                    yield_now();
                }
                cancel.cancel();
                semaphore.release(1);
            })
        };
        assert_eq!(semaphore.acquire_until(2, &context).map(drop), Err(ContextError::Canceled));
        other.join().unwrap();
        assert_eq!(semaphore.available(), 2);
    }
}
shared_test!(cancelled_request_for_permits_is_not_granted);
