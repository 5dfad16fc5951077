//! A raise that comes after the deadline has ended the wait is dropped, and not kept for the next wait.
//! fails: raise, deadline, busy, word

// ANCHOR: end
        // In these three states, no raise is left to take. In any other state, a raise came before the G was waiting,
        // or after `end` had ended the wait. In that case this function returns `None`, so that the caller checks the
        // signal again and takes the raise.
        let ended = |word| (word & TAG != QUEUED).then_some(EMPTY);
        // Ordering: Acquire, to see what the handlers of all raises so far did; partner: the exchange in `raise`.
        // Release, so that the next wait, of any G, comes after this wait; partner: the exchange in `announce`.
        let word = self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, ended).ok()?;
        Some(word & TAG == DELIVERED)
// ANCHOR_END: end
