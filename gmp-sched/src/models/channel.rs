//! Models of channels and selects. The holder of a channel's lock sees what earlier holders did. A value is received
//! once or stays in the channel. Only one of several wakers ends a wait.
//!
//! The models run the channel's own code, from a G's call to its return. Only the switch is replaced: the loom thread
//! of a G that parks runs the commit, which releases the lock, and then blocks until the G is readied ([`loom_wait`]).

use alloc::sync::Arc;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use super::platform::{Model, Setting, run_as, spawn_as};
use super::{explore, explore_every_point, pass_point};
use crate::base::atomic::{AtomicBool, Ordering};
use crate::base::instant::Instant;
use crate::engine::ready::ready_pinned;
use crate::entities::goroutine::{Goroutine, WaitGeneration, WaitReason};
use crate::entities::loom_wait;
use crate::entities::machine::Machine;
use crate::entities::status::{ParkedStatus, Status};
use crate::library::chan::{Channel, Receiver, Sender, Side, channel};
use crate::library::limit::Patience;
use crate::library::select::{self, Case, Select};
use crate::platform::Pinned;

/// Makes `COUNT` Ms, each with a running G.
fn machines<const COUNT: usize>() -> [&'static Machine<Model>; COUNT] {
    loom_wait::reset();
    let setting = Setting::new(COUNT);
    core::array::from_fn(|_| setting.running_machine())
}

fn receive(_: &Pinned<Model>, channel: &Channel<u32, Model>) -> Option<u32> {
    channel.receive(Patience::Forever).ok()
}

fn send(_: &Pinned<Model>, channel: &Channel<u32, Model>, value: u32) -> bool {
    channel.send(value, Patience::Forever).is_ok()
}

fn close(_: &Pinned<Model>, channel: &Channel<u32, Model>) {
    channel.close();
}

