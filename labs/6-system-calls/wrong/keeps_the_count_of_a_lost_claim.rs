//! If the M returns first, it stays counted as blocked for ever.
//! fails: nothing-lost, races

// ANCHOR: retake
        // The M is counted as blocked before the claim, because it may return from its call right after the claim and
        // lower the count.
        if !self.secure_from_outside() {
            return false;
        }
        Plat::point(Site::Syscall);
        if !processor.claim_to_hand_off() {
            return false;
        }
        self.hand_off(processor);
        true
// ANCHOR_END: retake
