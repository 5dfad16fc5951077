//! Models of an M that goes idle while another M submits work; see `idle.md`.

use alloc::sync::Arc;

use super::checked::Checked;
use super::platform::{Model, Setting, run_as, spawn_as};
use super::{explore, explore_every_point};
use crate::engine::pick::find_runnable;
use crate::engine::ready::ready_pinned;
use crate::engine::syscall::enter_blocking;
use crate::entities::machine::Machine;
use crate::platform::{Pinned, Platform};
use crate::record::trace::EventKind;

/// Tests two fences of `idle.md` and the checks after them: the fence of an M that has published a G (submit.1), and
/// the fence of an M that has put itself on the idle list (idle.2). The third P stays busy, because an M may begin to
/// spin beside another spinning M only if at least three Ps are busy.
#[test]
fn submitter_against_an_idling_m() {
    explore_every_point(|| {
        let setting = Setting::new(3);
        let (submitter, idler) = (setting.busy_machine(), setting.busy_machine());
        setting.busy_machine();
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

/// The submitter wakes no M, because it sees a spinning M. The spinning M ends its search at the same time, so it has
/// to check the queues once more.
#[test]
fn submitter_against_a_spinning_m_that_gives_up() {
    explore_every_point(|| {
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

/// The submitter wakes no M, because it sees a spinning M. That M finds other work first, so it has to wake another M,
/// which searches for the submitted G.
#[test]
fn submitter_against_a_spinning_m_that_finds_work() {
    explore_every_point(|| {
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

/// The submitter relies on a spinning M for two Gs. The M finds the Gs only after it has stopped spinning. It takes one
/// and has to wake another M for the second.
#[test]
fn submitter_of_two_against_a_spinning_m_that_goes_idle() {
    explore(|| {
        let setting = Setting::new(3);
        let (submitter, spinner) = (setting.busy_machine(), setting.spinning_machine());
        let work = [setting.goroutine(), setting.goroutine()];
        let idles = spawn_as(spinner, move |pinned| {
            spinner.go_idle(pinned);
            find_runnable(pinned, spinner);
        });
        run_as(submitter, |pinned| work.into_iter().for_each(|work| ready_pinned(pinned, work)));
        idles.join().unwrap();
        setting.check();
    });
}

/// The submitter relies on a spinning M. That M goes idle and, before it checks the queues once more, is assigned a P
/// that has other work. So the assigned M has to wake another M, which searches for the submitted G.
#[test]
fn submitter_against_a_spinning_m_that_is_assigned_a_p() {
    explore(|| {
        let setting = Setting::new(3);
        setting.add_machine();
        let (submitter, spinner) = (setting.busy_machine(), setting.spinning_machine());
        let blocking = setting.running_machine();
        let (first, second) = (setting.goroutine(), setting.goroutine());
        run_as(blocking, |pinned| ready_pinned(pinned, first));
        let idles = spawn_as(spinner, move |pinned| {
            spinner.go_idle(pinned);
            find_runnable(pinned, spinner);
        });
        let blocks = spawn_as(blocking, |_| core::mem::forget(enter_blocking::<Model>().unwrap()));
        run_as(submitter, |pinned| ready_pinned(pinned, second));
        idles.join().unwrap();
        blocks.join().unwrap();
        setting.check();
    });
}

/// The submitter relies on a spinning M for two Gs, and then blocks. The spinning M goes idle and is assigned the
/// submitter's P. That M can run only one of the Gs, and has to wake another M for the other G.
#[test]
fn submitter_that_blocks_against_a_spinning_m_that_goes_idle() {
    explore(|| {
        let setting = Setting::new(2);
        setting.add_machine();
        let (submitter, spinner) = (setting.running_machine(), setting.spinning_machine());
        let work = [setting.goroutine(), setting.goroutine()];
        let idles = spawn_as(spinner, move |pinned| {
            spinner.go_idle(pinned);
            find_runnable(pinned, spinner);
        });
        run_as(submitter, |pinned| {
            work.into_iter().for_each(|work| ready_pinned(pinned, work));
            core::mem::forget(enter_blocking::<Model>().unwrap());
        });
        idles.join().unwrap();
        setting.check();
    });
}

/// An idle M wakes spuriously while it is assigned a P, so that it takes the P before it is unparked. It uses the P
/// after the M that gave the P up.
#[test]
fn m_that_wakes_spuriously_takes_its_p_after_the_last_holder_has_used_it() {
    explore_every_point(|| {
        let setting = Setting::new(1);
        setting.add_machine();
        let (blocking, idle) = (setting.running_machine(), setting.idle_machine());
        run_as(idle, |pinned| idle.wait_for_processor(pinned));
        let work = setting.goroutine();
        run_as(blocking, |pinned| ready_pinned(pinned, work));
        let data_of_the_processor = Arc::new(Checked::default());
        let data = data_of_the_processor.clone();
        Model::unpark_thread(idle);
        let wakes = spawn_as(idle, move |pinned| {
            idle.wait_for_processor(pinned);
            data.used();
            find_runnable(pinned, idle);
        });
        run_as(blocking, |_| {
            data_of_the_processor.used();
            core::mem::forget(enter_blocking::<Model>().unwrap());
        });
        wakes.join().unwrap();
        setting.check();
    });
}

/// Makes an M whose G is in a system call, and whose P is idle. What an M does at the beginning and at the end of a call is
/// written in a later lab than what it does when it goes idle, so the model below has both in the simplest form.
fn machine_in_a_call(setting: &Setting) -> &'static Machine<Model> {
    let (machine, scheduler) = (setting.running_machine(), setting.scheduler);
    run_as(machine, |pinned| {
        drop(scheduler.secure_successor(Pinned::of_scheduler()).expect("the model has threads enough"));
        let processor = machine.processor().expect("it runs a G");
        machine.begin_call(processor, pinned.goroutine(), EventKind::HandOff);
        scheduler.put_idle_processor(&mut scheduler.shared.lock(), processor);
    });
    machine
}

/// Ends the call of [`machine_in_a_call`] if a P is idle. Returns whether `machine` holds a P now.
fn takes_an_idle_processor(machine: &'static Machine<Model>) -> bool {
    let mut shared = machine.scheduler().shared.lock();
    let Some(processor) = machine.scheduler().take_idle_processor(&mut shared) else { return false };
    shared.blocked_machines -= 1;
    processor.set_holder(machine);
    drop(shared);
    machine.end_call(processor, machine.current_goroutine().expect("its G is in a call"));
    true
}

/// A waker raises the count of spinning Ms in order to wake an M, but finds no idle P. An M that returned from a system
/// call has taken the last idle P. Meanwhile the returning M readies a G, and another M goes idle. Neither of these two
/// Ms wakes another, because the raised count says that an M searches. So the waker itself must check for work again.
#[test]
fn waker_that_finds_no_idle_p_checks_again() {
    explore(|| {
        let setting = Setting::new(3);
        let (waker, returning) = (setting.running_machine(), machine_in_a_call(&setting));
        let idler = setting.busy_machine();
        let work = setting.goroutine();
        let idles = spawn_as(idler, move |pinned| idler.go_idle(pinned));
        let returns = spawn_as(returning, move |pinned| {
            if takes_an_idle_processor(returning) {
                ready_pinned(pinned, work);
            }
        });
        run_as(waker, |_| setting.scheduler.wake_processor());
        idles.join().unwrap();
        returns.join().unwrap();
        setting.settle_all([idler]);
        setting.check();
    });
}
