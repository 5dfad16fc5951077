//! The value is copied to the receiver, but the receiver is not readied.
//! fails: handoff, order, close, limit, programs, races

// ANCHOR: offer
        // SAFETY: the caller upholds this function's contract, and the called function has the same contract.
        if let Some(_goroutine) = unsafe { self.move_to_receiver(from) } {
            return Attempt::Moved(None);
        }
        if length < self.header.capacity {
            // SAFETY: the lock is held, the ring has room, and the caller owns the value.
            unsafe { self.ring.push(from) };
            held.change_len(1);
            return Attempt::Moved(None);
        }
        Attempt::NotReady
// ANCHOR_END: offer
