//! Prints a note if a program seems to rely on preemption, because the host preempts no G. A program seems to rely on
//! preemption in two cases: a G runs for a second while other Gs wait in the queue of its P, or on each P a G runs for
//! a second.

use alloc::vec::Vec;
use core::time::Duration;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};

use gmp_sched::processor::{Processor, ProcessorStatus};
use gmp_sched::scheduler::Scheduler;

use super::note::Note;
use super::platform::Kernel;

/// The time between two checks.
const INTERVAL: Duration = Duration::from_millis(100);
/// A slice is too long if this many checks in succession have found it running.
const LONG: u32 = 10;

static NOTE: Note = Note::new(
    "a goroutine has run for a second without waiting, yielding or ending, while others may have to wait for it. \
     The host does not preempt it; the machine does, after 10 ms. (A loop that waits for another goroutine can call \
     yield_now.)",
);

/// A thread that checks the slices of a scheduler. It ends when this value is dropped, or when it has found a slice
/// that is too long.
pub(super) struct SliceWatch {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl SliceWatch {
    /// Starts the thread. If the thread cannot be started, nothing is checked.
    pub(super) fn start(scheduler: &'static Scheduler<Kernel>) -> Self {
        let (stop, stopped) = mpsc::channel();
        let watch = move || {
            let mut slices = Slices::default();
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if slices.is_one_too_long(scheduler) {
                    return NOTE.say();
                }
            }
        };
        Self { stop: Some(stop), thread: thread::Builder::new().name("slices".into()).spawn(watch).ok() }
    }
}

impl Drop for SliceWatch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread does not panic, so its result needs no check.
            let _ = thread.join();
        }
    }
}

/// Two numbers for each P. The first is the P's tick (how many slices the P has begun) at the last check. The second is
/// how many checks in succession have found that tick.
#[derive(Default)]
struct Slices(Vec<(u64, u32)>);

impl Slices {
    /// Returns `true` in two cases. First, a G has run for too long while other Gs wait in the queue of its P. Second,
    /// on each of the Ps a G has run for too long, so that no P is left to fire timers.
    fn is_one_too_long(&mut self, scheduler: &'static Scheduler<Kernel>) -> bool {
        let processors = scheduler.processors();
        self.0.resize(processors.len(), (0, 0));
        let is_long = |(slice, processor): (&mut (u64, u32), &Processor<Kernel>)| {
            let (tick, checks) = slice;
            let is_same = processor.status() == ProcessorStatus::Running && processor.tick() == *tick;
            (*tick, *checks) = (processor.tick(), if is_same { *checks + 1 } else { 0 });
            (*checks >= LONG, processor.queue_length() > 0)
        };
        let found: Vec<(bool, bool)> = self.0.iter_mut().zip(processors).map(is_long).collect();
        found.iter().any(|&(is_long, others_wait)| is_long && others_wait) || found.iter().all(|&(is_long, _)| is_long)
    }
}
