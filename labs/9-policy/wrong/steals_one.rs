//! A thief takes one G at a time.
//! fails: thefts

// ANCHOR: steal
    /// Half of what waits on the P on which most waits.
    fn steal(&self, victims: &mut dyn Iterator<Item = ProcessorState>) -> Option<Theft> {
        let fullest = victims.max_by_key(|victim| victim.waiting)?;
        Some(Theft { from: fullest.id, count: 1 })
    }
// ANCHOR_END: steal
