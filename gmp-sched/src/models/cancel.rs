//! Models of waits that a cancellation, a deadline or a waker may end, and of timers that are stopped while they fire.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use super::explore;
use super::platform::{Model, Setting, run_as, spawn_as};
use crate::base::instant::Instant;
use crate::engine::syscall::enter_syscall;
use crate::engine::timers::arm;
use crate::entities::goroutine::{Goroutine, WaitGeneration};
use crate::entities::machine::Machine;
use crate::entities::status::Status;
use crate::entities::timers::Action;
use crate::library::chan::Side;
use crate::library::limit::{Cause, ContextError, Node};
use crate::library::time::TimerSlot;
use crate::platform::Pinned;

/// A time that is earlier than every reading of the clock.
const DUE: Instant = Instant::from_nanos(1);
/// A point in time that no model reaches.
const LATER: Instant = Instant::from_nanos(1 << 50);

/// Fires the timers that are due at [`DUE`] on the P that the M `of` holds. Returns how many Gs were readied.
fn run_due(pinned: &Pinned<Model>, of: &'static Machine<Model>) -> usize {
    let processor = of.processor().expect("it holds one");
    let mut readied = 0;
    while let Some(action) = processor.timers.pop_due(DUE) {
        readied += usize::from(action.run(pinned, DUE).is_some());
    }
    readied
}

/// Whether the G has been readied. It can be readied only once, because a second waker finds that it no longer waits.
fn is_readied(goroutine: &'static Goroutine<Model>) -> bool {
    goroutine.status() == Status::Runnable
}

/// The commit of a wait registers the G's waiter with the context and arms the timer. At the same time, the context is
/// cancelled and the timer fires. The G runs as soon as the cancellation or the timer has readied it, and removes its
/// waiter and its timer.
#[test]
fn wait_ends_once_by_cancellation_or_deadline_during_its_commit() {
    explore(|| {
        let setting = Setting::new(3);
        let machines = [setting.running_machine(), setting.running_machine(), setting.running_machine()];
        let [far_side, canceller, timer] = machines;
        let (node, me) = (Node::<Model>::new(None, None), setting.goroutine());
        let generation = me.open_wait();
        let continue_after_wait = |pinned: &Pinned<Model>, node: &Node<Model>| {
            assert!(is_readied(me));
            me.set_status(Status::Running);
            node.dequeue(me);
            me.timer.cancel(pinned);
        };
        let cancelled = node.clone();
        let cancels = spawn_as(canceller, move |pinned| {
            cancelled.cancel(&Cause::of(ContextError::Canceled));
            if pinned.processor().queue.pop(true).is_some() {
                continue_after_wait(pinned, &cancelled);
            }
        });
        let timed = node.clone();
        let fires = spawn_as(timer, move |pinned| {
            if run_due(pinned, far_side) > 0 {
                continue_after_wait(pinned, &timed);
            }
        });
        run_as(far_side, |pinned| {
            node.enqueue(pinned, me, generation, || arm(pinned, me, DUE, &me.timer, Action::Wake(me, generation)));
            if pinned.processor().queue.pop(true).is_some() {
                continue_after_wait(pinned, &node);
            }
        });
        cancels.join().unwrap();
        fires.join().unwrap();
        assert_eq!(me.status(), Status::Running, "the context has ended, and the G was not readied");
        assert!(!me.timer.is_armed(), "the G has left a timer behind");
    });
}

/// While one M cancels a context, another M derives a child from it, and a grandchild from the child. The grandchild is
/// cancelled, too.
#[test]
fn context_derived_during_cancellation_is_cancelled() {
    explore(|| {
        let setting = Setting::new(2);
        let (maker, canceller) = (setting.running_machine(), setting.running_machine());
        let top = Node::<Model>::new(None, None);
        let cancelled = top.clone();
        let cancels = spawn_as(canceller, move |_| cancelled.cancel(&Cause::of(ContextError::Canceled)));
        let below = run_as(maker, |_| {
            let middle = Node::new(Some(&top), None);
            Node::new(Some(&middle), None)
        });
        cancels.join().unwrap();
        run_as(maker, |_| assert!(below.unwrap().is_done(), "it was derived from one that has ended"));
    });
}

/// On the P of `owner`, sets a timer to `when` and to every `period` after that. Queues `receiver` as a receiver of its
/// ticks, so that the timer is armed.
fn armed_timer(
    owner: &'static Machine<Model>,
    receiver: &'static Goroutine<Model>,
    when: Instant,
    period: Duration,
) -> &'static TimerSlot<Model> {
    let value_slot = Box::leak(Box::new(std::sync::atomic::AtomicU64::new(0)));
    receiver.waiter.prepare(receiver, WaitGeneration::SOLE, value_slot.as_ptr().cast());
    let slot = run_as(owner, |_| {
        let slot = TimerSlot::<Model>::take().unwrap();
        assert!(slot.channel().recv_or_queue(&receiver.waiter).is_none());
        slot.set(when, period);
        slot
    });
    slot.unwrap()
}

