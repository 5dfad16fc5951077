//! Models of waits that a cancellation, a deadline or a waker may end, and of timers that are stopped while they fire.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use super::explore;
use super::platform::{Model, Setting, run_as, spawn_as};
use crate::base::atomic::{AtomicBool, Ordering};
use crate::base::instant::Instant;
use crate::engine::syscall::enter_syscall;
use crate::engine::timers::arm;
use crate::entities::goroutine::{Goroutine, WaitGeneration, WaitReason};
use crate::entities::loom_wait;
use crate::entities::machine::Machine;
use crate::entities::status::Status;
use crate::entities::timers::Action;
use crate::library::chan::{Receiver, Sender, Side, channel};
use crate::library::device_signals::{Found, Signal};
use crate::library::limit::{Cause, ContextError, Limit, Node, Patience};
use crate::library::time::TimerSlot;
use crate::library::wait_end::WaitEnd;
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

/// All Ms are idle, and one timer is armed. While a G waits for the tick of the timer, this is no deadlock. When no G
/// waits for the tick any more, it is a deadlock, although the timer is still armed.
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

/// A limit that is never over. It remembers whether the wait has ended.
#[derive(Clone, Copy)]
struct Never(&'static AtomicBool);

impl WaitEnd<Model> for Never {
    fn arm(self, _: &Pinned<Model>, _: &'static Goroutine<Model>, _: WaitGeneration) {
        let is_over = self.0.load(Ordering::Relaxed);
        assert!(!is_over, "the limit of a wait was armed after the wait, while the G may use its timer again");
    }

    fn disarm(self, _: &'static Goroutine<Model>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A signal is raised and taken from the raised list during the commit of a wait. The limit of the wait is armed before
/// the G can go on, and so before the G arms its timer for the next wait, or drops the context that the limit refers to.
#[test]
fn limit_is_armed_before_a_raise_can_end_the_wait() {
    explore(|| {
        let setting = Setting::new(2);
        let (waits, polls) = (setting.running_machine(), setting.busy_machine());
        let (scheduler, me) = (setting.scheduler, waits.running_goroutine());
        let signal: &'static Signal<Model> = Box::leak(Box::new(Signal::new()));
        let limit = Never(Box::leak(Box::new(AtomicBool::new(false))));
        let raises = spawn_as(polls, move |pinned| {
            signal.raise();
            scheduler.poll(pinned);
            if pinned.processor().queue.pop(true).is_some() {
                me.set_status(Status::Running);
                assert_eq!(signal.end(scheduler, me, limit), Some(true));
            }
        });
        run_as(waits, |pinned| {
            if signal.check(pinned) == Found::Nothing
                && let Some(generation) = signal.announce(scheduler, me)
            {
                me.set_waiting(WaitReason::IoWait, pinned.machine().unsampled(), Instant::from_nanos(0));
                pinned.machine().set_current(None);
                signal.commit(pinned, me, generation, limit);
            }
        });
        raises.join().unwrap();
    });
}

/// The limit of a receive is over. While its G leaves the queue, another G enters the queue. The next value is for the G
/// that has entered.
#[test]
fn waiter_whose_limit_is_over_leaves_the_queue_under_its_lock() {
    explore(|| {
        loom_wait::reset();
        let setting = Setting::new(2);
        let (leaves, enters) = (setting.running_machine(), setting.running_machine());
        let ends: Arc<(Sender<u64, Model>, Receiver<u64, Model>)> = Arc::new(channel(0));
        let second = setting.goroutine();
        let value_slot: &'static _ = Box::leak(Box::new(std::sync::atomic::AtomicU64::new(0)));
        second.waiter.prepare(second, WaitGeneration::SOLE, value_slot.as_ptr().cast());
        let fires = {
            let (ends, timers) = (ends.clone(), &leaves.held_processor().timers);
            spawn_as(enters, move |pinned| {
                let Some(action) = timers.pop_due(LATER) else {
                    // The receive has not begun. So that it ends, it gets a value.
                    assert!(ends.0.channel().send(1, Patience::Forever).is_ok());
                    return;
                };
                assert!(action.run(pinned, LATER).is_some_and(loom_wait::ready), "the limit ends the wait");
                assert!(ends.1.channel().recv_or_queue(&second.waiter).is_none());
            })
        };
        let received = run_as(leaves, |_| ends.1.channel().receive(Patience::Until(&Limit::from(LATER)))).unwrap();
        fires.join().unwrap();
        if received.is_err() {
            run_as(leaves, |_| {
                let sent = ends.0.channel().send(7, Patience::Never);
                assert!(sent.is_ok(), "a receiver that waits is no longer in the queue");
            });
            assert_eq!(value_slot.load(Ordering::Relaxed), 7);
        }
    });
}
