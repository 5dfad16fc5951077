//! What happens to the frames between two hosts.

use core::time::Duration;

/// What happens to the frames from one host to another. The default is a perfect network. The names are those of
/// `netem`, the simulator of networks in Linux.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Conditions {
    /// The share of the frames that are lost, from 0 to 1.
    pub loss: f64,
    /// The share of the frames that arrive twice, from 0 to 1.
    pub duplicate: f64,
    /// The share of the frames that are held back, from 0 to 1: they are under way for twice the `delay` and another
    /// [`HELD_BACK`](Self::HELD_BACK), so that later frames overtake them.
    pub reorder: f64,
    /// How long a frame is under way.
    pub delay: Duration,
    /// A random time of up to this is added to the `delay` of each frame. Frames that are sent in quick succession are
    /// reordered by this, too.
    pub jitter: Duration,
    /// How many bits the sender transmits per second. It transmits one frame after the other, and its calls wait while
    /// 16 frames are left to transmit. `None` stands for no limit.
    pub rate: Option<u64>,
}

impl Conditions {
    /// How much later a frame arrives that is held back, at least.
    pub const HELD_BACK: Duration = Duration::from_millis(1);

    /// # Panics
    /// If a share is not between 0 and 1, or the rate is 0.
    #[track_caller]
    pub(super) fn check(&self) {
        for share in [self.loss, self.duplicate, self.reorder] {
            assert!((0.0..=1.0).contains(&share), "a share of {share} frames: it must be between 0 and 1");
        }
        assert!(self.rate != Some(0), "a rate of 0 bits per second: a partition lets no frame pass");
    }

    /// Returns how long the transmission of a frame takes.
    pub(super) fn transmission(&self, bytes: usize) -> Duration {
        let nanos = |rate| bytes as u64 * 8 * 1_000_000_000 / rate;
        self.rate.map_or(Duration::ZERO, |rate| Duration::from_nanos(nanos(rate)))
    }
}