/// `stop` is called while the timer fires. It returns `true` if and only if the waiting G gets no tick. No tick can be
/// received afterwards.
#[test]
fn timer_stopped_while_it_fires_leaves_no_tick() {
    explore(|| {
        let setting = Setting::new(2);
        let (owner, timer, receiver) = (setting.running_machine(), setting.running_machine(), setting.goroutine());
        let slot = armed_timer(owner, receiver, DUE, Duration::ZERO);
        let fires = spawn_as(timer, move |pinned| assert!(run_due(pinned, owner) <= 1));
        let was_stopped = run_as(owner, |_| slot.stop()).unwrap();
        fires.join().unwrap();
        assert_ne!(was_stopped, is_readied(receiver));
        run_as(owner, |_| assert!(slot.try_take().is_none() && !slot.stop(), "a stale tick"));
    });
}

/// A timer is set again while it fires. The waiting G gets the tick of the earlier setting only if `set` has returned
/// that this tick was received.
#[test]
fn timer_reset_while_it_fires_delivers_no_stale_tick() {
    explore(|| {
        let setting = Setting::new(2);
        let (owner, timer, receiver) = (setting.running_machine(), setting.running_machine(), setting.goroutine());
        let slot = armed_timer(owner, receiver, DUE, Duration::ZERO);
        let fires = spawn_as(timer, move |pinned| assert!(run_due(pinned, owner) <= 1));
        let was_set = run_as(owner, |_| slot.set(LATER, Duration::ZERO)).unwrap();
        fires.join().unwrap();
        assert_ne!(was_set, is_readied(receiver));
        run_as(owner, |_| assert!(slot.try_take().is_none() && slot.stop(), "a stale tick"));
    });
}

/// A ticker is still armed, although the last wait for it is over. It fires while another G begins to wait. This G gets
/// a tick: at once, or by the firing.
#[test]
fn wait_that_begins_while_a_ticker_becomes_dormant_gets_a_tick() {
    explore(|| {
        let setting = Setting::new(2);
        let (owner, timer, former) = (setting.running_machine(), setting.running_machine(), setting.goroutine());
        let slot = armed_timer(owner, former, DUE, Duration::from_nanos(10));
        run_as(owner, |pinned| {
            let header = &slot.channel().header;
            assert!(header.lock(pinned).remove(Side::Receive, &former.waiter));
        });
        let fires = spawn_as(timer, move |pinned| assert!(run_due(pinned, owner) <= 1));
        let received = run_as(owner, |_| slot.channel().recv_or_queue(&former.waiter)).unwrap();
        fires.join().unwrap();
        assert_ne!(received.is_some(), is_readied(former), "the G waits for ever");
        run_as(owner, |_| slot.stop());
    });
}

/// A G in a system call stops a timer. Meanwhile the number of Ps decreases: the P on which the timer was set is no
/// longer used, and its timers move to another P. The G must find the timer, on whichever P it is.
#[test]
fn timer_moved_from_a_retired_p_is_stopped_in_a_system_call() {
    explore(|| {
        let setting = Setting::new(2);
        let (caller, successor) = (setting.running_machine(), setting.running_machine());
        let (from, to) = (caller.held_processor(), successor.held_processor());
        let slot = armed_timer(caller, setting.goroutine(), LATER, Duration::ZERO);
        run_as(caller, |_| core::mem::forget(enter_syscall::<Model>()));
        let retires = spawn_as(successor, move |_| {
            to.timers.adopt(&from.timers);
        });
        run_as(caller, |_| assert!(slot.stop(), "it has not fired"));
        retires.join().unwrap();
        assert!(
            [from, to].iter().all(|of| of.timers.earliest() == Instant::NEVER),
            "a timer that was stopped is armed"
        );
    });
}

/// One thread cancels a context while another thread cancels a child of that context. When both calls have returned,
/// the context and all its descendants have ended.
#[test]
fn two_overlapping_cancellations_end_all_descendants() {
    explore(|| {
        let setting = Setting::new(2);
        let (first, second) = (setting.running_machine(), setting.running_machine());
        let top = Node::<Model>::new(None, None);
        let [beside, below] = [0; 2].map(|_| Node::new(Some(&top), None));
        let cancelled = top.clone();
        let cancels = spawn_as(first, move |_| cancelled.cancel(&Cause::of(ContextError::Canceled)));
        run_as(second, |_| Arc::clone(&below).cancel(&Cause::of(ContextError::Canceled)));
        cancels.join().unwrap();
        run_as(second, |_| assert!([&top, &beside, &below].into_iter().all(|node| node.cause().is_some())));
    });
}

/// All Ms are idle, and the only G waits for a timer. While it waits for the timer's tick, this is no deadlock. If its
/// wait was for something else, it is one, although the timer is still armed.
#[test]
fn timer_that_is_armed_for_nobody_is_no_reason_to_wait() {
    explore(|| {
        let setting = Setting::new(1);
        let (idler, waits) = (setting.busy_machine(), setting.goroutine());
        let slot = armed_timer(idler, waits, LATER, Duration::ZERO);
        run_as(idler, |pinned| idler.go_idle(pinned));
        let is_dead = || setting.scheduler.is_dead(&setting.scheduler.shared.lock()).is_some();
        assert!(!is_dead());
        run_as(idler, |pinned| {
            assert!(slot.channel().header.lock(pinned).remove(Side::Receive, &waits.waiter));
        });
        assert!(is_dead());
    });
}
