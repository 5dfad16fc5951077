//! The switch that goes nowhere: the first one is an invalid instruction.

// ANCHOR: switch
            // Your code. Keep the line with `load_more` just before the jump to the other context, and the label.
            "ud2 /* {save} */",
            $($load_more,)*
            "2:",
// ANCHOR_END: switch

// ANCHOR: start
        // Your code: call {arrive}, then go to {run}.
        "ud2 /* {arrive} {run} */",
// ANCHOR_END: start

// ANCHOR: trials
/// Your tests: sequences of at most six steps, so that each flaw of a switch (`switches.rs`) shows in one of them. This
/// one finds none.
pub const TRIALS: &[&[Step]] = &[&[Step::Set(Register::Rbx), Step::Push, Step::Pop]];
// ANCHOR_END: trials
