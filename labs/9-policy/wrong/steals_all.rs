//! A thief takes all, and is robbed of all in turn.
//! fails: thefts

// ANCHOR: steal
    /// Half of what waits on the P on which most waits.
    fn steal(&self, victims: &mut dyn Iterator<Item = ProcessorState>) -> Option<Theft> {
        let fullest = victims.max_by_key(|victim| victim.waiting)?;
        Some(Theft { from: fullest.id, count: fullest.waiting })
    }
// ANCHOR_END: steal