/// Does the steps of `select::with_all_locks`, for an ordered select that waits forever.
fn select_all(pinned: &Pinned<Model>, cases: &mut [Case<'_, Model>]) -> usize {
    select::sort(pinned, cases, select::Choice::First);
    select::lock_in_order(pinned, cases);
    if let Some((chosen, waiter)) = select::try_locked(pinned, cases, select::Choice::First, false) {
        select::unlock_all(cases);
        if let Some(waiter) = waiter {
            ready_pinned(pinned, waiter);
        }
        return cases[chosen].number();
    }
    let me = pinned.goroutine();
    let generation = me.open_wait();
    cases.iter_mut().for_each(|case| case.enter_queue(me, generation));
    let chosen = wait_for_one(pinned, me, cases);
    cases[chosen].number()
}

/// Runs a select on the fast path of [`select`]: for one case after the other, locks the channel, checks whether it is
/// ready, and puts a waiter into its queue. If a channel is locked or ready, starts over by [`select_all`].
fn select_trying(pinned: &Pinned<Model>, cases: &mut [Case<'_, Model>]) -> usize {
    let me = pinned.goroutine();
    let generation = me.open_wait();
    if select::enter_all(pinned, me, generation, cases) {
        wait_for_one(pinned, me, cases)
    } else {
        select_all(pinned, cases)
    }
}

fn wait_for_one(pinned: &Pinned<Model>, me: &'static Goroutine<Model>, cases: &mut [Case<'_, Model>]) -> usize {
    me.set_waiting(WaitReason::Select, ParkedStatus::unsampled(me.scheduler().number()), Instant::from_nanos(0));
    loom_wait::wait(me, || select::unlock_all(cases));
    me.set_status(Status::Running);
    select::leave_queues(pinned, cases, me.woken_by.load(Ordering::Relaxed)).expect("a case was chosen")
}

type Ends = (Sender<u32, Model>, Receiver<u32, Model>);

/// Makes two channels, sorted by their addresses. A select locks its channels in this order, so every run of a model
/// takes the locks in the same order.
fn two_channels() -> Arc<[Ends; 2]> {
    let mut chans = [channel(0), channel(0)];
    chans.sort_by_key(|chan: &Ends| core::ptr::from_ref(&chan.0.channel().header).addr());
    Arc::new(chans)
}

#[test]
fn received_value_is_ordered_after_its_send() {
    explore(|| {
        let [here, there] = machines();
        let shared = Arc::new((channel::<u32, Model>(0), AtomicBool::new(false)));
        let sending = {
            let shared = shared.clone();
            spawn_as(there, move |pinned| {
                for value in [1, 2] {
                    shared.1.store(true, Ordering::Relaxed);
                    assert!(send(pinned, shared.0.0.channel(), value));
                }
            })
        };
        run_as(here, |pinned| {
            assert_eq!(receive(pinned, shared.0.1.channel()), Some(1));
            assert!(shared.1.load(Ordering::Relaxed));
            assert_eq!(receive(pinned, shared.0.1.channel()), Some(2));
        });
        sending.join().unwrap();
    });
}

#[test]
fn buffered_values_are_received_in_order() {
    explore(|| {
        let [here, there] = machines();
        let ends: Arc<Ends> = Arc::new(channel(1));
        let sending = {
            let ends = ends.clone();
            spawn_as(there, move |pinned| (1..4).for_each(|value| assert!(send(pinned, ends.0.channel(), value))))
        };
        run_as(here, |pinned| (1..4).for_each(|value| assert_eq!(receive(pinned, ends.1.channel()), Some(value))));
        sending.join().unwrap();
    });
}

#[test]
fn send_and_receive_agree_with_a_concurrent_close() {
    explore(|| {
        let machines = machines::<3>();
        let ends: Arc<Ends> = Arc::new(channel(0));
        let sent = Arc::new(AtomicBool::new(false));
        let sending = {
            let (ends, sent) = (ends.clone(), sent.clone());
            spawn_as(machines[1], move |pinned| {
                sent.store(send(pinned, ends.0.channel(), 7), Ordering::Relaxed);
            })
        };
        let closing = {
            let ends = ends.clone();
            spawn_as(machines[2], move |pinned| close(pinned, ends.0.channel()))
        };
        let received = run_as(machines[0], |pinned| receive(pinned, ends.1.channel())).unwrap();
        sending.join().unwrap();
        closing.join().unwrap();
        assert_eq!(received, sent.load(Ordering::Relaxed).then_some(7));
    });
}

#[test]
fn close_ends_the_wait_of_a_sender() {
    explore(|| {
        let [here, there] = machines();
        let ends: Arc<Ends> = Arc::new(channel(0));
        let closing = {
            let ends = ends.clone();
            spawn_as(there, move |pinned| close(pinned, ends.0.channel()))
        };
        let has_moved = run_as(here, |pinned| send(pinned, ends.0.channel(), 7));
        closing.join().unwrap();
        assert_eq!(has_moved, Some(false), "sent without a receiver");
    });
}

/// A channel is closed and then drained. At every moment a receive could complete without waiting, with a value or with
/// the error that the channel is closed. So `looks_ready`, which takes no lock, must always return true.
#[test]
fn check_without_lock_of_a_closed_channel_is_of_one_moment() {
    explore_every_point(|| {
        let [here, there] = machines();
        let ends: Arc<Ends> = Arc::new(channel(1));
        run_as(here, |pinned| assert!(send(pinned, ends.0.channel(), 7)));
        let draining = {
            let ends = ends.clone();
            spawn_as(there, move |pinned| {
                close(pinned, ends.0.channel());
                pass_point();
                assert_eq!(receive(pinned, ends.1.channel()), Some(7));
                pass_point();
            })
        };
        pass_point();
        assert!(ends.1.channel().header.looks_ready(Side::Receive), "a receive that would have had to wait");
        draining.join().unwrap();
    });
}

/// A sender waits in the queue until the channel is closed. At every moment a receive could complete without waiting:
/// first from the sender, later with the error that the channel is closed. So `looks_ready`, which takes no lock, must
/// always return true.
#[test]
fn check_without_lock_of_a_queue_is_of_one_moment() {
    explore_every_point(|| {
        let [here, there] = machines();
        let ends: Arc<Ends> = Arc::new(channel(0));
        run_as(here, |pinned| {
            let (header, me) = (&ends.0.channel().header, pinned.goroutine());
            me.waiter.prepare(me, WaitGeneration::SOLE, core::ptr::null_mut());
            me.set_waiting(
                WaitReason::ChanSend,
                ParkedStatus::unsampled(me.scheduler().number()),
                Instant::from_nanos(0),
            );
            let _held = header.lock(pinned);
            header.queue(Side::Send).push_back(&me.waiter);
        });
        let closing = {
            let ends = ends.clone();
            spawn_as(there, move |pinned| {
                close(pinned, ends.0.channel());
                pass_point();
            })
        };
        pass_point();
        assert!(ends.1.channel().header.looks_ready(Side::Receive), "a receive that would have had to wait");
        closing.join().unwrap();
    });
}

#[test]
fn select_is_ended_once_by_a_sender_or_a_close() {
    explore(|| {
        let machines = machines::<3>();
        let chans = two_channels();
        let sending = {
            let chans = chans.clone();
            spawn_as(machines[1], move |pinned| assert!(send(pinned, chans[0].0.channel(), 7)))
        };
        let closing = {
            let chans = chans.clone();
            spawn_as(machines[2], move |pinned| close(pinned, chans[1].0.channel()))
        };
        run_as(machines[0], |pinned| {
            let (mut first, mut second) = (select::recv(&chans[0].1), select::recv(&chans[1].1));
            let chosen = select_all(pinned, &mut [first.case(), second.case()]);
            let results = (first.into_result(), second.into_result());
            match chosen {
                0 => assert_eq!(results, (Some(Ok(7)), None)),
                _ => {
                    assert!(results.0.is_none() && results.1.is_some_and(|result| result.is_err()));
                    // The select took no value from the sender.
                    assert_eq!(receive(pinned, chans[0].1.channel()), Some(7));
                }
            }
        });
        sending.join().unwrap();
        closing.join().unwrap();
        assert!(chans.iter().all(|chan| chan.1.channel().header.queue(Side::Receive).is_empty()));
    });
}

#[test]
fn two_selects_agree_on_one_exchange() {
    explore(|| {
        let [here, there] = machines();
        let chans = two_channels();
        let chosen_there = Arc::new(AtomicBool::new(false));
        let other = {
            let (chans, chosen_there) = (chans.clone(), chosen_there.clone());
            spawn_as(there, move |pinned| {
                let (mut sending, mut receiving) = (select::send(&chans[0].0, 1), select::recv(&chans[1].1));
                // This select lists the two channels in another order than the select below. There must be no deadlock,
                // because both selects lock the channels in the order of their addresses.
                let chosen = select_all(pinned, &mut [receiving.case(), sending.case()]);
                assert!(receiving.into_result().is_none_or(|result| result == Ok(2)));
                chosen_there.store(chosen == 0, Ordering::Relaxed);
            })
        };
        run_as(here, |pinned| {
            let (mut sending, mut receiving) = (select::send(&chans[1].0, 2), select::recv(&chans[0].1));
            let chosen = select_trying(pinned, &mut [receiving.case(), sending.case()]);
            assert!(receiving.into_result().is_none_or(|result| result == Ok(1)));
            other.join().unwrap();
            assert_eq!(chosen_there.load(Ordering::Relaxed), chosen == 1);
        });
        let queues =
            chans.iter().flat_map(|chan| [Side::Send, Side::Receive].map(|side| chan.0.channel().header.queue(side)));
        assert!(queues.into_iter().all(|queue| queue.is_empty()), "a select has left a waiter behind");
    });
}

/// Runs a whole select, from the check of its cases to its return.
#[test]
fn whole_select_takes_one_of_two_values() {
    explore(|| {
        let machines = machines::<3>();
        let chans = two_channels();
        let sending = [1, 2].map(|number| {
            let chans = chans.clone();
            spawn_as(machines[number], move |pinned| {
                assert!(send(pinned, chans[number - 1].0.channel(), number as u32));
            })
        });
        run_as(machines[0], |pinned| {
            let (mut first, mut second) = (select::recv(&chans[0].1), select::recv(&chans[1].1));
            let chosen = Select::new(&mut [first.case(), second.case()]).wait();
            let results = (first.into_result(), second.into_result());
            assert_eq!(results, if chosen == 0 { (Some(Ok(1)), None) } else { (None, Some(Ok(2))) });
            // The select has not taken the value of the other channel, so a receive gets it.
            let other = 1 - chosen;
            assert_eq!(receive(pinned, chans[other].1.channel()), Some(other as u32 + 1));
        });
        sending.into_iter().for_each(|each| each.join().unwrap());
        assert!(chans.iter().all(|chan| chan.1.channel().header.queue(Side::Receive).is_empty()));
    });
}

/// Runs `call`, which may panic, and returns whether it did. The message of the panic is not printed, because a model
/// has many runs and would print the message in each of them.
fn panics_quietly(call: impl FnOnce()) -> bool {
    std::thread_local! {
        static IS_QUIET: core::cell::Cell<bool> = const { core::cell::Cell::new(false) };
    }
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(std::boxed::Box::new(move |info| {
            if !IS_QUIET.get() {
                usual(info);
            }
        }));
    });
    // No other loom thread may panic meanwhile, because its message would be suppressed, too.
    IS_QUIET.set(true);
    let ended = panic::catch_unwind(AssertUnwindSafe(call));
    IS_QUIET.set(false);
    ended.is_err()
}

