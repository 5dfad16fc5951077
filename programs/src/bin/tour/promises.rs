//! What the text of the tour promises. Each part of the tour compares what has happened with this.

use core::sync::atomic::{AtomicUsize, Ordering};

use kernel::prelude::*;

/// The number of promises that hold.
static KEPT: AtomicUsize = AtomicUsize::new(0);
static BROKEN: Mutex<Vec<&str>> = Mutex::new(Vec::new());

/// Records whether a promise of the text holds.
pub(crate) fn promise(text: &'static str, holds: bool) {
    if holds {
        KEPT.fetch_add(1, Ordering::Relaxed);
    } else {
        BROKEN.lock().push(text);
    }
}

/// Prints the promises that do not hold; returns the exit status.
pub(crate) fn report() -> i32 {
    let broken = BROKEN.lock().clone();
    println!("\n-- check: {} promises hold, {} do not.", KEPT.load(Ordering::Relaxed), broken.len());
    broken.iter().for_each(|text| eprintln!("tour: does not hold: {text}"));
    i32::from(!broken.is_empty())
}
