//! The comparison is the wrong way round.
//! fails: model, promises

// ANCHOR: model
pub fn allows(begun: Waiting, others: &[Waiting]) -> Result<(), &'static str> {
    for other in others {
        if other.answers && !begun.answers && other.since > begun.since + Duration::from_millis(50) {
            return Err("a G that answers comes first");
        }
        if begun.since + Duration::from_millis(200) < other.since {
            return Err("a G starves");
        }
    }
    Ok(())
}
// ANCHOR_END: model
