//! Models of a scheduler that shuts down while an M is made.

use super::platform::{Setting, is_unparked};
use super::{explore, explore_with_both_locks};

/// The new M must be unparked. Otherwise its thread would stay parked in a scheduler that has ended.
#[test]
fn m_that_is_made_during_shut_down_is_unparked() {
    explore_with_both_locks(|| {
        explore(|| {
            let setting = Setting::new(1);
            let scheduler = setting.scheduler;
            let ends = loom::thread::spawn(move || scheduler.shut_down());
            setting.add_machine();
            ends.join().unwrap();
            assert!(scheduler.machines().count() == 2 && scheduler.machines().all(is_unparked), "an M stays parked");
        });
    });
}
