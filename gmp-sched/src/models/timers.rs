//! The timekeeper against a timer that becomes the earliest: nobody sleeps past it.

use super::explore_every_point;
use super::platform::{Model, Setting, run_as, spawn_as};
use crate::base::atomic::Ordering;
use crate::engine::find::find_runnable;
use crate::engine::park::ready_pinned;
use crate::engine::syscall::{enter_blocking, enter_syscall};
use crate::engine::timers::{Action, arm};
use crate::entities::goroutine::{Goroutine, Ticket};
use crate::entities::machine::Machine;
use crate::library::time::Instant;
use crate::platform::{Pinned, Platform};

/// Points in time that no model reaches, in their order.
const AT_FIRST: Instant = Instant::from_nanos(1 << 49);
/// See above.
const SOON: Instant = Instant::from_nanos(1 << 50);
/// See above.
const LATER: Instant = Instant::from_nanos(1 << 51);

/// Sets a timer on the P of `machine`.
fn set(machine: &'static Machine<Model>, sleeper: &'static Goroutine<Model>, when: Instant) {
    run_as(machine, |pinned| arm(pinned, sleeper, when, &sleeper.timer, Action::Wake(sleeper, Ticket::SOLE)));
}

/// The P that has the timers goes idle while the M of another makes one earlier.
#[test]
fn a_timer_against_a_machine_that_becomes_the_timekeeper() {
    explore_every_point(|| {
        let setting = Setting::new(2);
        let (setter, idler) = (setting.busy_machine(), setting.busy_machine());
        let sleepers = [setting.goroutine(), setting.goroutine()];
        set(idler, sleepers[0], LATER);
        let idles = spawn_as(idler, move |pinned| idler.go_idle(pinned));
        set(setter, sleepers[1], SOON);
        idles.join().unwrap();
        setting.check();
    });
}

/// The timekeeper raises its deadline, since the timer it was for has been stopped, while a timer is set for a time in
/// between.
#[test]
fn a_timer_against_a_timekeeper_that_means_to_sleep_longer() {
    explore_every_point(|| {
        let setting = Setting::new(2);
        let (setter, keeper) = (setting.busy_machine(), setting.busy_machine());
        let sleepers = [setting.goroutine(), setting.goroutine(), setting.goroutine()];
        set(keeper, sleepers[0], AT_FIRST);
        set(keeper, sleepers[1], LATER);
        run_as(keeper, |pinned| keeper.go_idle(pinned));
        assert_eq!(run_as(setter, |pinned| sleepers[0].timer.cancel(pinned)), Some(true));
        // It wakes at its deadline, without a token that would let it look twice.
        let keeps = spawn_as(keeper, move |pinned| {
            find_runnable(pinned, keeper);
        });
        set(setter, sleepers[2], SOON);
        keeps.join().unwrap();
        setting.check();
    });
}

/// A P with timers goes idle while there is a timekeeper, which slept without a deadline.
#[test]
fn a_processor_with_timers_goes_idle_beside_the_timekeeper() {
    explore_every_point(|| {
        let setting = Setting::new(3);
        let (first, second) = (setting.busy_machine(), setting.busy_machine());
        let sleepers = [setting.goroutine(), setting.goroutine()];
        set(first, sleepers[0], SOON);
        set(second, sleepers[1], LATER);
        let idlers = [first, second].map(|idler| spawn_as(idler, move |pinned| idler.go_idle(pinned)));
        idlers.into_iter().for_each(|idler| idler.join().unwrap());
        setting.check();
    });
}

/// The timekeeper wakes, finds work, and leaves its role to an M that parked without a deadline. A third M is idle and is
/// the one that is woken for more work: that there is none, and that it goes idle again, must not be the end of it.
#[test]
fn the_timekeeper_goes_back_to_work_and_leaves_an_heir() {
    explore_every_point(|| {
        let setting = Setting::new(5);
        let [submitter, keeper, heir, third] = core::array::from_fn(|_| setting.busy_machine());
        let spinner = setting.spinning_machine();
        let (work, sleeper) = ([setting.goroutine(), setting.goroutine()], setting.goroutine());
        set(heir, sleeper, SOON);
        [keeper, heir, third].into_iter().for_each(|machine| {
            run_as(machine, |pinned| machine.go_idle(pinned));
        });
        Model::unpark_thread(keeper);
        let keeps = spawn_as(keeper, move |pinned| keeper.wait_for_processor(pinned));
        run_as(submitter, |pinned| work.into_iter().for_each(|work| ready_pinned(pinned, work)));
        keeps.join().unwrap();
        setting.settle_all([keeper, spinner]);
        setting.check();
    });
}

