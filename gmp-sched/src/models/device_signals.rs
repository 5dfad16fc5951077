//! Models of the atomic word of a signal. Four parties access this word: a G that begins to wait, an interrupt handler
//! that raises the signal, an M that takes the signal from the raised list, and a timer. No raise is lost, a wait ends
//! once, and the G sees what the handler did.
//!
//! The models run the signal's own code. A readied G continues on the loom thread that takes the G from a queue.

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::checked::Checked;
use super::platform::{Model, Setting, is_asked, run_as, spawn_as};
use super::{explore, explore_every_point};
use crate::base::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::base::instant::Instant;
use crate::base::points::{Points, Site};
use crate::engine::steal::share;
use crate::engine::timers::take_due;
use crate::entities::goroutine::{Goroutine, WaitReason};
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::entities::status::Status;
use crate::library::device_signals::{Found, Signal};
use crate::library::limit::{Cause, ContextError, Limit, Node};
use crate::platform::Pinned;

/// A time that is earlier than every reading of the clock.
const DUE: Instant = Instant::from_nanos(1);

/// A signal, and a G that waits for this signal again and again until the G has seen the last raise.
pub(super) struct Scene {
    scheduler: &'static Scheduler<Model>,
    signal: &'static Signal<Model>,
    waiter: &'static Goroutine<Model>,
    /// The device's progress, which the handler stores before each raise.
    done: AtomicU32,
    /// The value of `done` at the last raise.
    last: u32,
    /// The value of `done` that the G has seen.
    seen: AtomicU32,
    /// Whether a deadline has ended a wait, or the G had to check the signal again after a wait. Later waits have no
    /// deadline.
    timed_out: AtomicBool,
}

impl Scene {
    /// Makes a signal. The G that waits for it is the one that `machine` runs.
    pub(super) fn new(setting: &Setting, machine: &'static Machine<Model>, last: u32) -> Arc<Self> {
        Arc::new(Self {
            scheduler: setting.scheduler,
            signal: Box::leak(Box::new(Signal::new())),
            waiter: machine.running_goroutine(),
            done: AtomicU32::new(0),
            last,
            seen: AtomicU32::new(0),
            timed_out: AtomicBool::new(false),
        })
    }

    /// Raises the signal once for each step of the device.
    pub(super) fn interrupt(&self) {
        (1..=self.last).for_each(|step| self.step(step));
    }

    fn step(&self, step: u32) {
        Model::point(Site::DeviceSignal);
        self.done.store(step, Ordering::Relaxed);
        self.signal.raise();
    }

    fn deadline(&self, first: Instant) -> Instant {
        if self.timed_out.load(Ordering::Relaxed) { Instant::NEVER } else { first }
    }

    /// Runs the G on this M until the G has seen the last raise or is parked.
    pub(super) fn run(&self, pinned: &Pinned<Model>, first_deadline: Instant) {
        while self.seen.load(Ordering::Relaxed) < self.last {
            let deadline = self.deadline(first_deadline);
            match self.signal.check(pinned) {
                Found::Raised => {
                    self.note(true);
                    continue;
                }
                Found::OnItsWay => {
                    Model::relax();
                    continue;
                }
                Found::Nothing => {}
                Found::Taken => unreachable!("one G waits"),
            }
            let Some(generation) = self.signal.announce(self.scheduler, self.waiter) else { continue };
            self.waiter.set_waiting(WaitReason::IoWait, pinned.machine().unsampled(), Instant::from_nanos(0));
            pinned.machine().set_current(None);
            if self.signal.commit(pinned, self.waiter, generation, deadline) {
                return;
            }
            self.continue_after_wait(pinned, deadline);
        }
    }

