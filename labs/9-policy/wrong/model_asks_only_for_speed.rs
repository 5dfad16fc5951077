//! The model has one promise: nobody notices that a G starves.
//! fails: model

// ANCHOR: model
pub fn allows(begun: Waiting, others: &[Waiting]) -> Result<(), &'static str> {
    for other in others {
        if other.answers && !begun.answers && other.since < begun.since + Duration::from_millis(50) {
            return Err("a G that answers comes first");
        }
    }
    Ok(())
}
// ANCHOR_END: model
