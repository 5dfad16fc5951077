//! A receiver takes the value of the sender that waits, although older values are in the buffer.
//! fails: order, close, programs, races

// ANCHOR: take_from_buffer
        if let Attempt::Moved(goroutine) = unsafe { self.take_from_sender(to) } {
            return Attempt::Moved(goroutine);
        }
        // SAFETY: the lock is held and the ring is not empty; `to` is uninitialised.
        unsafe { self.ring.pop(to) };
        held.change_len(-1);
        Attempt::Moved(None)
// ANCHOR_END: take_from_buffer
