//! The timekeeper against a timer that becomes the earliest: nobody sleeps past it.

use super::explore;
use super::platform::{Model, Setting, run_as, spawn_as};
use crate::find::find_runnable;
use crate::goroutine::{Goroutine, Ticket};
use crate::machine::Machine;
use crate::park::ready_pinned;
use crate::syscall::{enter_blocking, enter_syscall};
use crate::time::Instant;
use crate::timers::{Action, arm};

/// A point in time that no model reaches.
const SOON: Instant = Instant::from_nanos(1 << 50);
/// A later one.
const LATER: Instant = Instant::from_nanos(1 << 51);

/// Sets a timer on the P of `machine`.
fn set(machine: &'static Machine<Model>, sleeper: &'static Goroutine<Model>, when: Instant) {
    run_as(machine, |pinned| arm(pinned, sleeper, when, &sleeper.timer, Action::Wake(sleeper, Ticket::SOLE)));
}

/// The P that has the timers goes idle while the M of another makes one earlier.
#[test]
fn a_timer_against_a_machine_that_becomes_the_timekeeper() {
    explore(|| {
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

/// A P with timers goes idle while there is a timekeeper, which slept without a deadline.
#[test]
fn a_processor_with_timers_goes_idle_beside_the_timekeeper() {
    explore(|| {
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

/// The timekeeper finds work before it parks: its heir has to look at the timers anew.
#[test]
fn the_timekeeper_goes_back_to_work_and_leaves_an_heir() {
    explore(|| {
        let setting = Setting::new(3);
        let machines = [setting.busy_machine(), setting.busy_machine(), setting.busy_machine()];
        let [submitter, keeper, heir] = machines;
        let (work, sleeper) = (setting.goroutine(), setting.goroutine());
        set(heir, sleeper, SOON);
        let keeps = spawn_as(keeper, move |pinned| {
            keeper.go_idle(pinned);
            find_runnable(pinned, keeper);
        });
        let inherits = spawn_as(heir, move |pinned| heir.go_idle(pinned));
        run_as(submitter, |pinned| ready_pinned(pinned, work));
        keeps.join().unwrap();
        inherits.join().unwrap();
        setting.settle_all([heir]);
        setting.check();
    });
}

/// An M blocks, and gives a P with timers away, while another becomes the timekeeper.
#[test]
fn handing_off_timers_against_a_machine_that_becomes_the_timekeeper() {
    explore(|| {
        let setting = Setting::new(2);
        let (blocking, idler) = (setting.running_machine(), setting.busy_machine());
        let sleeper = setting.goroutine();
        set(blocking, sleeper, SOON);
        let idles = spawn_as(idler, move |pinned| idler.go_idle(pinned));
        run_as(blocking, |_| core::mem::forget(enter_blocking::<Model>().unwrap()));
        idles.join().unwrap();
        setting.check();
    });
}

/// An M leaves a P with timers behind in a system call: the timekeeper looks after them from then on.
#[test]
fn a_system_call_against_a_machine_that_becomes_the_timekeeper() {
    explore(|| {
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