    /// Runs the first steps that the G takes after a wait, on the M that has resumed it.
    fn continue_after_wait(&self, pinned: &Pinned<Model>, deadline: Instant) {
        self.waiter.set_status(Status::Running);
        pinned.machine().set_current(Some(self.waiter));
        match self.signal.end(self.scheduler, self.waiter, deadline) {
            Some(raised) => self.note(raised),
            // The G has to check the signal again. In a program it would then wait until the same deadline. In the
            // model it waits without a deadline, because a second one would test nothing new.
            None => self.timed_out.store(true, Ordering::Relaxed),
        }
    }

    fn note(&self, raised: bool) {
        if raised {
            let done = self.done.load(Ordering::Relaxed);
            assert!(done > 0, "woken by a raise, but does not see what came before it");
            self.seen.store(done, Ordering::Relaxed);
        } else {
            assert!(!self.timed_out.swap(true, Ordering::Relaxed), "a wait without a deadline was ended by one");
        }
    }

    /// Runs the G if it is the next one on this M's P.
    fn resume(&self, pinned: &Pinned<Model>, first_deadline: Instant) {
        if let Some((goroutine, _)) = pinned.processor().queue.pop(true) {
            self.resume_as(pinned, goroutine, first_deadline);
        }
    }

    fn resume_as(&self, pinned: &Pinned<Model>, goroutine: &'static Goroutine<Model>, first_deadline: Instant) {
        assert!(core::ptr::eq(goroutine, self.waiter) && goroutine.status() == Status::Runnable, "runs twice");
        self.continue_after_wait(pinned, self.deadline(first_deadline));
        self.run(pinned, first_deadline);
    }

    /// Takes all signals from the raised list, as an M does.
    fn poll(&self, pinned: &Pinned<Model>, first_deadline: Instant) {
        Model::point(Site::DeviceSignal);
        self.scheduler.poll(pinned);
        self.resume(pinned, first_deadline);
    }

    /// Fires a due timer of the P `of`, and runs the G that it readies.
    fn fire(&self, pinned: &Pinned<Model>, of: &'static Processor<Model>) {
        if let Some(goroutine) = take_due(pinned, of, DUE) {
            self.resume_as(pinned, goroutine, DUE);
        }
    }

    /// Delivers all pending raises on `machine`, and checks that the G has seen the last raise.
    fn check(&self, machine: &'static Machine<Model>) {
        run_as(machine, |pinned| {
            while self.scheduler.signals.is_ready() || !pinned.processor().queue.is_empty() {
                self.poll(pinned, Instant::NEVER);
            }
        });
        assert_eq!(self.seen.load(Ordering::Relaxed), self.last, "a raise is lost: {:?}", self.signal);
        assert_eq!(self.scheduler.signals.waiting.load(Ordering::Relaxed), 0, "counted as waiting forever");
    }
}

/// The signal is raised twice while the G begins to wait and an M checks the raised list. The G sees what the device
/// did before the last raise.
#[test]
fn wait_against_raises_and_a_poll() {
    explore_every_point(|| {
        let setting = Setting::new(2);
        let (waits, polls) = (setting.running_machine(), setting.busy_machine());
        let scene = Scene::new(&setting, waits, 2);
        let others = (scene.clone(), scene.clone());
        let raises = loom::thread::spawn(move || others.0.interrupt());
        let polling = spawn_as(polls, move |pinned| others.1.poll(pinned, Instant::NEVER));
        run_as(waits, |pinned| scene.run(pinned, Instant::NEVER));
        raises.join().unwrap();
        polling.join().unwrap();
        scene.check(polls);
    });
}

/// The deadline ends the wait while the signal is raised, and the G waits again on another M before the commit of the
/// first wait has finished. The G sees the raise in one of the two waits.
#[test]
fn deadline_against_a_commit_and_a_raise() {
    explore_every_point(|| {
        let setting = Setting::new(2);
        let (waits, fires) = (setting.running_machine(), setting.busy_machine());
        let scene = Scene::new(&setting, waits, 1);
        let others = (scene.clone(), scene.clone());
        let timers = waits.held_processor();
        let raises = loom::thread::spawn(move || others.0.interrupt());
        let fires_now = spawn_as(fires, move |pinned| others.1.fire(pinned, timers));
        run_as(waits, |pinned| scene.run(pinned, DUE));
        raises.join().unwrap();
        fires_now.join().unwrap();
        run_as(fires, |pinned| scene.fire(pinned, timers));
        scene.check(fires);
    });
}

