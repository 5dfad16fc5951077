//! A send puts its value into the buffer, although a receiver waits, and wakes nobody.
//! fails: order, close, limit, programs, races

// ANCHOR: offer
        if length < self.header.capacity {
            // SAFETY: the lock is held, the ring has room, and the caller owns the value.
            unsafe { self.ring.push(from) };
            held.change_len(1);
            return Attempt::Moved(None);
        }
        // SAFETY: the caller upholds this function's contract, and the called function has the same contract.
        unsafe { self.move_to_receiver(from) }.map_or(Attempt::NotReady, |goroutine| Attempt::Moved(Some(goroutine)))
// ANCHOR_END: offer
