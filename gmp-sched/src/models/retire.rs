//! Models of an M that ends after it has been idle for long, while other code relies on it.

use core::time::Duration;

use super::platform::{Model, Setting, let_time_pass, run_as, run_next, spawn_as};
use super::{explore, explore_every_point};
use crate::base::atomic::Ordering;
use crate::engine::hooks::{end_of_idleness, retire_if_unneeded};
use crate::engine::ready::ready_pinned;
use crate::engine::syscall::enter_blocking;
use crate::engine::syscall_return::take_processor_back;
use crate::entities::machine::Machine;
use crate::platform::Pinned;

/// Does what an M does when it has no work. The M goes idle, and ends if no P needs it.
fn idle_and_end(pinned: &Pinned<Model>, machine: &'static Machine<Model>) {
    machine.go_idle(pinned);
    run_next(pinned, machine);
}

/// An M that goes idle would end at once, but a submitter assigns a P to it at the same time. An M that has been
/// assigned a P does not end.
#[test]
fn submitter_against_an_m_that_ends() {
    explore_every_point(|| {
        let setting = Setting::new(2);
        setting.add_machine();
        setting.end_idle_machines();
        let (submitter, idler) = (setting.busy_machine(), setting.busy_machine());
        let work = setting.goroutine();
        let idles = spawn_as(idler, move |pinned| idle_and_end(pinned, idler));
        run_as(submitter, |pinned| ready_pinned(pinned, work));
        idles.join().unwrap();
        setting.settle_all([idler]);
        setting.check();
    });
}

/// An M blocks while an idle M is about to end. Either the idle M ends, and the M that blocks makes another one; or the
/// idle M stays, because it takes over the P of the M that blocks.
#[test]
fn m_that_blocks_against_the_m_that_it_relies_on() {
    explore_every_point(|| {
        let setting = Setting::new(1);
        setting.add_machine();
        setting.end_idle_machines();
        let (caller, idler) = (setting.running_machine(), setting.idle_machine());
        let ends = spawn_as(idler, move |pinned| run_next(pinned, idler));
        run_as(caller, |_| core::mem::forget(enter_blocking::<Model>().unwrap()));
        ends.join().unwrap();
        setting.check();
        let made = setting.scheduler.next_machine_id.load(Ordering::Relaxed);
        assert_eq!(made == 3, idler.is_retired(), "{made} Ms were made");
    });
}

/// Two Ms are idle, and only one of them is needed. So one M ends, and the other stays.
#[test]
fn one_of_two_ms_ends() {
    explore_every_point(|| {
        let setting = Setting::new(1);
        setting.add_machine();
        setting.end_idle_machines();
        let (first, second) = (setting.busy_machine(), setting.idle_machine());
        let idles = spawn_as(first, move |pinned| idle_and_end(pinned, first));
        run_as(second, |pinned| run_next(pinned, second));
        idles.join().unwrap();
        setting.check();
        assert!(first.is_retired() != second.is_retired(), "{} Ms are left", setting.scheduler.machines().count());
    });
}

/// An M that parks for as long as a surplus of Ms may last is needed in the meantime, because another M blocks. When it
/// wakes, the surplus has only just begun anew, so it parks for as long again. Then it ends.
#[test]
fn m_that_was_needed_in_the_meantime_stays_for_as_long_again() {
    const LIMIT: Duration = Duration::from_secs(1);
    explore(|| {
        let setting = Setting::new(1);
        setting.add_machine();
        setting.end_idle_machines_after(LIMIT);
        let (caller, idler) = (setting.running_machine(), setting.idle_machine());
        let ends_at = end_of_idleness(idler);
        run_as(caller, |pinned| {
            core::mem::forget(enter_blocking::<Model>().unwrap());
            let_time_pass(LIMIT);
            assert!(take_processor_back(pinned, caller, pinned.goroutine()).is_some(), "the P is idle");
        });
        let later = run_as(idler, |_| retire_if_unneeded(idler, ends_at)).expect("the M has not ended");
        assert!(later > ends_at.map(|ends_at| ends_at + LIMIT / 2));
        let_time_pass(LIMIT);
        assert_eq!(run_as(idler, |_| retire_if_unneeded(idler, later)), None, "the M ends");
        assert!(idler.is_retired());
        setting.check();
    });
}

/// The last M to go idle reports the deadlock, even if it ends immediately afterwards.
#[test]
#[should_panic(expected = "all goroutines are asleep")]
fn m_that_ends_reports_a_deadlock() {
    explore(|| {
        let setting = Setting::new(1);
        setting.add_machine();
        setting.end_idle_machines();
        let last = setting.busy_machine();
        // This G waits, and no other G could wake it.
        setting.goroutine();
        run_as(last, |pinned| idle_and_end(pinned, last));
    });
}

/// The last M that becomes idle checks for a deadlock while sysmon makes an M on another thread. The check does not
/// count the new M, so it finds the deadlock.
#[test]
fn deadlock_is_found_while_an_m_is_made() {
    explore_every_point(|| {
        let setting = Setting::new(1);
        setting.goroutine();
        let scheduler = setting.scheduler;
        let makes = loom::thread::spawn(move || scheduler.add_machine().unwrap());
        let found = scheduler.is_dead(&scheduler.shared.lock());
        assert!(found.is_some(), "an M that runs nothing hides the deadlock");
        makes.join().unwrap();
    });
}