/// Three things happen concurrently: the commit of a wait runs, the context of the wait is cancelled, and the signal is
/// raised. The wait ends exactly once. If the raise does not end it, the raise is kept for the next wait.
#[test]
fn cancellation_against_a_commit_and_a_raise() {
    explore(|| {
        let setting = Setting::new(2);
        let (waits, cancels) = (setting.running_machine(), setting.busy_machine());
        let (scheduler, me) = (setting.scheduler, waits.running_goroutine());
        let signal: &'static Signal<Model> = Box::leak(Box::new(Signal::new()));
        let node = Node::<Model>::new(None, None);
        // A number for the result of the wait. It is 0 until the G has continued.
        let ended = Arc::new(AtomicU32::new(0));
        let resume = {
            let ended = ended.clone();
            move |node: &Arc<Node<Model>>| {
                let result = match signal.end(scheduler, me, Limit::of(node)) {
                    Some(true) => 1,
                    Some(false) => 2,
                    None => 3,
                };
                assert_eq!(ended.swap(result, Ordering::Relaxed), 0, "the wait ended twice");
            }
        };
        let resume_if_ready = {
            let resume = resume.clone();
            move |pinned: &Pinned<Model>, node: &Arc<Node<Model>>| {
                if let Some((goroutine, _)) = pinned.processor().queue.pop(true) {
                    assert!(core::ptr::eq(goroutine, me) && me.status() == Status::Runnable, "runs twice");
                    me.set_status(Status::Running);
                    resume(node);
                }
            }
        };
        let raises = loom::thread::spawn(move || signal.raise());
        let cancelled = (node.clone(), resume_if_ready.clone());
        let cancelling = spawn_as(cancels, move |pinned| {
            cancelled.0.cancel(&Cause::of(ContextError::Canceled));
            cancelled.1(pinned, &cancelled.0);
        });
        run_as(waits, |pinned| {
            if signal.check(pinned) == Found::Raised {
                ended.store(1, Ordering::Relaxed);
                return;
            }
            let Some(generation) = signal.announce(scheduler, me) else {
                ended.store(3, Ordering::Relaxed);
                return;
            };
            me.set_waiting(WaitReason::IoWait, pinned.machine().unsampled(), Instant::from_nanos(0));
            pinned.machine().set_current(None);
            if !signal.commit(pinned, me, generation, Limit::of(&node)) {
                me.set_status(Status::Running);
                resume(&node);
            }
            resume_if_ready(pinned, &node);
        });
        raises.join().unwrap();
        cancelling.join().unwrap();
        run_as(cancels, |pinned| {
            scheduler.poll(pinned);
            resume_if_ready(pinned, &node);
            let result = ended.load(Ordering::Relaxed);
            assert_ne!(result, 0, "nothing ended the wait: {signal:?}");
            let expected = if result == 1 { Found::Nothing } else { Found::Raised };
            assert_eq!(signal.check(pinned), expected, "the raise is lost or counted twice");
        });
    });
}

/// A parked G is woken by its deadline and waits again, while its signal is raised twice and taken from the raised
/// list. The G sees the last raise.
#[test]
fn deadline_against_a_raise_that_is_polled() {
    explore(|| {
        let setting = Setting::new(3);
        let (waits, fires, polls) = (setting.running_machine(), setting.busy_machine(), setting.busy_machine());
        let scene = Scene::new(&setting, waits, 2);
        run_as(waits, |pinned| scene.run(pinned, DUE));
        let others = (scene.clone(), scene.clone());
        let timers = waits.held_processor();
        let polling = spawn_as(polls, move |pinned| others.0.poll(pinned, DUE));
        let fires_now = spawn_as(fires, move |pinned| others.1.fire(pinned, timers));
        scene.interrupt();
        polling.join().unwrap();
        fires_now.join().unwrap();
        scene.check(polls);
    });
}

