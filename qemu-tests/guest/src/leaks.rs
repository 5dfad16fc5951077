//! What a test could leak: buffers and slots of disks, Gs and stacks. These are counted exactly. Memory of the heap and
//! frames are not compared: the heap takes 256 KiB at a time and keeps what is freed, so their numbers show neither that
//! little has leaked nor that nothing has.

use kernel::disk::disks;
use kernel::internals::abandoned_disk_buffers;
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
    /// Waits until the driver has all its buffers and no Gs but `gs` are left, because a G that waits for a late answer
    /// ends after the call whose limit was over.
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

    /// Checks that since `self` no slot, G or stack has leaked, and no buffer except for `abandoned` ones of each disk,
    /// which the driver never uses again because the device may still access them. Their memory stays with the driver.
    pub(crate) fn check_counts(&self, now: &Self, abandoned: &[usize]) {
        assert_eq!((now.gs, now.stacks, &now.requests), (self.gs, self.stacks, &self.requests));
        let more: Vec<usize> = now.abandoned.iter().zip(&self.abandoned).map(|(now, before)| now - before).collect();
        assert_eq!(more, abandoned, "buffers that the driver never uses again");
    }
}

/// How often [`check`] runs its round.
const ROUNDS: usize = 40;

/// Runs `round` repeatedly, and checks that no slot, buffer, G or stack has leaked.
pub(crate) fn check(round: impl Fn()) {
    let gs = num_goroutine();
    let before = Snapshot::take(gs);
    (0..ROUNDS).for_each(|_| round());
    before.check_counts(&Snapshot::take(gs), &vec![0; disks().len()]);
}
