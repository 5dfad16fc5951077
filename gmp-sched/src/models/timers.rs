//! Models of timers. A timer is set, or its P is given up, while the timekeeper computes its deadline or sleeps. No
//! timer is missed: if a P is idle at the end, some M wakes no later than the earliest timer.

use core::time::Duration;

use super::platform::{Model, Setting, is_sysmon_woken, is_unparked, let_time_pass, run_as, run_next, spawn_as};
use super::pollers::waiting;
use super::{explore, explore_every_point};
use crate::base::atomic::Ordering;
use crate::base::instant::Instant;
use crate::base::points::{Points, Site};
use crate::engine::pick::find_runnable;
use crate::engine::ready::ready_pinned;
use crate::engine::steal::share;
use crate::engine::syscall::{enter_blocking, enter_syscall};
use crate::engine::sysmon::Sysmon;
use crate::engine::timers::arm;
use crate::entities::goroutine::{Goroutine, WaitGeneration};
use crate::entities::machine::Machine;
use crate::entities::status::Status;
use crate::entities::timers::Action;
use crate::platform::{Pinned, Platform};

/// Three points in time, in ascending order. The clock of a model never reaches them.
const AT_FIRST: Instant = Instant::from_nanos(1 << 49);
const SOON: Instant = Instant::from_nanos(1 << 50);
const LATER: Instant = Instant::from_nanos(1 << 51);

/// Sets a timer on the P of `machine`.
fn set(machine: &'static Machine<Model>, sleeper: &'static Goroutine<Model>, when: Instant) {
    run_as(machine, |pinned| arm(pinned, sleeper, when, &sleeper.timer, Action::Wake(sleeper, WaitGeneration::SOLE)));
}

