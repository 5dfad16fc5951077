//! The M is counted as blocked after its P has been taken; it may have returned by then.
//! fails: races

// ANCHOR: retake
        if !processor.claim_to_hand_off() {
            return false;
        }
        if !self.secure_from_outside() {
            return false;
        }
        self.hand_off(processor);
        true
// ANCHOR_END: retake