/// An M without a P, in a system call, selects or receives while another G sends. The M receives the value, or panics
/// because it would have to wait. In either case the M holds no lock and is in no queue afterwards.
#[test]
fn caller_that_may_not_block_panics_without_lock_and_waiter() {
    fn select_in_order(chans: &[Ends; 2]) {
        let (mut first, mut second) = (select::recv(&chans[0].1), select::recv(&chans[1].1));
        _ = Select::new(&mut [first.case(), second.case()]).ordered().wait();
    }
    fn select_one_twice(chans: &[Ends; 2]) {
        let (mut first, mut second) = (select::recv(&chans[1].1), select::recv(&chans[1].1));
        _ = Select::new(&mut [first.case(), second.case()]).wait_until(Instant::NEVER);
    }
    fn receive_one(chans: &[Ends; 2]) {
        _ = chans[1].1.recv();
    }
    for call in [select_in_order, select_one_twice, receive_one] {
        explore(move || {
            loom_wait::reset();
            let setting = Setting::new(3);
            let (blocked, sends) = (setting.blocked_machine(), setting.running_machine());
            let receives = setting.running_machine();
            let chans = two_channels();
            let sending = {
                let chans = chans.clone();
                spawn_as(sends, move |pinned| assert!(send(pinned, chans[1].0.channel(), 7)))
            };
            let has_panicked = {
                let chans = chans.clone();
                loom::thread::spawn(move || run_as(blocked, |_| panics_quietly(|| call(&chans))).unwrap())
            };
            if has_panicked.join().unwrap() {
                run_as(receives, |pinned| assert_eq!(receive(pinned, chans[1].1.channel()), Some(7)));
            }
            sending.join().unwrap();
            for chan in chans.iter() {
                let header = &chan.1.channel().header;
                assert!(header.try_lock(&Pinned::new()).is_some(), "a lock is kept");
                assert!(header.queue(Side::Receive).is_empty(), "a waiter is left behind");
            }
        });
    }
}

