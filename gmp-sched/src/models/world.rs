//! Models of stopping the world. The world is stopped and started while Ps change their status. A stop misses no P, and
//! no G runs while the world is stopped.

use alloc::sync::Arc;

use super::checked::Checked;
use super::explore_every_point;
use super::platform::{Model, Setting, is_asked, is_unparked, run_as, run_next, spawn_as};
use crate::base::atomic::Ordering;
use crate::base::instant::Instant;
use crate::engine::enqueue::requeue_next;
use crate::engine::ready::ready_pinned;
use crate::engine::syscall::{enter_blocking, enter_syscall};
use crate::engine::syscall_return::{has_to_stop, requeue_without_processor, take_processor_back};
use crate::engine::timers::arm;
use crate::entities::goroutine::{Goroutine, WaitGeneration};
use crate::entities::machine::Machine;
use crate::entities::processor_status::ProcessorStatus;
use crate::entities::status::Status;
use crate::entities::timers::Action;
use crate::platform::Pinned;
use crate::refinements::preempt_in_place::give_way_in_place;

/// A time that the clock of a model never reaches.
const SOON: Instant = Instant::from_nanos(1 << 50);

/// A scheduler whose world is to be stopped, and the M that stops it.
struct Scene {
    setting: Setting,
    stopper: &'static Machine<Model>,
    /// Memory that running Gs use, and that the stopper uses while the world is stopped.
    ground: Arc<Checked>,
}

impl Scene {
    /// Makes a scheduler with `processors` Ps. The stopper runs a G, and all other Ps are idle.
    fn new(processors: usize) -> Self {
        let setting = Setting::new(processors);
        let stopper = setting.running_machine();
        Self { setting, stopper, ground: Arc::default() }
    }

    /// Returns a new M that has entered a system call. The M's P may be retaken.
    fn calling_machine(&self) -> &'static Machine<Model> {
        let caller = self.setting.running_machine();
        run_as(caller, |_| core::mem::forget(enter_syscall::<Model>()));
        caller
    }

    /// Requests the stop and asks each P once to stop. Returns whether all Ps have stopped.
    fn stop(&self) -> bool {
        let scheduler = self.setting.scheduler;
        let has_stopped = run_as(self.stopper, |pinned| {
            scheduler.begin_to_stop(self.stopper);
            scheduler.has_stopped(pinned.processor())
        });
        if has_stopped == Some(true) {
            self.ground.used();
        }
        has_stopped == Some(true)
    }

    /// Makes the Gs on `others` give way, and lets the Ms that were unparked continue. If the world has not stopped
    /// yet, asks the Ps a second time; then the stop must be complete. Starts the world and lets all Ms continue.
    fn check(&self, has_stopped: bool, others: &[&'static Machine<Model>]) {
        let scheduler = self.setting.scheduler;
        for &machine in others {
            let runs_on = machine.processor().is_some() && machine.current_goroutine().is_some();
            assert!(!runs_on || is_asked(machine), "a G keeps running that was not asked to stop");
            give_way(machine);
        }
        self.setting.settle();
        if !has_stopped {
            let is_last_stopped = scheduler.shared.lock().unstopped == 0;
            assert!(!is_last_stopped || is_unparked(self.stopper), "the last that stopped did not wake the stopper");
            assert_eq!(run_as(self.stopper, |pinned| scheduler.has_stopped(pinned.processor())), Some(true));
            self.ground.used();
        }
        for processor in scheduler.processors() {
            use ProcessorStatus::{Running, Stopped, StoppedInSyscall};
            let expected = if self.stopper.held_processor().id() == processor.id() { Running } else { Stopped };
            assert!([expected, StoppedInSyscall].contains(&processor.status()), "{processor:?} is not stopped");
        }
        run_as(self.stopper, |pinned| scheduler.start_again(pinned));
        self.setting.settle_all(others.iter().copied());
        self.setting.check();
        self.setting.check_goroutines();
    }
}

/// If `machine` holds a P, makes the G that runs on `machine`, if any, give way. Then the M searches for work.
fn give_way(machine: &'static Machine<Model>) {
    if machine.processor().is_some() {
        run_as(machine, |pinned| leave(pinned, machine));
    }
}

/// Does what an M does when its G is preempted for a stop of the world: enqueues the G, if there is one, and searches
/// for work.
fn leave(pinned: &Pinned<Model>, machine: &'static Machine<Model>) {
    if let Some(me) = machine.current_goroutine() {
        requeue_next(&Pinned::new(), me);
        machine.set_current(None);
    }
    run_next(pinned, machine);
}

