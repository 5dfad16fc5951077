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
        self.wake_timekeeper(self.earliest_timekeeper_timer());
// ANCHOR_END: hand_off