/// What the handler wrote before the raise is visible to the G that the raise wakes.
#[test]
fn woken_g_sees_what_the_handler_did() {
    explore_every_point(|| {
        let setting = Setting::new(2);
        let (waits, polls) = (setting.running_machine(), setting.busy_machine());
        let scene = Scene::new(&setting, waits, 1);
        let memory = Arc::new(Checked::default());
        let device = (scene.clone(), memory.clone());
        let raises = loom::thread::spawn(move || {
            device.1.used();
            device.0.interrupt();
        });
        let polling = {
            let (scene, memory) = (scene.clone(), memory.clone());
            spawn_as(polls, move |pinned| {
                scene.poll(pinned, Instant::NEVER);
                if pinned.machine().current_goroutine().is_some() {
                    memory.used();
                }
            })
        };
        run_as(waits, |pinned| {
            scene.run(pinned, Instant::NEVER);
            if pinned.machine().current_goroutine().is_some() {
                memory.used();
            }
        });
        raises.join().unwrap();
        polling.join().unwrap();
        scene.check(polls);
    });
}

/// An M goes idle while an interrupt raises the signal that a G waits for. Either the idling M checks the raised list
/// again, or that M is woken, or another M is made to check the list.
#[test]
fn raise_against_an_idling_m() {
    explore_every_point(|| {
        let setting = Setting::new(2);
        let (waits, idler) = (setting.running_machine(), setting.busy_machine());
        let scene = Scene::new(&setting, waits, 1);
        run_as(waits, |pinned| scene.run(pinned, Instant::NEVER));
        run_another(&setting, waits);
        let idles = spawn_as(idler, move |pinned| idler.go_idle(pinned));
        scene.interrupt();
        idles.join().unwrap();
        setting.settle_all([idler]);
        setting.check();
        assert!(!scene.scheduler.signals.is_ready() || is_asked(waits), "no M checks the raised list");
    });
}

/// The signal of a waiting G is raised while no P is idle. So a running G is asked to give way. Its M would check the
/// raised list after that.
#[test]
fn raise_while_all_ps_are_busy_asks_a_g_to_give_way() {
    explore_every_point(|| {
        let setting = Setting::new(2);
        let (waits, busy) = (setting.running_machine(), setting.running_machine());
        let scene = Scene::new(&setting, waits, 1);
        run_as(waits, |pinned| scene.run(pinned, Instant::NEVER));
        scene.interrupt();
        assert!([waits, busy].into_iter().any(is_asked), "no M checks the raised list");
    });
}

/// An M of another scheduler raises the signal of a waiting G, while no P is idle. A G of the waiting G's scheduler is
/// asked to give way, and not the G that the other M runs, because that M would check another list.
#[test]
fn raise_by_another_scheduler_asks_a_g_of_the_waiting_gs_scheduler() {
    explore_every_point(|| {
        let (setting, other) = (Setting::new(2), Setting::new(1));
        let (waits, busy) = (setting.running_machine(), setting.running_machine());
        let scene = Scene::new(&setting, waits, 1);
        run_as(waits, |pinned| scene.run(pinned, Instant::NEVER));
        let raises = other.running_machine();
        run_as(raises, |_| scene.interrupt());
        assert!([waits, busy].into_iter().any(is_asked), "no M checks the raised list");
        assert!(!is_asked(raises) && !other.scheduler.signals.is_ready());
        scene.check(busy);
    });
}