/// Ends the system call of the G that runs on `machine`. If the G keeps running, it uses `ground`.
fn return_from_call(pinned: &Pinned<Model>, machine: &'static Machine<Model>, ground: &Checked) {
    let me: &'static Goroutine<Model> = machine.running_goroutine();
    if take_processor_back(pinned, machine, me).is_none() {
        requeue_without_processor(&Pinned::new(), me);
        machine.set_current(None);
        run_next(pinned, machine);
    } else if has_to_stop(machine.scheduler()) {
        leave(pinned, machine);
    } else {
        ground.used();
    }
}

#[test]
fn stopping_against_the_return_from_a_system_call() {
    explore_every_point(|| {
        let scene = Scene::new(2);
        let caller = scene.calling_machine();
        let ground = scene.ground.clone();
        let returns = spawn_as(caller, move |pinned| return_from_call(pinned, caller, &ground));
        let has_stopped = scene.stop();
        returns.join().unwrap();
        scene.check(has_stopped, &[caller]);
    });
}

/// While the world is being stopped, sysmon retakes the P of an M in a system call and hands it off. The stop must not
/// miss the P.
#[test]
fn stopping_against_a_retake() {
    explore_every_point(|| {
        let scene = Scene::new(2);
        scene.setting.add_machine();
        let caller = scene.calling_machine();
        let (scheduler, processor) =
            (scene.setting.scheduler, caller.old_processor.load(Ordering::Relaxed).expect("it left one"));
        let watch = loom::thread::spawn(move || {
            scheduler.retake(processor);
        });
        let has_stopped = scene.stop();
        watch.join().unwrap();
        let ground = scene.ground.clone();
        if !has_stopped {
            run_as(caller, |pinned| return_from_call(pinned, caller, &ground));
        }
        scene.check(has_stopped, &[caller]);
    });
}

#[test]
fn stopping_against_a_handoff() {
    explore_every_point(|| {
        let scene = Scene::new(2);
        scene.setting.add_machine();
        let blocking = scene.setting.running_machine();
        let blocks = spawn_as(blocking, |_| core::mem::forget(enter_blocking::<Model>().unwrap()));
        let has_stopped = scene.stop();
        blocks.join().unwrap();
        scene.check(has_stopped, &[]);
    });
}

/// A G is preempted in place to stop the world, even if no G may be preempted otherwise. Its M waits until the world has
/// started again.
#[test]
fn stopping_against_a_g_that_is_preempted_in_place() {
    explore_every_point(|| {
        let scene = Scene::new(2);
        scene.setting.add_machine();
        let machine = scene.setting.running_machine();
        let ground = scene.ground.clone();
        let interrupted = spawn_as(machine, move |pinned| {
            give_way_in_place(pinned, 0);
            ground.used();
        });
        let has_stopped = scene.stop();
        interrupted.join().unwrap();
        if machine.processor().is_some() {
            assert!(is_asked(machine), "a G keeps running that was not asked to stop");
            run_as(machine, |pinned| give_way_in_place(pinned, 0));
        }
        scene.check(has_stopped, &[]);
        assert!(machine.processor().is_some(), "a G that was preempted to stop the world does not continue");
        assert!(machine.locked_goroutine().is_none());
    });
}

#[test]
fn stopping_against_an_m_that_goes_idle() {
    explore_every_point(|| {
        let scene = Scene::new(2);
        let idler = scene.setting.spinning_machine();
        let idles = spawn_as(idler, move |pinned| run_next(pinned, idler));
        let has_stopped = scene.stop();
        idles.join().unwrap();
        scene.check(has_stopped, &[idler]);
    });
}

/// A running G makes another G runnable. So its M wakes another M and assigns the last idle P to it, if that P has not
/// been stopped yet. In either case the stop must not miss the P.
#[test]
fn stopping_against_a_g_that_spawns() {
    explore_every_point(|| {
        let scene = Scene::new(3);
        let spawner = scene.setting.running_machine();
        let spawned = scene.setting.goroutine();
        let ground = scene.ground.clone();
        let spawns = spawn_as(spawner, move |pinned| {
            ground.used();
            ready_pinned(pinned, spawned);
        });
        let has_stopped = scene.stop();
        spawns.join().unwrap();
        scene.check(has_stopped, &[spawner]);
    });
}