/// An M without a P, in a system call, sends while another G receives. The value is received, or the send panics
/// because the M would have to wait, and drops the value. In either case the M holds no lock and is in no queue
/// afterwards.
#[test]
fn sender_that_may_not_block_panics_without_lock_waiter_and_value() {
    type Ends = (Sender<Arc<()>, Model>, Receiver<Arc<()>, Model>);
    let sends: [fn(&Ends, Arc<()>); 2] = [
        |ends, value| ends.0.send(value).expect("the channel is open"),
        |ends, value| ends.0.send_until(value, Instant::NEVER).expect("the channel is open"),
    ];
    for send in sends {
        explore(move || {
            loom_wait::reset();
            let setting = Setting::new(3);
            let (blocked, receives) = (setting.blocked_machine(), setting.running_machine());
            let sends_again = setting.running_machine();
            let ends: Arc<Ends> = Arc::new(channel(0));
            let value = Arc::new(());
            let receiving = {
                let ends = ends.clone();
                spawn_as(receives, move |_| drop(ends.1.recv().expect("the channel is open")))
            };
            let has_panicked = {
                let (ends, value) = (ends.clone(), value.clone());
                loom::thread::spawn(move || run_as(blocked, |_| panics_quietly(|| send(&ends, value))).unwrap())
            };
            if has_panicked.join().unwrap() {
                assert_eq!(Arc::strong_count(&value), 1, "the value is kept");
                run_as(sends_again, |_| send(&ends, value.clone()));
            }
            receiving.join().unwrap();
            let header = &ends.0.channel().header;
            assert!(header.try_lock(&Pinned::new()).is_some(), "a lock is kept");
            assert!(header.queue(Side::Send).is_empty(), "a waiter is left behind");
            assert_eq!(Arc::strong_count(&value), 1, "the value is received more or less than once");
        });
    }
}
