//! Models of preemption in place. A G that is preempted in place keeps its M. The M gives up its P, and waits for a P.
//! Meanwhile, another M takes over the P that was given up, or hands a P to the waiting M. Or another M, whose G is to be
//! preempted, gives its own P to the waiting M, and waits instead of it.

use alloc::sync::Arc;

use super::checked::Checked;
use super::explore_every_point;
use super::platform::{Model, Setting, let_time_pass, run_as, run_next, spawn_as};
use crate::engine::preempt::{end_slice, must_give_way};
use crate::engine::ready::ready_pinned;
use crate::engine::sysmon::Sysmon;
use crate::entities::machine::Machine;
use crate::platform::SLICE;
use crate::refinements::preempt_in_place::{give_way_in_place, has_preempted, make_spare_machine};

impl Setting {
    /// Makes an M whose G has used up its slice.
    fn machine_to_preempt(&self) -> &'static Machine<Model> {
        let machine = self.running_machine();
        end_slice(machine);
        machine
    }

    /// Readies a new G, for which the G on `machine` has to give way.
    fn add_work(&self, machine: &'static Machine<Model>) {
        let work = self.goroutine();
        run_as(machine, |pinned| ready_pinned(pinned, work));
    }

    /// Checks at the end of a model that `running` Gs run, each on an M with a P, and that `preempted` Gs are preempted.
    fn check_preempted(&self, running: usize, preempted: u32) {
        self.check();
        let is_running = |machine: &&'static Machine<Model>| machine.current_goroutine().is_some();
        assert_eq!(self.scheduler.machines().filter(is_running).count(), running, "lost wakeup");
        for machine in self.scheduler.machines().filter(is_running) {
            assert!(machine.processor().is_some(), "a G runs without a P");
            assert!(machine.locked_goroutine().is_none(), "a G that runs is still locked to its M");
        }
        let shared = self.scheduler.shared.lock();
        assert_eq!((shared.preempted, shared.blocked_machines, shared.idle_locked), (preempted, preempted, preempted));
        drop(shared);
        assert_eq!(has_preempted(self.scheduler), preempted != 0);
        self.check_goroutines();
    }
}

/// Memory that belongs to the Ps. Only the M that holds a P uses the part of this P, so loom notices if two Ms hold it.
type Ground = Arc<[Checked; 2]>;

/// Uses the memory that belongs to the P of `machine`.
fn use_ground(machine: &'static Machine<Model>, ground: &Ground) {
    ground[machine.held_processor().id().get() as usize].used();
}

/// Does on `machine` what the signal handler does: if the G has to give way, its M waits until it has a P again.
fn interrupt(machine: &'static Machine<Model>, limit: u32, ground: &Ground) {
    run_as(machine, |pinned| {
        use_ground(machine, ground);
        give_way_in_place(pinned, limit);
        use_ground(machine, ground);
    });
}

/// An M that searches for work finds the G that is just being preempted, and passes its own P to the G's M.
#[test]
fn preempted_g_is_found_by_another_m() {
    explore_every_point(|| {
        let setting = Setting::new(2);
        setting.add_machine();
        let (machine, finder) = (setting.machine_to_preempt(), setting.spinning_machine());
        setting.add_work(machine);
        let ground = Ground::default();
        let of_finder = ground.clone();
        let finds = spawn_as(finder, move |pinned| {
            use_ground(finder, &of_finder);
            run_next(pinned, finder);
        });
        interrupt(machine, 1, &ground);
        finds.join().unwrap();
        setting.check_preempted(2, 0);
    });
}

/// Two Gs are preempted at the same time, although only one G may be preempted. The second one exchanges its P with the
/// first, perhaps before the M of the first one waits.
#[test]
fn g_at_the_limit_exchanges_its_p() {
    explore_every_point(|| {
        let setting = Setting::new(2);
        setting.add_machine();
        let (first, second) = (setting.machine_to_preempt(), setting.machine_to_preempt());
        setting.add_work(first);
        setting.add_work(first);
        let ground = Ground::default();
        let of_second = ground.clone();
        let interrupts = loom::thread::spawn(move || interrupt(second, 1, &of_second));
        interrupt(first, 1, &ground);
        interrupts.join().unwrap();
        setting.check_preempted(2, 1);
    });
}

/// A scheduler with a preempted G, and with another G that has to give way and, at the limit, exchanges its P with it.
struct Exchange {
    setting: Setting,
    /// The M of the second G.
    second: &'static Machine<Model>,
}

impl Exchange {
    fn new(setting: Setting) -> Self {
        setting.add_machine();
        let first = setting.machine_to_preempt();
        setting.add_work(first);
        run_as(first, |pinned| give_way_in_place(pinned, 1));
        setting.settle();
        let is_second = |machine: &&'static Machine<Model>| machine.current_goroutine().is_some();
        let second = setting.scheduler.machines().find(is_second).expect("an M has taken the P over");
        end_slice(second);
        Self { setting, second }
    }
}

/// While two Gs exchange a P, an M searches for work. There are as many Ps as Gs, so in the end both Gs run.
#[test]
fn exchange_against_an_m_that_goes_idle() {
    explore_every_point(|| {
        let setting = Setting::new(2);
        let idler = setting.spinning_machine();
        let Exchange { setting, second } = Exchange::new(setting);
        let ground = Ground::default();
        let of_idler = ground.clone();
        let idles = spawn_as(idler, move |pinned| {
            use_ground(idler, &of_idler);
            run_next(pinned, idler);
        });
        interrupt(second, 1, &ground);
        idles.join().unwrap();
        setting.check_preempted(2, 0);
    });
}

/// While two Gs exchange a P, sysmon checks the slices. It may end the slice of the G that has used it up, but not the
/// slice that has just begun.
#[test]
fn sysmon_against_an_exchange() {
    explore_every_point(|| {
        let Exchange { setting, second } = Exchange::new(Setting::new(1));
        let mut sysmon = Sysmon::new(setting.scheduler);
        sysmon.check();
        let_time_pass(SLICE);
        let checks = loom::thread::spawn(move || _ = sysmon.check());
        interrupt(second, 1, &Ground::default());
        setting.settle();
        checks.join().unwrap();
        setting.check_preempted(1, 1);
        assert!(!setting.scheduler.machines().any(must_give_way), "a slice ends when it has just begun");
    });
}

/// A G has to give way, but no M can take its P over. One is made at this moment.
#[test]
fn g_that_has_to_give_way_against_the_thread_that_makes_ms() {
    explore_every_point(|| {
        let setting = Setting::new(1);
        let machine = setting.machine_to_preempt();
        setting.add_work(machine);
        let scheduler = setting.scheduler;
        let makes = loom::thread::spawn(move || make_spare_machine(scheduler));
        interrupt(machine, 1, &Ground::default());
        makes.join().unwrap();
        if machine.processor().is_some() {
            interrupt(machine, 1, &Ground::default());
        }
        setting.check_preempted(1, 1);
        assert_eq!(scheduler.machines().count(), 2);
    });
}
