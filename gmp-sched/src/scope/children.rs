//! How many children a scope has, and who waits for the last of them.

use core::fmt;

use crate::goroutine::{Goroutine, WaitReason};
use crate::lock::Lock;
use crate::park::{park_pinned, ready_pinned};
use crate::platform::{Pinned, Platform};
use crate::primitives::{AtomicBool, AtomicUsize, Ordering};

/// The children of one scope. It lies in the parent's frame, and the parent leaves that only after it has seen, under the
/// lock, that there are none any more: so the last thing a child does to it is to unlock.
pub(crate) struct Children<P: Platform> {
    state: Lock<State<P>, P>,
    have_panicked: AtomicBool,
    /// The address of the children of the scope around this one, 0 if there is none; see [`Goroutine::open_scope`].
    outer: AtomicUsize,
}

struct State<P: Platform> {
    alive: usize,
    /// The parent, while it is parked.
    waiting: Option<&'static Goroutine<P>>,
}

impl<P: Platform> Children<P> {
    pub(super) fn new() -> Self {
        Self {
            state: Lock::new(State { alive: 0, waiting: None }),
            have_panicked: AtomicBool::new(false),
            outer: AtomicUsize::new(0),
        }
    }

    /// The calling G has opened their scope. It is not moved before [`close`](Self::close).
    pub(super) fn open(&self) {
        let pinned = Pinned::<P>::new();
        let open_scope = &pinned.goroutine().open_scope;
        self.outer.store(open_scope.load(Ordering::Relaxed), Ordering::Relaxed);
        open_scope.store(core::ptr::from_ref(self).expose_provenance(), Ordering::Relaxed);
    }

    /// All have ended, and the calling G leaves their scope.
    pub(super) fn close(&self) {
        let pinned = Pinned::<P>::new();
        pinned.goroutine().open_scope.store(self.outer.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// One is about to be spawned, by the parent or by one that is alive.
    pub(super) fn add(&self) {
        let _pinned = Pinned::<P>::new();
        self.state.lock().alive += 1;
    }

    /// The one last added was not spawned.
    pub(super) fn add_failed(&self) {
        self.remove(&Pinned::new());
    }

    /// A child has ended: nothing it borrowed is used any more.
    pub(crate) fn remove(&self, pinned: &Pinned<P>) {
        let parent = {
            let mut state = self.state.lock();
            state.alive -= 1;
            if state.alive == 0 { state.waiting.take() } else { None }
        };
        if let Some(parent) = parent {
            ready_pinned(pinned, parent);
        }
    }

    /// Waits until all have ended.
    pub(super) fn wait(&self) {
        loop {
            let pinned = Pinned::<P>::new();
            let mut state = self.state.lock();
            if state.alive == 0 {
                return;
            }
            state.waiting = Some(pinned.goroutine());
            park_pinned(pinned, WaitReason::Scope, |_, _| {
                drop(state);
                true
            });
        }
    }

    /// A child panicked, and nobody is told otherwise.
    pub(crate) fn panicked(&self) {
        self.have_panicked.store(true, Ordering::Relaxed);
    }

    /// Whether a child panicked without anybody being told. The children have ended.
    pub(super) fn have_panicked(&self) -> bool {
        // Ordering: the lock under which the last child was taken off the count orders it.
        self.have_panicked.load(Ordering::Relaxed)
    }
}

/// Waits until all children of all scopes that the calling G has open have ended, the innermost first: it does not come back
/// to leave them.
pub(crate) fn wait_for_all<P: Platform>() {
    loop {
        let open_scope = Pinned::<P>::new().goroutine().open_scope.load(Ordering::Relaxed);
        let children = core::ptr::with_exposed_provenance::<Children<P>>(open_scope);
        #[expect(unsafe_code, reason = "turns an address back into the reference it was made from")]
        // SAFETY: 0, or stored by `open` from a reference into a frame of the calling G, which has not left it: `close` would
        // have taken it out.
        let Some(children) = (unsafe { children.as_ref() }) else { return };
        children.wait();
        children.close();
    }
}

impl<P: Platform> fmt::Debug for Children<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Children").field("have_panicked", &self.have_panicked).finish_non_exhaustive()
    }
}
