//! As in a ring that tells full from empty by one free entry, the last entry is never used.
//! fails: buffer, order, close, limit, programs

// ANCHOR: offer
        // SAFETY: the caller upholds this function's contract, and the called function has the same contract.
        if let Some(goroutine) = unsafe { self.move_to_receiver(from) } {
            return Attempt::Moved(Some(goroutine));
        }
        if length + 1 < self.header.capacity {
            // SAFETY: the lock is held, the ring has room, and the caller owns the value.
            unsafe { self.ring.push(from) };
            held.change_len(1);
            return Attempt::Moved(None);
        }
        Attempt::NotReady
// ANCHOR_END: offer
