//! The value was taken, but the sender thinks that the channel was closed, and has its value still.
//! fails: handoff, close, limit, programs, races

// ANCHOR: take_from_sender
        let Some((sender, goroutine)) = self.header.senders.pop_with_goroutine() else { return Attempt::NotReady };
        let slot = sender.slot.load(Ordering::Relaxed).cast::<T>();
        // SAFETY: `slot` is the address of the value of the waiting sender. `pop_with_goroutine` has ended the wait of
        // the sender, so this function may move the value. `to` is uninitialised.
        unsafe { ptr::copy_nonoverlapping(slot, to, 1) };
        Attempt::Moved(Some(goroutine))
// ANCHOR_END: take_from_sender
