//! Which CPUs look at the others from time to time, so that one that is stuck is found: never none while one is busy.
//!
//! A CPU that runs something has a tick, and looks then. One that halts has none; but while another one is busy it keeps
//! its timer armed, for otherwise nobody would notice when the only busy CPU gets stuck. If all halt they let their
//! timers run out. Whoever then begins to run something finds that nobody else looks, and has to call one that halts.
//!
//! No call is missed. A CPU that begins notes that it is busy, fences, and counts who looks; one that wants to stop
//! looking takes itself out of the count, fences, and asks once more who is busy. Either the first sees that it has to
//! call, or the second sees that it has to stay.

use crate::base::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

/// How many CPUs of a machine look.
#[derive(Debug)]
pub struct Lookout {
    looking: AtomicUsize,
}

/// The part of one CPU.
#[derive(Debug)]
pub struct Lookouter {
    /// It runs something, and so has a tick.
    is_busy: AtomicBool,
    /// Its timer is going to fire. Written by the CPU itself.
    looks: AtomicBool,
}

/// Two constructors that are constants, but for loom.
macro_rules! constructors {
    ($($constant:tt)?) => {
        impl Lookout {
            /// For a machine whose CPUs all halt.
            #[must_use]
            #[expect(clippy::new_without_default, reason = "a static of a machine, made in one place")]
            pub $($constant)? fn new() -> Self {
                Self { looking: AtomicUsize::new(0) }
            }
        }

        impl Lookouter {
            /// For a CPU that halts.
            #[must_use]
            #[expect(clippy::new_without_default, reason = "a part of a CPU's data, made in one place")]
            pub $($constant)? fn new() -> Self {
                Self { is_busy: AtomicBool::new(false), looks: AtomicBool::new(false) }
            }
        }
    };
}

#[cfg(not(gmp_loom))]
constructors!(const);
#[cfg(gmp_loom)]
constructors!();

impl Lookouter {
    /// Whether this CPU runs something. Readable by all.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Relaxed)
    }

    /// Whether this CPU looks from time to time.
    #[inline]
    pub fn looks(&self) -> bool {
        self.looks.load(Ordering::Relaxed)
    }

    /// The calling CPU, which is this one, has nothing to run from here on. Its timer is armed for a tick; what that one
    /// says to [`Lookout::goes_on`] decides whether it still looks.
    #[inline]
    pub fn halts(&self) {
        self.is_busy.store(false, Ordering::Relaxed);
    }
}

impl Lookout {
    /// The calling CPU, `me`, runs something from here on. Returns whether it has to call one that halts, which then
    /// [`is_called`](Self::is_called).
    #[inline]
    #[must_use = "nobody looks if nobody is called"]
    pub fn begins(&self, me: &Lookouter) -> bool {
        me.is_busy.store(true, Ordering::Relaxed);
        self.add(me);
        // Ordering: partner is the fence in `goes_on`.
        fence(Ordering::SeqCst);
        self.looking.load(Ordering::Relaxed) <= 1
    }

    /// The timer of the calling CPU, `me`, has fired. Returns whether to arm it for another look.
    pub fn goes_on(&self, me: &Lookouter, is_another_busy: impl Fn() -> bool) -> bool {
        if me.is_busy() || is_another_busy() {
            self.add(me);
            return true;
        }
        if !me.looks.swap(false, Ordering::Relaxed) {
            return false;
        }
        self.looking.fetch_sub(1, Ordering::Relaxed);
        // Ordering: partner is the fence in `begins`.
        fence(Ordering::SeqCst);
        let stays = is_another_busy();
        if stays {
            self.add(me);
        }
        stays
    }

    /// Another CPU has called `me`, the calling one. Returns whether to arm the timer for a look, which it is not yet.
    pub fn is_called(&self, me: &Lookouter, is_another_busy: impl Fn() -> bool) -> bool {
        let joins = !me.looks() && is_another_busy();
        if joins {
            self.add(me);
        }
        joins
    }

    fn add(&self, me: &Lookouter) {
        if !me.looks.swap(true, Ordering::Relaxed) {
            self.looking.fetch_add(1, Ordering::Relaxed);
        }
    }
}
