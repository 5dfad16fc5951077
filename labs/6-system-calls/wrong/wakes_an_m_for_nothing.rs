//! An M gets the P in any case, also if it has nothing to run.
//! fails: machines, races

// ANCHOR: hand_off
        let _ = has_work;
        let machine = self.assign_to_idle(&mut shared, processor, Assignment::Run);
        drop(shared);
        Plat::unpark_thread(machine);
// ANCHOR_END: hand_off
