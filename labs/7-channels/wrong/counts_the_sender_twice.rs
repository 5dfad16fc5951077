//! The value of the sender takes the place of the one that was received, and is counted once more.
//! fails: order, close, limit, programs, races

// ANCHOR: take_from_buffer
        // SAFETY: the lock is held and the ring is not empty; `to` is uninitialised.
        unsafe { self.ring.pop(to) };
        let Some((sender, goroutine)) = self.header.senders.pop_with_goroutine() else {
            held.change_len(-1);
            return Attempt::Moved(None);
        };
        let slot = sender.slot.load(Ordering::Relaxed).cast::<T>();
        // SAFETY: the lock is held and an entry has just become free. `slot` is the address of the value of the waiting
        // sender. `pop_with_goroutine` has ended the wait of the sender, so this function may move the value.
        unsafe { self.ring.push(slot) };
        held.change_len(1);
        sender.outcome.store(MOVED, Ordering::Relaxed);
        Attempt::Moved(Some(goroutine))
// ANCHOR_END: take_from_buffer