/// An M that goes idle is given another P before it has looked at any timers: the timekeeper, which slept as if all Ps were
/// held, is to look after those that nobody is behind all the same. `prepare` sets one.
fn against_a_machine_that_is_given_another_processor(
    processors: usize,
    prepare: fn(&Setting, &'static Machine<Model>, &'static Goroutine<Model>),
) {
    explore_every_point(move || {
        let setting = Setting::new(processors);
        setting.add_machine();
        let (leaving, idler, sleeper) = (setting.running_machine(), setting.busy_machine(), setting.goroutine());
        prepare(&setting, idler, sleeper);
        let keeper = setting.scheduler.timekeeper.load(Ordering::Relaxed).expect("an M is idle");
        let work = setting.goroutine();
        run_as(keeper, |pinned| keeper.wait_for_processor(pinned));
        run_as(leaving, |pinned| ready_pinned(pinned, work));
        let idles = spawn_as(idler, move |pinned| idler.go_idle(pinned));
        run_as(leaving, |_| core::mem::forget(enter_blocking::<Model>().unwrap()));
        idles.join().unwrap();
        if idler.spinning.load(Ordering::Relaxed) {
            setting.settle_all([idler]);
        } else if let Some(processor) = idler.processor() {
            // Runs what it was woken for, and that takes long.
            processor.pop_local();
        }
        setting.check();
    });
}

#[test]
fn a_machine_leaves_timers_behind_for_another_processor() {
    against_a_machine_that_is_given_another_processor(2, |_, idler, sleeper| set(idler, sleeper, SOON));
}

#[test]
fn a_machine_changes_processors_beside_timers_left_in_a_system_call() {
    against_a_machine_that_is_given_another_processor(3, |setting, _, sleeper| {
        let caller = setting.running_machine();
        set(caller, sleeper, SOON);
        run_as(caller, |_| core::mem::forget(enter_syscall::<Model>()));
    });
}

/// There are more Ms than Ps, and all Ps are held: the timekeeper, which has no P to look after, is about to sleep for
/// ever while `leave` makes the only P, which has timers, idle.
fn against_a_timekeeper_without_timers(leave: fn(&Pinned<Model>)) {
    explore_every_point(move || {
        let setting = Setting::new(1);
        setting.add_machine();
        let (leaving, sleeper) = (setting.running_machine(), setting.goroutine());
        set(leaving, sleeper, SOON);
        let keeper = setting.scheduler.timekeeper.load(Ordering::Relaxed).expect("an M is idle");
        let keeps = spawn_as(keeper, move |pinned| keeper.wait_for_processor(pinned));
        run_as(leaving, leave);
        keeps.join().unwrap();
        setting.check();
    });
}

#[test]
fn going_idle_with_timers_against_a_timekeeper_without() {
    against_a_timekeeper_without_timers(|pinned| {
        let machine = pinned.machine();
        machine.set_current(None);
        machine.go_idle(pinned);
    });
}

#[test]
fn handing_off_timers_against_a_timekeeper_without() {
    against_a_timekeeper_without_timers(|_| core::mem::forget(enter_blocking::<Model>().unwrap()));
}

/// An M leaves a P with timers behind in a system call: the timekeeper looks after them from then on.
#[test]
fn a_system_call_against_a_machine_that_becomes_the_timekeeper() {
    explore_every_point(|| {
        let setting = Setting::new(2);
        let (caller, idler) = (setting.running_machine(), setting.busy_machine());
        let sleeper = setting.goroutine();
        set(caller, sleeper, SOON);
        let idles = spawn_as(idler, move |pinned| idler.go_idle(pinned));
        run_as(caller, |_| core::mem::forget(enter_syscall::<Model>()));
        idles.join().unwrap();
        setting.check();
    });
}

/// A P becomes idle by a hand-off, while an M that has left another in a system call, with timers, is not behind those any
/// more, and the timekeeper sleeps as if all Ps were held.
#[test]
fn handing_off_beside_timers_left_in_a_system_call() {
    explore_every_point(|| {
        let setting = Setting::new(2);
        setting.add_machine();
        let (caller, blocking, sleeper) = (setting.running_machine(), setting.running_machine(), setting.goroutine());
        let keeper = setting.scheduler.timekeeper.load(Ordering::Relaxed).expect("an M is idle");
        let keeps = spawn_as(keeper, move |pinned| keeper.wait_for_processor(pinned));
        let calls = spawn_as(caller, move |pinned| {
            arm(pinned, sleeper, SOON, &sleeper.timer, Action::Wake(sleeper, Ticket::SOLE));
            core::mem::forget(enter_syscall::<Model>());
        });
        run_as(blocking, |_| core::mem::forget(enter_blocking::<Model>().unwrap()));
        keeps.join().unwrap();
        calls.join().unwrap();
        setting.check();
    });
}