/// A signal is raised twice in a scheduler with a single P. There an M that readies a G executes no fence (see
/// `put_next`). Nevertheless, the G sees what the handler wrote before the second raise, even if a single
/// poll takes both raises.
#[test]
fn two_raises_on_a_single_p_are_seen() {
    explore_every_point(|| {
        let setting = Setting::new(1);
        let machine = setting.running_machine();
        let scene = Scene::new(&setting, machine, 2);
        run_as(machine, |pinned| scene.run(pinned, Instant::NEVER));
        let device = scene.clone();
        let raises = loom::thread::spawn(move || device.interrupt());
        run_as(machine, |pinned| scene.poll(pinned, Instant::NEVER));
        raises.join().unwrap();
        scene.check(machine);
    });
}

/// Two signals are taken from the raised list. Meanwhile the G that waited for the first signal waits for it again on
/// another M, and this signal is raised again. The second raise is kept for the second wait.
#[test]
fn raise_of_a_signal_that_was_just_polled_is_kept() {
    explore_every_point(|| {
        let setting = Setting::new(3);
        let (waits, polls, steals) = (setting.running_machine(), setting.busy_machine(), setting.busy_machine());
        let first = Scene::new(&setting, waits, 2);
        run_as(waits, |pinned| first.run(pinned, Instant::NEVER));
        run_another(&setting, waits);
        let second = Scene::new(&setting, waits, 1);
        run_as(waits, |pinned| second.run(pinned, Instant::NEVER));
        first.step(1);
        second.step(1);
        let stolen = Arc::new(AtomicBool::new(false));
        let queue = &polls.held_processor().queue;
        let thief = (first.clone(), second.clone(), stolen.clone());
        let steal = spawn_as(steals, move |pinned| {
            let own = &pinned.processor().queue;
            if let Some(goroutine) = queue.steal_into(own, share, queue.next()) {
                own.push_next(goroutine);
            }
            let Some((goroutine, _)) = own.pop(true) else { return };
            let (first, second, stolen) = thief;
            if core::ptr::eq(goroutine, second.waiter) {
                return second.resume_as(pinned, goroutine, Instant::NEVER);
            }
            first.resume_as(pinned, goroutine, Instant::NEVER);
            stolen.store(true, Ordering::Relaxed);
            first.step(2);
        });
        run_as(polls, |pinned| first.scheduler.poll(pinned));
        steal.join().unwrap();
        if !stolen.load(Ordering::Relaxed) {
            first.step(2);
        }
        run_as(polls, |pinned| {
            while first.scheduler.poll(pinned) || !pinned.processor().queue.is_empty() {
                while let Some((goroutine, _)) = pinned.processor().queue.pop(true) {
                    let scene = if core::ptr::eq(goroutine, first.waiter) { &first } else { &second };
                    scene.resume_as(pinned, goroutine, Instant::NEVER);
                }
            }
        });
        let seen = [first, second].map(|scene| scene.seen.load(Ordering::Relaxed));
        assert_eq!(seen, [2, 1], "a raise is lost");
    });
}

/// Two signals are raised by two CPUs at the same time. Both waiting Gs are readied.
#[test]
fn two_concurrent_raises_are_both_polled() {
    explore_every_point(|| {
        let setting = Setting::new(1);
        let machine = setting.running_machine();
        let first = Scene::new(&setting, machine, 1);
        run_as(machine, |pinned| first.run(pinned, Instant::NEVER));
        run_another(&setting, machine);
        let second = Scene::new(&setting, machine, 1);
        run_as(machine, |pinned| second.run(pinned, Instant::NEVER));
        let device = first.clone();
        let raises = loom::thread::spawn(move || device.interrupt());
        second.interrupt();
        raises.join().unwrap();
        run_as(machine, |pinned| {
            first.scheduler.poll(pinned);
            let ready = core::iter::from_fn(|| pinned.processor().queue.pop(true)).count();
            assert_eq!(ready, 2, "a raise is lost");
        });
    });
}

/// Makes another G run on `machine`.
pub(super) fn run_another(setting: &Setting, machine: &'static Machine<Model>) {
    let other = setting.goroutine();
    other.set_status(Status::Running);
    machine.set_current(Some(other));
}