/// The world starts while an M returns from a system call. The P of that M was stopped with the world. Another P is
/// idle. The M gets one of the two Ps, or its G is enqueued and another M runs it.
#[test]
fn starting_against_the_return_from_a_system_call() {
    explore_every_point(|| {
        let scene = Scene::new(3);
        let caller = scene.calling_machine();
        assert!(scene.stop());
        let returns = spawn_as(caller, move |pinned| return_from_call(pinned, caller, &Checked::default()));
        run_as(scene.stopper, |pinned| scene.setting.scheduler.start_again(pinned));
        returns.join().unwrap();
        scene.setting.settle_all([caller]);
        scene.setting.check();
        scene.setting.check_goroutines();
    });
}

/// When the world starts, no P stays idle while a G is runnable: neither a G that the stopper made runnable while the
/// world was stopped, nor a G in the queue of a stopped P.
#[test]
fn stopped_work_is_run_when_the_world_starts() {
    explore_every_point(|| {
        let scene = Scene::new(3);
        let busy = scene.setting.running_machine();
        let work = [scene.setting.goroutine(), scene.setting.goroutine()];
        run_as(busy, |pinned| busy.held_processor().queue.push_back(make_runnable(pinned, work[0])).unwrap());
        assert!(!scene.stop());
        give_way(busy);
        assert_eq!(run_as(scene.stopper, |pinned| scene.setting.scheduler.has_stopped(pinned.processor())), Some(true));
        run_as(scene.stopper, |pinned| {
            ready_pinned(pinned, work[1]);
            scene.setting.scheduler.start_again(pinned);
        });
        scene.setting.settle();
        scene.setting.check();
        scene.setting.check_goroutines();
    });
}

/// A P with work is handed off while the world is being stopped, so no M gave it up for the stop. When the world
/// starts, an idle M is assigned this P.
#[test]
fn work_of_a_p_that_was_handed_off_during_the_stop_is_run() {
    explore_every_point(|| {
        let scene = Scene::new(2);
        scene.setting.add_machine();
        let (blocking, work) = (scene.setting.running_machine(), scene.setting.goroutine());
        run_as(blocking, |pinned| ready_pinned(pinned, work));
        assert!(!scene.stop());
        run_as(blocking, |_| core::mem::forget(enter_blocking::<Model>().unwrap()));
        scene.check(false, &[]);
        assert_eq!(work.status(), Status::Running);
    });
}

/// The M that gave its P up is the timekeeper while the world is stopped. When the world starts, that M gets its P
/// back, and the other idle M must become the timekeeper, because the next blocking call leaves an idle P with a timer.
#[test]
fn timekeeper_gets_its_p_back_when_the_world_starts() {
    explore_every_point(|| {
        let scene = Scene::new(2);
        let (first, sleeper) = (scene.setting.running_machine(), scene.setting.goroutine());
        assert!(!scene.stop());
        give_way(first);
        scene.setting.add_machine();
        let other = scene.setting.idle_machine();
        run_as(other, |pinned| run_next(pinned, other));
        let scheduler = scene.setting.scheduler;
        run_as(scene.stopper, |pinned| {
            assert!(scheduler.has_stopped(pinned.processor()));
            scheduler.start_again(pinned);
        });
        run_as(first, |pinned| {
            assert!(first.take_assigned(), "its P has work");
            run_next(pinned, first);
        });
        run_as(scene.stopper, |pinned| {
            arm(pinned, sleeper, SOON, &sleeper.timer, Action::Wake(sleeper, WaitGeneration::SOLE));
            core::mem::forget(enter_blocking::<Model>().expect("there is another M"));
        });
        scene.setting.check();
    });
}

/// The start of the world makes a P with timers and no Gs idle, while the timekeeper still sleeps without a deadline.
/// The timekeeper must be woken for these timers.
#[test]
fn timers_are_not_missed_when_the_world_starts() {
    explore_every_point(|| {
        let scene = Scene::new(2);
        let (leaving, sleeper) = (scene.setting.busy_machine(), scene.setting.goroutine());
        run_as(leaving, |pinned| {
            arm(pinned, sleeper, SOON, &sleeper.timer, Action::Wake(sleeper, WaitGeneration::SOLE))
        });
        let has_stopped = scene.stop();
        scene.check(has_stopped, &[leaving]);
    });
}

fn make_runnable(pinned: &Pinned<Model>, goroutine: &'static Goroutine<Model>) -> &'static Goroutine<Model> {
    crate::engine::ready::make_runnable(pinned, goroutine).expect("it is not locked")
}
