//! Models of the background G: the M that takes it, and the M that leaves it, against Ms that go idle or submit work.

use super::explore_every_point;
use super::platform::{Setting, run_as, run_next, spawn_as};
use crate::engine::ready::ready_pinned;
use crate::refinements::background::Left;

/// The submitter wakes no M, because it sees a spinning M. The spinning M takes the background G at the same time, so
/// it has to check the queues once more.
#[test]
fn submitter_against_a_spinning_m_that_takes_the_background_g() {
    explore_every_point(|| {
        let setting = Setting::new(3);
        setting.start_background();
        let (submitter, spinner) = (setting.running_machine(), setting.spinning_machine());
        setting.scheduler.background_parks(Left::Work);
        let work = setting.goroutine();
        let searches = spawn_as(spinner, move |pinned| run_next(pinned, spinner));
        run_as(submitter, |pinned| ready_pinned(pinned, work));
        searches.join().unwrap();
        setting.check();
    });
}

/// The background G parks with work left, because its P has other work, while another M goes idle. That M runs the
/// background G next.
#[test]
fn background_g_that_leaves_work_against_an_idling_m() {
    explore_every_point(|| {
        let setting = Setting::new(2);
        setting.start_background();
        let (runner, idler) = (setting.running_machine(), setting.busy_machine());
        let idles = spawn_as(idler, move |pinned| run_next(pinned, idler));
        let scheduler = setting.scheduler;
        run_as(runner, |_| scheduler.background_parks(Left::Work));
        idles.join().unwrap();
        setting.check();
    });
}

/// Two Ms would go idle, and see that the background G is due. One of them runs it.
#[test]
fn background_g_runs_once() {
    explore_every_point(|| {
        let setting = Setting::new(2);
        setting.start_background();
        let (first, second) = (setting.busy_machine(), setting.busy_machine());
        setting.scheduler.background_parks(Left::Work);
        let searches = spawn_as(first, move |pinned| run_next(pinned, first));
        run_as(second, |pinned| run_next(pinned, second));
        searches.join().unwrap();
        setting.check();
        let runners = [first, second].iter().filter(|machine| machine.current_goroutine().is_some()).count();
        assert_eq!(runners, 1, "the background G runs on {runners} Ms");
    });
}
