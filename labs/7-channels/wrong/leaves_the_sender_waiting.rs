//! A receive makes room in the buffer, and a sender that waits for room is not told.
//! fails: order, close, limit, programs

// ANCHOR: take_from_buffer
        // SAFETY: the lock is held and the ring is not empty; `to` is uninitialised.
        unsafe { self.ring.pop(to) };
        held.change_len(-1);
        Attempt::Moved(None)
// ANCHOR_END: take_from_buffer
