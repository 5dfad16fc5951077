//! Gs that compute without ever calling the scheduler.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gmp_sched::sim;

/// Hogs that compute until they are stopped.
pub(crate) struct Hogs {
    stop: Arc<AtomicBool>,
    handles: Vec<sim::JoinHandle<()>>,
}

impl Hogs {
    /// Starts `count` hogs. After every `step` of computing, each hog checks whether it should stop.
    pub(crate) fn start(count: usize, step: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let handles = (0..count)
            .map(|_| {
                let stop = stop.clone();
                sim::go(move || {
                    while !stop.load(Ordering::Relaxed) {
                        sim::work(step);
                    }
                })
            })
            .collect();
        Self { stop, handles }
    }

    /// Stops all hogs and waits until they have ended.
    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.handles.into_iter().for_each(|hog| hog.join().unwrap());
    }
}