/// The M whose P has timers goes idle while the M of another P sets an earlier timer.
#[test]
fn timer_against_an_m_that_becomes_the_timekeeper() {
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

/// A timer of a busy P is set while sysmon checks the Ps. sysmon sees the timer, or is woken for it.
#[test]
fn timer_against_a_check_of_sysmon() {
    /// How long sysmon sleeps after its first check if it knows of no timer.
    const SYSMON_DELAY: Duration = Duration::from_micros(20);
    const WHEN: Instant = Instant::from_nanos(10_000);
    explore_every_point(|| {
        let setting = Setting::new(1);
        let (machine, sleeper) = (setting.running_machine(), setting.goroutine());
        let mut sysmon = Sysmon::new(setting.scheduler);
        let checks = loom::thread::spawn(move || sysmon.check());
        set(machine, sleeper, WHEN);
        let delay = checks.join().unwrap();
        assert!(is_sysmon_woken() || delay < SYSMON_DELAY, "sysmon sleeps beyond the timer");
    });
}

/// The timer for which the timekeeper's deadline was set has been stopped, so the timekeeper postpones its deadline.
/// At the same time a timer is set that is due before the new deadline.
#[test]
fn timer_against_a_timekeeper_that_postpones_its_deadline() {
    explore_every_point(|| {
        let setting = Setting::new(2);
        let (setter, timekeeper) = (setting.busy_machine(), setting.busy_machine());
        let sleepers = [setting.goroutine(), setting.goroutine(), setting.goroutine()];
        set(timekeeper, sleepers[0], AT_FIRST);
        set(timekeeper, sleepers[1], LATER);
        run_as(timekeeper, |pinned| timekeeper.go_idle(pinned));
        assert_eq!(run_as(setter, |pinned| sleepers[0].timer.cancel(pinned)), Some(true));
        // The timekeeper continues as if its deadline had passed. The model does not give it a park token. With a
        // token, its next park would return at once, and it would check the timers a second time.
        let keeps = spawn_as(timekeeper, move |pinned| {
            find_runnable(pinned, timekeeper);
        });
        set(setter, sleepers[2], SOON);
        keeps.join().unwrap();
        setting.check();
    });
}

/// Two Ps with timers go idle at the same time, while the timekeeper sleeps without a deadline.
#[test]
fn p_with_timers_goes_idle_beside_a_timekeeper_without_deadline() {
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

/// The timekeeper wakes, finds work, and leaves its role to an M that parked without a deadline. A third, idle M is
/// woken to search, finds nothing and goes idle again. The new timekeeper must still get the deadline.
#[test]
fn timekeeper_that_finds_work_leaves_its_deadline_to_another() {
    explore_every_point(|| {
        let setting = Setting::new(5);
        let [submitter, timekeeper, successor, third] = core::array::from_fn(|_| setting.busy_machine());
        let spinner = setting.spinning_machine();
        let (work, sleeper) = ([setting.goroutine(), setting.goroutine()], setting.goroutine());
        set(successor, sleeper, SOON);
        [timekeeper, successor, third].into_iter().for_each(|machine| {
            run_as(machine, |pinned| machine.go_idle(pinned));
        });
        Model::unpark_thread(timekeeper);
        let keeps = spawn_as(timekeeper, move |pinned| timekeeper.wait_for_processor(pinned));
        run_as(submitter, |pinned| work.into_iter().for_each(|work| ready_pinned(pinned, work)));
        keeps.join().unwrap();
        setting.settle_all([timekeeper, spinner]);
        setting.check();
    });
}

/// The timekeeper is woken for a new timer, polls before the M that a raise has woken, and takes an idle P to run the G
/// of the device. It does not spin, so it wakes no M to search in its place. The M that the raise has woken is assigned a
/// P for other work, so it does not park again, which is when it would wake the timekeeper. So the M that becomes the
/// timekeeper, and that has parked without a deadline, must be woken for the timer of the P that is still idle.
#[test]
fn timekeeper_that_runs_the_g_of_a_device_leaves_its_deadline_to_another() {
    const FIRST: Duration = Duration::from_secs(1);
    explore(|| {
        let setting = Setting::new(3);
        setting.add_machine();
        let waits = setting.running_machine();
        let [successor, poller] = core::array::from_fn(|_| setting.busy_machine());
        let timekeeper = setting.idle_machine();
        let (scene, sleepers) = (waiting(&setting, waits), [setting.goroutine(), setting.goroutine()]);
        set(successor, sleepers[0], SOON);
        [successor, poller].into_iter().for_each(|machine| {
            run_as(machine, |pinned| machine.go_idle(pinned));
        });
        setting.settle();
        scene.interrupt();
        set(waits, sleepers[1], Instant::from_nanos(0) + FIRST);
        assert!(is_unparked(timekeeper));
        run_as(timekeeper, |pinned| run_next(pinned, timekeeper));
        assert!(timekeeper.current_goroutine().is_some(), "the timekeeper does not run the G of the device");
        let_time_pass(FIRST);
        run_as(waits, |_| core::mem::forget(enter_blocking::<Model>().expect("there is another M")));
        run_as(poller, |pinned| {
            assert!(poller.take_assigned(), "there is a due timer");
            run_next(pinned, poller);
        });
        setting.check();
    });
}

/// An M that goes idle is assigned another P before it has checked any timers. The timekeeper still sleeps without a
/// deadline, because all Ps were held. The timekeeper must take over the timers of the P that was given up. `prepare`
/// sets these timers.
///
/// The P is assigned for a G, which a thief takes in the meantime. So the assigned M sees no queued G, and wakes no
/// other M. Instead it runs the G of a device, and does not go idle again, which is when it would check the timers.
fn against_an_m_that_is_assigned_another_p(
    processors: usize,
    prepare: fn(&Setting, &'static Machine<Model>, &'static Goroutine<Model>),
) {
    explore_every_point(move || {
        let setting = Setting::new(processors);
        setting.add_machine();
        let (leaving, idler, sleeper) = (setting.running_machine(), setting.busy_machine(), setting.goroutine());
        let thief = setting.busy_machine();
        let device = waiting(&setting, leaving);
        prepare(&setting, idler, sleeper);
        let timekeeper = setting.scheduler.timekeeper.load(Ordering::Relaxed).expect("an M is idle");
        run_as(timekeeper, |pinned| timekeeper.wait_for_processor(pinned));
        let work = setting.goroutine();
        run_as(leaving, |pinned| ready_pinned(pinned, work));
        // No P is idle, so the raise only asks a running G to give way. In the model that G does so later.
        device.interrupt();
        let victim = leaving.held_processor();
        let steals = spawn_as(thief, move |pinned| {
            Model::point(Site::RunQueue);
            if let Some(stolen) = victim.queue.steal_into(&pinned.processor().queue, share, victim.queue.next()) {
                stolen.set_status(Status::Running);
                thief.set_current(Some(stolen));
            }
        });
        let idles = spawn_as(idler, move |pinned| {
            idler.go_idle(pinned);
            run_next(pinned, idler);
        });
        run_as(leaving, |_| core::mem::forget(enter_blocking::<Model>().unwrap()));
        steals.join().unwrap();
        idles.join().unwrap();
        if thief.current_goroutine().is_none() {
            setting.settle_all([thief]);
        }
        setting.check();
    });
}

#[test]
fn m_leaves_timers_behind_for_another_p() {
    against_an_m_that_is_assigned_another_p(3, |_, idler, sleeper| set(idler, sleeper, SOON));
}

#[test]
fn m_changes_ps_beside_timers_left_in_a_system_call() {
    against_an_m_that_is_assigned_another_p(4, |setting, _, sleeper| {
        let caller = setting.running_machine();
        set(caller, sleeper, SOON);
        run_as(caller, |_| core::mem::forget(enter_syscall::<Model>()));
    });
}

/// There are more Ms than Ps, and all Ps are held, so the timekeeper owns no timers. The timekeeper is about to sleep
/// forever. At the same time `leave` makes the only P idle, and this P has timers.
fn against_a_timekeeper_without_timers(leave: fn(&Pinned<Model>)) {
    explore_every_point(move || {
        let setting = Setting::new(1);
        setting.add_machine();
        let (leaving, sleeper) = (setting.running_machine(), setting.goroutine());
        set(leaving, sleeper, SOON);
        let timekeeper = setting.scheduler.timekeeper.load(Ordering::Relaxed).expect("an M is idle");
        let keeps = spawn_as(timekeeper, move |pinned| timekeeper.wait_for_processor(pinned));
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

/// An M that goes idle ends at once, because there have been more Ms than needed for long. It leaves its timers to the
/// timekeeper, which has parked without a deadline, because all Ps were held.
#[test]
fn m_that_ends_leaves_its_timers_to_a_timekeeper_without_deadline() {
    explore_every_point(|| {
        let setting = Setting::new(1);
        setting.add_machine();
        let (ending, timekeeper, sleeper) = (setting.busy_machine(), setting.idle_machine(), setting.goroutine());
        set(ending, sleeper, SOON);
        run_as(timekeeper, |pinned| timekeeper.wait_for_processor(pinned));
        setting.end_idle_machines();
        run_as(ending, |pinned| ending.go_idle(pinned));
        assert!(ending.is_retired());
        setting.keep_idle_machines();
        setting.check();
    });
}

/// An M enters a system call and leaves a P that has timers. At the same time another M goes idle and becomes the
/// timekeeper. The timekeeper must park no longer than until the earliest of these timers.
#[test]
fn system_call_against_an_m_that_becomes_the_timekeeper() {
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

/// Both Ps are held, so the timekeeper parks without a deadline. At the same time one M enters a system call and leaves
/// a P that has a timer, and another M hands off its P, which becomes idle. The timekeeper must wake no later than this
/// timer.
#[test]
fn handing_off_beside_timers_left_in_a_system_call() {
    explore_every_point(|| {
        let setting = Setting::new(2);
        setting.add_machine();
        let (caller, blocking, sleeper) = (setting.running_machine(), setting.running_machine(), setting.goroutine());
        let timekeeper = setting.scheduler.timekeeper.load(Ordering::Relaxed).expect("an M is idle");
        let keeps = spawn_as(timekeeper, move |pinned| timekeeper.wait_for_processor(pinned));
        let calls = spawn_as(caller, move |pinned| {
            arm(pinned, sleeper, SOON, &sleeper.timer, Action::Wake(sleeper, WaitGeneration::SOLE));
            core::mem::forget(enter_syscall::<Model>());
        });
        run_as(blocking, |_| core::mem::forget(enter_blocking::<Model>().unwrap()));
        keeps.join().unwrap();
        calls.join().unwrap();
        setting.check();
    });
}
