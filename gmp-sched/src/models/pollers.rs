//! Models in which a device signal is raised, and the code that raises it relies on an idle M to poll. In each model,
//! another event comes between the raise and this poll. Nevertheless, some M polls, or a running G is asked to give
//! way, so that its M polls.

use alloc::sync::Arc;

use super::device_signals::{Scene, run_another};
use super::platform::{Model, Setting, is_asked, is_unparked, run_as, run_next, spawn_as};
use super::{explore, explore_every_point};
use crate::base::instant::Instant;
use crate::engine::syscall_return::take_processor_back;
use crate::entities::machine::Machine;
use crate::entities::status::Status;

/// Lets `machine` run a G until this G waits for a signal, and then lets `machine` run another G. Returns a [`Scene`],
/// which contains the signal and the waiting G.
pub(super) fn waiting(setting: &Setting, machine: &'static Machine<Model>) -> Arc<Scene> {
    let scene = Scene::new(setting, machine, 1);
    run_as(machine, |pinned| scene.run(pinned, Instant::NEVER));
    run_another(setting, machine);
    scene
}

/// Checks at the end of a model that the raise is not lost.
fn check(setting: &Setting) {
    setting.check();
    let is_raised = setting.scheduler.signals.is_ready();
    assert!(!is_raised || setting.scheduler.machines().any(is_asked), "no M checks the raised list");
}

/// A parked M is assigned the last idle P, for a G on the global queue. If a raise relies on that M, the M polls before
/// it takes that G. Unlike an M that goes idle, the parked M does not check for work a second time.
#[test]
fn raise_against_a_parked_m_that_is_assigned_a_p() {
    explore(|| {
        let setting = Setting::new(2);
        let (waits, parked) = (setting.running_machine(), setting.busy_machine());
        let scene = waiting(&setting, waits);
        run_as(parked, |pinned| run_next(pinned, parked));
        let work = setting.goroutine();
        work.set_status(Status::Runnable);
        let raises = loom::thread::spawn(move || scene.interrupt());
        setting.scheduler.inject(work);
        run_as(parked, |pinned| {
            assert!(parked.take_assigned(), "no other M is idle");
            run_next(pinned, parked);
        });
        raises.join().unwrap();
        check(&setting);
    });
}

/// An M that goes idle sees a G in the queue of another P, takes an idle P by itself, and runs that G. If a raise
/// relies on that M, the M polls before it takes that G.
#[test]
fn raise_against_an_m_that_takes_an_idle_p_for_other_work() {
    explore(|| {
        let setting = Setting::new(2);
        let (waits, idler) = (setting.running_machine(), setting.busy_machine());
        let scene = waiting(&setting, waits);
        let work = setting.goroutine();
        work.set_status(Status::Runnable);
        waits.held_processor().queue.push_back(work).expect("the ring has room");
        let idles = spawn_as(idler, move |pinned| {
            idler.go_idle(pinned);
            run_next(pinned, idler);
        });
        scene.interrupt();
        idles.join().unwrap();
        check(&setting);
    });
}

/// The idle M on which a raise relies finds no idle P any more, because an M that returns from a system call has taken
/// the last idle P. So a running G is asked to give way.
#[test]
fn raise_against_an_m_that_takes_the_last_idle_p() {
    explore(|| {
        let setting = Setting::new(2);
        let (waits, returning) = (setting.running_machine(), setting.blocked_machine());
        let scene = waiting(&setting, waits);
        let returns = spawn_as(returning, move |pinned| {
            take_processor_back(pinned, returning, pinned.goroutine());
        });
        scene.interrupt();
        returns.join().unwrap();
        check(&setting);
    });
}

/// The idle M on which a raise relies ends, because it is not needed. Before its end, the M makes another M poll.
#[test]
fn raise_against_an_m_that_ends() {
    explore_every_point(|| {
        let setting = Setting::new(2);
        setting.add_machine();
        let (waits, ends) = (setting.running_machine(), setting.idle_machine());
        let scene = waiting(&setting, waits);
        setting.end_idle_machines();
        let ending = spawn_as(ends, move |pinned| run_next(pinned, ends));
        scene.interrupt();
        ending.join().unwrap();
        setting.keep_idle_machines();
        check(&setting);
    });
}

/// The M on which a raise relies takes a P and runs the readied G. That M was not spinning, so it does not wake another
/// M to spin in its place.
#[test]
fn raise_on_an_idle_machine_wakes_one_m() {
    explore(|| {
        let setting = Setting::new(3);
        let (waits, first, second) = (setting.running_machine(), setting.busy_machine(), setting.busy_machine());
        let scene = Scene::new(&setting, waits, 1);
        run_as(waits, |pinned| {
            scene.run(pinned, Instant::NEVER);
            run_next(pinned, waits);
        });
        for idler in [first, second] {
            run_as(idler, |pinned| run_next(pinned, idler));
        }
        setting.settle();
        let wakes = setting.scheduler.counts().wakes;
        scene.interrupt();
        setting.settle();
        assert!(second.current_goroutine().is_some(), "the M that went idle last does not run the G");
        assert_eq!(setting.scheduler.counts().wakes, wakes, "another M was woken");
        check(&setting);
    });
}

/// Two signals are raised while all Ms are idle. The M that went idle last polls and runs one of the two Gs. This M must
/// wake the other M for the other G, because nothing else does: both raises have woken the same M, and this M is not the
/// timekeeper, which would wake a successor.
#[test]
fn second_g_of_a_poll_gets_an_idle_p() {
    explore(|| {
        let setting = Setting::new(2);
        let machines = [setting.running_machine(), setting.running_machine()];
        let scenes = machines.map(|machine| {
            let scene = Scene::new(&setting, machine, 1);
            run_as(machine, |pinned| scene.run(pinned, Instant::NEVER));
            scene
        });
        for machine in machines {
            run_as(machine, |pinned| run_next(pinned, machine));
        }
        setting.settle();
        scenes.iter().for_each(|scene| scene.interrupt());
        assert!(!is_unparked(machines[0]), "a raise has woken the timekeeper");
        setting.settle();
        assert!(machines.into_iter().all(|machine| machine.current_goroutine().is_some()), "a P is idle");
        check(&setting);
    });
}

/// The M that went idle last runs a G again. So a raise does not rely on this M, and wakes an idle M.
#[test]
fn raise_does_not_rely_on_an_m_that_runs_again() {
    explore(|| {
        let setting = Setting::new(2);
        let (waits, parked) = (setting.running_machine(), setting.busy_machine());
        let scene = Scene::new(&setting, waits, 1);
        run_as(waits, |pinned| scene.run(pinned, Instant::NEVER));
        for idler in [waits, parked] {
            run_as(idler, |pinned| run_next(pinned, idler));
        }
        let runs_again = setting.running_machine();
        assert!(core::ptr::eq(runs_again, parked), "the M that went idle last is the first to get a P");
        scene.interrupt();
        setting.settle();
        assert!(waits.current_goroutine().is_some(), "the idle M does not run the G");
        check(&setting);
    });
}
