//! The last look for work comes before the P is on the idle list, so a submitter may see no idle P after it.
//! fails: races

// ANCHOR: hand_off
        if has_work || shared.has_work() {
            let machine = self.assign_to_idle(&mut shared, processor, Assignment::Run);
            drop(shared);
            Plat::unpark_thread(machine);
            return;
        }
        if self.is_work_visible() {
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
