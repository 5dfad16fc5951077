//! What a test could leak: frames, buffers and slots of disks, Gs and Ms.

use kernel::disk::disks;
use kernel::internals::{PAGE_SIZE, abandoned_disk_buffers, flush_all_tlbs};
use kernel::mm;
use kernel::platform::scheduler;
use kernel::prelude::*;

/// What is in use at one moment. A test takes one before and one after the calls that could leak.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The number of frames that are free or belong to stacks. The Ps keep stacks of dead Gs, at some times more than at
    /// others.
    frames: usize,
    /// The number of stacks in use, except for one for each M.
    stacks: usize,
    /// For each disk, how many requests can be in flight, and how many more can be submitted.
    requests: Vec<(usize, usize)>,
    /// For each disk, the number of buffers that are never used again.
    abandoned: Vec<usize>,
    gs: usize,
    ms: usize,
}

impl Snapshot {
    /// Waits until the driver has all its buffers and no Gs but `gs` are left, because a G that waits for a late answer
    /// ends after the call whose limit was over.
    pub(crate) fn take(gs: usize) -> Self {
        while num_goroutine() > gs || disks().iter().any(|disk| disk.requests().0 != disk.requests().1) {
            sleep(Duration::from_millis(10));
        }
        // These lists take memory, too, so they are made before the frames are counted.
        let requests = disks().iter().map(|disk| disk.requests()).collect();
        let abandoned = (0..disks().len()).map(abandoned_disk_buffers).collect();
        mm::free_cached_memory();
        // The addresses of the freed stacks are reused only after each CPU has flushed its TLB. Otherwise the next round
        // would take new addresses, and page tables for them.
        flush_all_tlbs();
        let usage = mm::usage();
        let ms = scheduler().expect("the scheduler runs").machines().count();
        Self {
            frames: (usage.free + usage.stacks_committed) / PAGE_SIZE,
            stacks: usage.stacks_in_use - ms,
            requests,
            abandoned,
            gs: num_goroutine(),
            ms,
        }
    }

    /// Checks that since `self` no slot, G or stack has leaked, and no buffer except for `abandoned` ones of each disk,
    /// which the driver never uses again because the device may still access them. Their memory stays with the driver.
    ///
    /// The frames are not compared, because a single round may need some that are kept, for example for page tables.
    /// [`check`] repeats a round to find out whether it leaks frames.
    pub(crate) fn check_counts(&self, now: &Self, abandoned: &[usize]) {
        assert_eq!((now.gs, now.stacks, &now.requests), (self.gs, self.stacks, &self.requests));
        let more: Vec<usize> = now.abandoned.iter().zip(&self.abandoned).map(|(now, before)| now - before).collect();
        assert_eq!(more, abandoned, "buffers that the driver never uses again");
    }
}

/// The number of rounds after which the frames are compared. The heap takes 256 KiB at a time, so few rounds may hide
/// what they leak.
const ROUNDS: usize = 40;

/// Runs `round` repeatedly, and checks that nothing leaks: after some rounds, there are [`ROUNDS`] that together take no
/// more memory and no further M.
pub(crate) fn check(round: impl Fn()) {
    let gs = num_goroutine();
    let none = vec![0; disks().len()];
    let mut last = Snapshot::take(gs);
    let is_stable = (0..4).any(|_| {
        (0..ROUNDS).for_each(|_| round());
        let before = core::mem::replace(&mut last, Snapshot::take(gs));
        before.check_counts(&last, &none);
        last.frames >= before.frames && last.ms <= before.ms
    });
    assert!(is_stable, "{ROUNDS} rounds need more each time: {last:?}");
}
