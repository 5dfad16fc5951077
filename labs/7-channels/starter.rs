//! Channels on which nothing ever happens: each send and each receive waits for ever.

// ANCHOR: offer
        // Your code. To a waiting receiver, or into the buffer, or not at all.
        let _ = (held, from, length, Self::move_to_receiver, Ring::<T>::push);
        let _ = (Held::<Plat>::change_len, Attempt::<Plat>::Moved);
        Attempt::NotReady
// ANCHOR_END: offer

// ANCHOR: move_to_receiver
        // Your code. Moves the value to the first receiver that waits; returns its G.
        let _ = (from, &self.header.receivers);
        None
// ANCHOR_END: move_to_receiver

// ANCHOR: take_from_sender
        // Your code. Takes the value of the first sender that waits.
        let _ = (to, &self.header.senders, MOVED, Ordering::Relaxed, ptr::copy_nonoverlapping::<T>);
        Attempt::NotReady
// ANCHOR_END: take_from_sender

// ANCHOR: take_from_buffer
        // Your code. Takes the oldest value of the buffer, and fills the free entry from a sender that waits.
        let _ = (held, to, Ring::<T>::pop);
        Attempt::NotReady
// ANCHOR_END: take_from_buffer

// ANCHOR: wait
        // Your code. Queue this G before it parks, and say how its wait has ended. So far, nobody can find it.
        let _ = (me, slot, MOVED, Ordering::Relaxed);
        let wait_for = WaitFor::new(self.header.wait_reason(side), &self.header);
        let _ = wait(caller, wait_for, generation, limit.copied(), || drop(held));
        window.close();
        Err(Unmoved::Closed)
// ANCHOR_END: wait

// ANCHOR: close
        // Your code. Marks the channel as closed, and takes all waiters from both queues.
        None
// ANCHOR_END: close

// ANCHOR: trials
/// Your tests: the capacity of a channel, from 0 to 2, and at most six steps, so that each flaw (`channels.rs`) shows in one of
/// them. This one finds none.
pub const TRIALS: &[(usize, &[Step])] = &[(0, &[Step::TryRecv])];
// ANCHOR_END: trials
