//! The number of children of a scope, and the wait for the last of them.
//!
//! Children borrow from their parent's frames. So the parent must not leave a scope while a child is alive, even if the
//! parent panics or cannot block. [`Children::open`] first checks that the caller may block, and panics if not; at that
//! point there is no child yet. At the end of the scope, [`Children::open`] waits for the children even if the body of
//! the scope unwinds, or if the G is abandoned in the body. If this wait fails, the program ends.

use core::fmt;
use core::mem;

use crate::base::atomic::{AtomicBool, Ordering};
use crate::base::spin_lock::Lock;
use crate::engine::hooks::before_wait;
use crate::engine::park::park_with;
use crate::engine::ready::ready_pinned;
use crate::entities::current::CurrentGoroutine;
use crate::entities::goroutine::{Goroutine, WaitLocation, WaitReason};
use crate::entities::scheduler::Scheduler;
use crate::lifecycle::deferred::{self, Deferred};
use crate::platform::{Pinned, Platform};

/// The children of one scope. This value is in a frame of the parent, which the parent leaves only after it has seen,
/// under the lock, that no child is alive. So the last access of a child to this value is the release of the lock.
pub(crate) struct Children<Plat: Platform> {
    state: Lock<State<Plat>, Plat>,
    have_panicked: AtomicBool,
}

struct State<Plat: Platform> {
    alive: usize,
    /// The parent, while it is parked.
    waiting: Option<&'static Goroutine<Plat>>,
}

impl<Plat: Platform> Children<Plat> {
    pub(crate) fn new() -> Self {
        Self { state: Lock::new(State { alive: 0, waiting: None }), have_panicked: AtomicBool::new(false) }
    }

    /// Opens a scope of the calling G, calls `body`, and then waits for all children that were added to `self`.
    ///
    /// # Panics
    ///
    /// The caller may not block, because it is not a G with a P, or is pinned. In this case `body` is not called.
    #[track_caller]
    pub(crate) fn open<R>(&self, body: impl FnOnce() -> R) -> R {
        before_wait::<Plat>();
        let me = CurrentGoroutine::<Plat>::new().me;
        let location = WaitLocation::here();
        deferred::with(me, self, || {
            let _open = Open(self, location);
            body()
        })
    }

    /// Counts a child that is about to start. The caller is the parent or a child that is alive. From this call until
    /// the child has begun to run, no step may fail, because only the end of the child lowers the count.
    pub(crate) fn add(&self, _: &Pinned<Plat>) {
        self.state.lock().alive += 1;
    }

    /// Removes a child that has ended and no longer uses anything that it borrowed. `has_panicked` says whether the
    /// child has panicked and no join handle reports that panic.
    pub(crate) fn remove(&self, pinned: &Pinned<Plat>, has_panicked: bool) {
        if has_panicked {
            // The panic is recorded first. Once the child is removed, the parent may leave the frame that contains
            // `self`.
            self.panicked();
        }
        let parent = {
            let mut state = self.state.lock();
            state.alive -= 1;
            if state.alive == 0 { state.waiting.take() } else { None }
        };
        if let Some(parent) = parent {
            ready_pinned(pinned, parent);
        }
    }

    /// Waits until all children have ended. Ends the program if the calling G cannot wait. During the wait, reports
    /// show `location`.
    fn wait(&self, location: WaitLocation) {
        let must_wait = EndProgramOnUnwind(Pinned::<Plat>::of_scheduler().machine().scheduler());
        loop {
            let caller = CurrentGoroutine::<Plat>::new();
            let Some(state) = self.prepare_wait(caller.me) else { break };
            drop(park_with(caller, WaitReason::Scope, move |_, me| {
                me.set_wait_location(location);
                drop(state);
                true
            }));
        }
        mem::forget(must_wait);
    }

    /// Returns `None` if all children have ended. Otherwise `me`, the parent, must park and drop the returned guard on
    /// the far side. Then the last child to end readies the parent.
    pub(crate) fn prepare_wait(&self, me: &'static Goroutine<Plat>) -> Option<impl Sized> {
        let mut state = self.state.lock();
        if state.alive == 0 {
            return None;
        }
        state.waiting = Some(me);
        Some(state)
    }

    /// Records that a child has panicked and that no join handle reports this panic.
    pub(crate) fn panicked(&self) {
        self.have_panicked.store(true, Ordering::Relaxed);
    }

    /// Whether a child panicked without a join handle to report it. Called when all children have ended.
    pub(crate) fn have_panicked(&self) -> bool {
        // Ordering: Relaxed, because the lock under which the last child was removed makes the store visible.
        self.have_panicked.load(Ordering::Relaxed)
    }
}

/// An open scope, and the line that has opened it. When dropped, waits for the children.
struct Open<'a, Plat: Platform>(&'a Children<Plat>, WaitLocation);

impl<Plat: Platform> Drop for Open<'_, Plat> {
    fn drop(&mut self) {
        self.0.wait(self.1);
    }
}

/// If a G is [abandoned](crate::exit::abandon), its frames are not unwound, so `Open` is not dropped. The G waits for
/// its children here instead.
impl<Plat: Platform> Deferred for Children<Plat> {
    fn run(&self) {
        self.wait(WaitLocation::here());
    }
}

/// A guard that is dropped if a wait panics. Unwinding would free frames that running children borrow, so the guard
/// ends the program.
struct EndProgramOnUnwind<Plat: Platform>(&'static Scheduler<Plat>);

impl<Plat: Platform> Drop for EndProgramOnUnwind<Plat> {
    fn drop(&mut self) {
        Plat::fatal(self.0, format_args!("a G cannot wait for the children of its scope"));
    }
}

impl<Plat: Platform> fmt::Debug for Children<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Children").field("have_panicked", &self.have_panicked).finish_non_exhaustive()
    }
}
