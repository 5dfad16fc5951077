//! What a test could leak: buffers and slots of disks, Gs, stacks, Ms and bytes of the heap. All are counted exactly.
//!
//! Buffers, slots, Gs and stacks must be as many after the test as before. Ms and bytes of the heap may grow at first:
//! the scheduler keeps Gs and Ms for reuse, as many as were needed at the same time, and this number depends on the
//! timing. So they must stop growing: see [`check`]. Frames are not compared, because the heap and the stacks take many
//! at a time and keep them.

use kernel::disk::disks;
use kernel::internals::{abandoned_disk_buffers, live_heap_bytes};
use kernel::mm;
use kernel::platform::scheduler;
use kernel::prelude::*;

/// What is in use at one moment. A test takes one before and one after the calls that could leak.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The number of stacks in use, except for one for each M.
    stacks: usize,
    /// For each disk, how many requests can be in flight, and how many more can be submitted.
    requests: Vec<(usize, usize)>,
    /// For each disk, the number of buffers that are never used again.
    abandoned: Vec<usize>,
    gs: usize,
}

impl Snapshot {
    /// Waits until all buffers of the driver are free and at most `gs` Gs are left. This may take a while, because the
    /// G that waits for a late answer outlives the call, which its limit has ended.
    pub(crate) fn take(gs: usize) -> Self {
        while num_goroutine() > gs || disks().iter().any(|disk| disk.requests().0 != disk.requests().1) {
            sleep(Duration::from_millis(10));
        }
        let ms = scheduler().expect("the scheduler runs").machines().count();
        Self {
            stacks: mm::usage().stacks_in_use - ms,
            requests: disks().iter().map(|disk| disk.requests()).collect(),
            abandoned: (0..disks().len()).map(abandoned_disk_buffers).collect(),
            gs: num_goroutine(),
        }
    }

    /// Checks that no slot, G or stack has leaked between `self` and `now`. Also checks that for each disk exactly as
    /// many buffers as `abandoned` says were abandoned. The driver never uses or frees the memory of abandoned buffers,
    /// because the device may still access it.
    pub(crate) fn check_counts(&self, now: &Self, abandoned: &[usize]) {
        assert_eq!((now.gs, now.stacks, &now.requests), (self.gs, self.stacks, &self.requests));
        let more: Vec<usize> = now.abandoned.iter().zip(&self.abandoned).map(|(now, before)| now - before).collect();
        assert_eq!(more, abandoned, "buffers that the driver never uses again");
    }
}

/// What the scheduler may keep for reuse: the bytes of the heap that are in use, and the number of Ms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Kept {
    bytes: usize,
    ms: usize,
}

impl Kept {
    /// Waits like [`Snapshot::take`], and returns the current numbers. The returned value owns no memory of the heap,
    /// so it does not change the result of the next call.
    fn take(gs: usize) -> Self {
        drop(Snapshot::take(gs));
        Self { bytes: live_heap_bytes(), ms: scheduler().expect("the scheduler runs").machines().count() }
    }

    /// Whether one of the numbers is larger than in all earlier values.
    fn has_grown_beyond(self, earlier: &[Self]) -> bool {
        earlier.iter().all(|it| self.bytes > it.bytes) || earlier.iter().all(|it| self.ms > it.ms)
    }
}

/// How many rounds [`check`] runs before it takes the first [`Kept`] value.
const WARM_UP: usize = 20;
/// How many rounds [`check`] runs between two [`Kept`] values.
const BATCH: usize = 10;
/// In this number of consecutive batches, neither Ms nor bytes of the heap may grow beyond all earlier values. (The
/// number of Ms goes up and down, because idle Ms end.)
const LEVEL: usize = 2;
/// The largest number of batches. A leak of one byte in each round makes the heap grow in each batch.
const MOST_BATCHES: usize = 20;

/// Runs `round` repeatedly, and checks that no slot, buffer, G or stack has leaked. Continues until neither Ms nor
/// bytes of the heap have grown in [`LEVEL`] consecutive batches of rounds. If this does not happen within
/// [`MOST_BATCHES`] batches, Ms or bytes leak, and the function panics.
pub(crate) fn check(round: impl Fn()) {
    let gs = num_goroutine();
    let before = Snapshot::take(gs);
    (0..WARM_UP).for_each(|_| round());
    let mut kept = [Kept::take(gs); MOST_BATCHES + 1];
    let (mut batches, mut level) = (0, 0);
    while level < LEVEL {
        assert!(batches < MOST_BATCHES, "Ms or bytes of the heap leak: {kept:?}");
        (0..BATCH).for_each(|_| round());
        batches += 1;
        kept[batches] = Kept::take(gs);
        level = if kept[batches].has_grown_beyond(&kept[..batches]) { 0 } else { level + 1 };
    }
    before.check_counts(&Snapshot::take(gs), &vec![0; disks().len()]);
}
