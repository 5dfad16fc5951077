//! The P becomes idle although it has work, and nobody is told.
//! fails: overlap, retake, machines, nothing-lost, races

// ANCHOR: hand_off
        let _ = (has_work, Assignment::Run, Self::assign_to_idle);
        self.put_idle_processor(&mut shared, processor);
        drop(shared);
        self.wake_timekeeper(self.earliest_timekeeper_timer());
// ANCHOR_END: hand_off
