//! The commit stores that the G waits, although the signal was raised since the check.
//! fails: raise, deadline, busy, word, connections

// ANCHOR: commit
        end.arm(pinned, me, generation);
        Plat::point(Site::DeviceSignal);
        self.word.swap(with_generation(WAITING, generation), Ordering::AcqRel);
        true
// ANCHOR_END: commit
