//! The ring that is always both full and empty. All Gs go through the global queue, as in Go before 1.1.

// ANCHOR: push_back
        // Your code. Appends `item`, or returns `Err(Full)` if the ring has no free slot.
        let _ = item;
        Err(Full)
// ANCHOR_END: push_back

// ANCHOR: pop_ring
        // Your code. Takes the oldest element of the ring, if there is one: `Some((item, Slice::New))`.
        let _ = Self::advance_head;
        None
// ANCHOR_END: pop_ring

// ANCHOR: push_back_all
        // Your code. Appends the first of `items`, as many as there is room for, and returns how many.
        let _ = items;
        0
// ANCHOR_END: push_back_all

// ANCHOR: drain_half
        // Your code. Takes the older half of a full ring, in order; `None` if the ring is not full.
        Some(core::iter::empty())
// ANCHOR_END: drain_half

// ANCHOR: grab
        // Your code. Takes the oldest elements, as many as `share` says, into the slots of `thief` from `base` on;
        // returns how many.
        let _ = (thief, base, share);
        0
// ANCHOR_END: grab

// ANCHOR: trials
/// Your tests: sequences of at most seven steps, so that each flaw of a ring (`rings.rs`) shows in one of them. This one finds none.
pub const TRIALS: &[&[Step]] = &[&[Step::PushBack, Step::Pop]];
// ANCHOR_END: trials
