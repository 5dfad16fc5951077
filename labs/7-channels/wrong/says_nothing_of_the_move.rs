//! The receiver has the value, but its waiter does not say so: it looks like a close.
//! fails: handoff, order, close, limit, programs, races

// ANCHOR: move_to_receiver
        let (receiver, goroutine) = self.header.receivers.pop_with_goroutine()?;
        let slot = receiver.slot.load(Ordering::Relaxed).cast::<T>();
        // SAFETY: `slot` is the address of an uninitialised variable for a `T`. The variable belongs to the waiting
        // receiver, and is valid until the receiver's G is readied, which happens only after this copy.
        // `pop_with_goroutine` has ended the wait, so no other G writes to the variable. `from` points to a value
        // that the caller owns.
        unsafe { ptr::copy_nonoverlapping(from, slot, 1) };
        let _ = MOVED;
        Some(goroutine)
// ANCHOR_END: move_to_receiver
