//! The receiver has the value, but its waiter does not say so: it looks like a close.
//! fails: handoff, order, close, limit, programs, races

// ANCHOR: move_to_receiver
        let (receiver, goroutine) = self.header.receivers.pop_with_goroutine()?;
        let slot = receiver.slot.load(Ordering::Relaxed).cast::<T>();
        // SAFETY: the slot is a variable of the receiver, whose wait has ended, so nobody else writes to it.
        unsafe { ptr::copy_nonoverlapping(from, slot, 1) };
        let _ = MOVED;
        Some(goroutine)
// ANCHOR_END: move_to_receiver
