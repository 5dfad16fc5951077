//! sysmon takes the P by a store: the M that returns at this moment takes it, too.
//! fails: keep, nothing-lost, races

// ANCHOR: retake
        // The M is counted as blocked before the claim, because it may return from its call right after the claim and
        // lower the count.
        if !self.secure_from_outside() {
            return false;
        }
        Plat::point(Site::Syscall);
        let _ = Processor::<Plat>::claim_to_hand_off;
        processor.counters.retakes.add(1);
        self.hand_off(processor);
        true
// ANCHOR_END: retake
