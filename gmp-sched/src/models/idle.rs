//! Going idle against submitting work, as `idle.md` describes it.

use super::explore;
use super::platform::{Setting, run_as, spawn_as};
use crate::find::find_runnable;
use crate::park::ready_pinned;
use crate::syscall::take_processor_back;

/// The fences of submit.1 and idle.2, and the look in between.
#[test]
fn a_submitter_against_an_idling_machine() {
    explore(|| {
        let setting = Setting::new(2);
        let (submitter, idler) = (setting.busy_machine(), setting.busy_machine());
        let work = setting.goroutine();
        let idles = spawn_as(idler, move |pinned| {
            idler.go_idle(pinned);
            find_runnable(pinned, idler);
        });
        run_as(submitter, |pinned| ready_pinned(pinned, work));
        idles.join().unwrap();
        setting.check();
    });
}

/// The submitter sees a spinner, which gives up.
#[test]
fn a_submitter_against_a_spinning_machine() {
    explore(|| {
        let setting = Setting::new(2);
        let (submitter, spinner) = (setting.busy_machine(), setting.spinning_machine());
        let work = setting.goroutine();
        let searches = spawn_as(spinner, move |pinned| {
            find_runnable(pinned, spinner);
        });
        run_as(submitter, |pinned| ready_pinned(pinned, work));
        searches.join().unwrap();
        setting.check();
    });
}

/// The submitter sees a spinner, which finds other work and has to wake the next.
#[test]
fn a_submitter_against_a_spinner_that_finds_work() {
    explore(|| {
        let setting = Setting::new(3);
        let (submitter, spinner) = (setting.busy_machine(), setting.spinning_machine());
        let (first, second) = (setting.goroutine(), setting.goroutine());
        run_as(submitter, |pinned| ready_pinned(pinned, first));
        let searches = spawn_as(spinner, move |pinned| {
            find_runnable(pinned, spinner);
        });
        run_as(submitter, |pinned| ready_pinned(pinned, second));
        searches.join().unwrap();
        setting.check();
    });
}

/// Two Ms go idle while work comes: the one that takes it may be the one that keeps the other's P from being seen.
#[test]
fn a_submitter_against_two_idling_machines() {
    explore(|| {
        let setting = Setting::new(3);
        let (submitter, one, other) = (setting.busy_machine(), setting.busy_machine(), setting.spinning_machine());
        let work = [setting.goroutine(), setting.goroutine()];
        let idlers = [one, other].map(|idler| spawn_as(idler, move |pinned| idler.go_idle(pinned)));
        run_as(submitter, |pinned| work.into_iter().for_each(|work| ready_pinned(pinned, work)));
        idlers.into_iter().for_each(|idler| idler.join().unwrap());
        setting.settle_all([one, other]);
        setting.check();
    });
}

/// A waker has counted a spinner and then finds no P idle, since an M that came back from a system call took it. Others
/// relied on the count meanwhile.
#[test]
fn a_waker_that_finds_no_processor_looks_again() {
    explore(|| {
        let setting = Setting::new(3);
        let (waker, returning) = (setting.busy_machine(), setting.blocked_machine());
        let idler = setting.busy_machine();
        let work = [setting.goroutine(), setting.goroutine()];
        let idles = spawn_as(idler, move |pinned| {
            idler.go_idle(pinned);
            find_runnable(pinned, idler);
        });
        let returns = spawn_as(returning, move |pinned| {
            if take_processor_back(pinned, pinned.goroutine()) {
                ready_pinned(pinned, work[0]);
            }
        });
        run_as(waker, |pinned| ready_pinned(pinned, work[1]));
        idles.join().unwrap();
        returns.join().unwrap();
        setting.check();
    });
}
