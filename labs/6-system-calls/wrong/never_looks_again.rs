//! The P becomes idle, and nobody looks for work that was submitted just before.
//! fails: nothing-lost, races

// ANCHOR: hand_off
        if has_work || shared.has_work() {
            let machine = self.assign_to_idle(&mut shared, processor, Assignment::Run);
            drop(shared);
            Plat::unpark_thread(machine);
            return;
        }
        self.put_idle_processor(&mut shared, processor);
        drop(shared);
        Plat::point(Site::Idle);
        // Ordering: on threads, `earliest_timekeeper_timer` may miss a timer that is being set at the same time. But the
        // code that sets it wakes the timekeeper, too, which takes the lock (in `check_dead`) and sees that this P is idle.
        self.wake_timekeeper(self.earliest_timekeeper_timer());
        // Steps 2 and 3 of Idle in idle.md. The fence is in `wake_timekeeper`.
// ANCHOR_END: hand_off
