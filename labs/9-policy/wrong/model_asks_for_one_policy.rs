//! The model has no patience: it refuses each policy with a head start that ends.
//! fails: model, promises

// ANCHOR: model
pub fn allows(begun: Waiting, others: &[Waiting]) -> Result<(), &'static str> {
    if others.iter().any(|other| other.answers) && !begun.answers {
        return Err("a G that answers comes first");
    }
    if others.iter().any(|other| other.since + Duration::from_millis(200) < begun.since) {
        return Err("a G starves");
    }
    Ok(())
}
// ANCHOR_END: model
