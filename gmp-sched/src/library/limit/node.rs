//! The tree of cancellations. Its nodes are the contexts that can be cancelled or have a deadline.
//!
//! A node has a reference to its parent. The node is registered with its parent until the node is dropped or the parent
//! is cancelled, so that a long-lived parent does not accumulate dead children. Under the lock of a node, no hook is
//! called, and no memory is allocated or freed. The locks of timers and of timer slots may be taken under a node's lock,
//! but not the lock of another node.
//!
//! A node ends when it is cancelled or when its deadline passes. A cancellation ends the descendants of the node, too,
//! readies the waiting Gs and calls the hooks. At a deadline nothing does so. Instead, each descendant compares the
//! deadline with the clock, and each waiting G and each user of a hook has a timer for the deadline.

use alloc::sync::{Arc, Weak};
use core::fmt;
use core::mem;

use spin::Once;

use super::hook::Hook;
use super::registry::{Registry, Room};
use super::{Cause, ContextError};
use crate::base::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::base::error::OutOfResources;
use crate::base::instant::Instant;
use crate::base::spin_lock::Lock;
use crate::engine::ready::ready_pinned;
use crate::entities::goroutine::{Goroutine, WaitGeneration};
use crate::library::sleep::now;
use crate::library::waiter::WaitQueue;
use crate::platform::{Pinned, Platform};

/// A node of the tree. Go: `cancelCtx`, `timerCtx`.
#[doc(alias = "cancelCtx")]
pub(crate) struct Node<Plat: Platform> {
    parent: Option<Arc<Self>>,
    /// The key of this node among its parent's children, or [`UNREGISTERED`].
    key: AtomicUsize,
    /// The earliest deadline of this node and its ancestors.
    deadline: Instant,
    /// The cause to report after the deadline.
    deadline_cause: Cause,
    /// Whether `State::end` is set. Never reset.
    has_ended: AtomicBool,
    /// A hook that all users of the node share, if one of them has set it. Set under the lock of `state`, and only
    /// while `State::end` is `None`. So the caller that cancels the node sees the hook without the lock. Called before
    /// the other hooks.
    shared_hook: Once<Hook>,
    state: Lock<State<Plat>, Plat>,
}

struct State<Plat: Platform> {
    /// Why the node has ended, or `None`.
    end: Option<Cause>,
    /// Gs that wait with this context.
    waiters: WaitQueue<Plat>,
    children: Registry<Weak<Node<Plat>>>,
    /// What is called when the node is cancelled.
    hooks: Registry<Hook>,
    /// The next node in the list of nodes that a cancellation in progress still has to end.
    next: Option<Arc<Node<Plat>>>,
}

/// Why a node has not accepted a child or a hook.
pub(crate) enum NotAdded {
    /// The node has ended, for this cause.
    Ended(Cause),
    /// There is no memory.
    NoMemory,
}

impl From<OutOfResources> for NotAdded {
    fn from(OutOfResources: OutOfResources) -> Self {
        Self::NoMemory
    }
}

/// The key of a node that is not registered with a parent.
const UNREGISTERED: usize = usize::MAX;

impl<Plat: Platform> Node<Plat> {
    /// Makes a child of `parent`. If the parent has ended, the child has ended from the beginning.
    pub(crate) fn new(parent: Option<&Arc<Self>>, deadline: Option<(Instant, Cause)>) -> Arc<Self> {
        let inherited = parent.map_or((Instant::NEVER, Cause::of(ContextError::DeadlineExceeded)), |parent| {
            (parent.deadline, parent.deadline_cause.clone())
        });
        let (deadline, deadline_cause) = match deadline {
            Some(own) if own.0 < inherited.0 => own,
            _ => inherited,
        };
        let node = Arc::new(Self {
            parent: parent.cloned(),
            key: AtomicUsize::new(UNREGISTERED),
            deadline,
            deadline_cause,
            has_ended: AtomicBool::new(false),
            shared_hook: Once::new(),
            state: Lock::new(State {
                end: None,
                waiters: WaitQueue::new(),
                children: Registry::new(),
                hooks: Registry::new(),
                next: None,
            }),
        });
        if let Some(parent) = parent {
            parent.adopt(&node);
        }
        node
    }

    fn adopt(&self, child: &Arc<Self>) {
        match self.register(Arc::downgrade(child), |state| &mut state.children) {
            Ok(key) => child.key.store(key, Ordering::Relaxed),
            Err(NotAdded::Ended(cause)) => {
                let _pinned = Pinned::<Plat>::of_scheduler();
                child.state.lock().end = Some(cause);
                child.has_ended.store(true, Ordering::Release);
            }
            Err(NotAdded::NoMemory) => panic!("cannot derive a context: {OutOfResources}"),
        }
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether the node was cancelled or its deadline has passed. Takes one load, and a clock read if there is a
    /// deadline.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        // Ordering: Acquire; partner: the Release in `end`. The caller sees what the canceller did before the
        // cancellation.
        self.has_ended.load(Ordering::Acquire) || self.deadline != Instant::NEVER && self.deadline <= now::<Plat>()
    }

    /// Returns why the node has ended, or `None` if it has not. The result never changes once it is `Some`.
    pub(crate) fn cause(&self) -> Option<Cause> {
        if !self.is_done() {
            return None;
        }
        let _pinned = Pinned::<Plat>::of_scheduler();
        let mut state = self.state.lock();
        if state.end.is_none() {
            // The deadline has passed. Descendants need not be ended here, because each of them compares the deadline
            // with the clock.
            state.end = Some(self.deadline_cause.clone());
            self.has_ended.store(true, Ordering::Release);
        }
        state.end.clone()
    }

    /// Ends this node and those of its descendants that have not ended. Readies the Gs whose waits these nodes limit,
    /// and calls the hooks of these nodes. Does nothing if this node has ended before.
    pub(crate) fn cancel(self: &Arc<Self>, cause: &Cause) {
        let mut below = self.end(cause, None);
        while let Some(node) = below {
            let next = {
                let _pinned = Pinned::<Plat>::of_scheduler();
                node.state.lock().next.take()
            };
            below = node.end(cause, next);
        }
    }

    /// Ends this node, prepends its children to the list `others`, and returns that list. If this node has ended
    /// before, returns `others` unchanged.
    fn end(&self, cause: &Cause, mut others: Option<Arc<Self>>) -> Option<Arc<Self>> {
        let children = {
            let pinned = Pinned::<Plat>::of_scheduler();
            let mut state = self.state.lock();
            if state.end.is_some() {
                return others;
            }
            // If the deadline has passed, it came before this cancellation, so the deadline is the cause.
            let is_late = self.deadline <= now::<Plat>();
            state.end = Some(if is_late { self.deadline_cause.clone() } else { cause.clone() });
            self.has_ended.store(true, Ordering::Release);
            let woken = state.waiters.take_all();
            let hooks = mem::replace(&mut state.hooks, Registry::new());
            let children = mem::replace(&mut state.children, Registry::new());
            drop(state);
            woken.ready_all(&pinned);
            drop(pinned);
            self.shared_hook().into_iter().for_each(Hook::call);
            hooks.into_values().for_each(|hook| hook.call());
            children
        };
        for child in children.into_values().filter_map(|child| child.upgrade()) {
            let _pinned = Pinned::<Plat>::of_scheduler();
            child.state.lock().next = others.take();
            others = Some(child);
        }
        others
    }

    /// Called on the far side of a wait of `me`. Under the node's lock, queues `me` as a waiter with the wait
    /// generation `generation`, and calls `arm`. If the node has ended, ends the wait instead.
    pub(crate) fn enqueue(
        &self,
        pinned: &Pinned<Plat>,
        me: &'static Goroutine<Plat>,
        generation: WaitGeneration,
        arm: impl FnOnce(),
    ) {
        let state = self.state.lock();
        if state.end.is_none() {
            me.context_waiter.prepare(me, generation, core::ptr::null_mut());
            state.waiters.push_back(&me.context_waiter);
            arm();
            return;
        }
        drop(state);
        if me.claim(generation) {
            ready_pinned(pinned, me);
        }
    }

    /// Removes the calling G, `me`, from this node's queue after the wait of the G.
    pub(crate) fn dequeue(&self, me: &'static Goroutine<Plat>) {
        let _pinned = Pinned::<Plat>::of_scheduler();
        self.state.lock().waiters.remove(&me.context_waiter);
    }

    /// Registers `hook`, which is called when this node is cancelled, and returns the key of the hook. Does not
    /// register the hook if the node has ended or if there is no memory.
    pub(crate) fn add_hook(&self, hook: Hook) -> Result<usize, NotAdded> {
        self.register(hook, |state| &mut state.hooks)
    }

    /// Unregisters a hook and returns it. Returns `None` if the cancellation of this node has taken the hook.
    pub(crate) fn remove_hook(&self, key: usize) -> Option<Hook> {
        let _pinned = Pinned::<Plat>::of_scheduler();
        self.state.lock().hooks.remove(key)
    }

    /// Returns the node's shared hook, if there is one.
    pub(crate) fn shared_hook(&self) -> Option<&Hook> {
        self.shared_hook.get()
    }

    /// Makes `hook` the shared hook, which is called when this node is cancelled. If the node has a shared hook or has
    /// ended, the error is `hook`.
    pub(crate) fn set_shared_hook(&self, hook: Hook) -> Result<(), Hook> {
        let _pinned = Pinned::<Plat>::of_scheduler();
        let state = self.state.lock();
        if state.end.is_some() || self.shared_hook.is_completed() {
            return Err(hook);
        }
        self.shared_hook.call_once(|| hook);
        Ok(())
    }

    /// Inserts `value` into the table that `table` selects. A larger table is allocated without the lock, so that a
    /// failed allocation leaves the node usable.
    fn register<T>(
        &self,
        mut value: T,
        table: impl Fn(&mut State<Plat>) -> &mut Registry<T>,
    ) -> Result<usize, NotAdded> {
        let mut room = Room::none();
        loop {
            let larger = {
                let _pinned = Pinned::<Plat>::of_scheduler();
                let mut state = self.state.lock();
                if let Some(cause) = &state.end {
                    return Err(NotAdded::Ended(cause.clone()));
                }
                let table = table(&mut state);
                table.move_into(&mut room);
                match table.insert(value) {
                    Ok(key) => return Ok(key),
                    Err(back) => value = back,
                }
                table.larger()
            };
            // While the lock is free, other callers may fill the table or enlarge it themselves. So after the
            // allocation the loop checks everything again.
            room = Room::of(larger)?;
        }
    }

    /// Unregisters this node from its parent.
    fn leave_parent(&self) {
        let key = self.key.load(Ordering::Relaxed);
        if let Some(parent) = self.parent.as_ref().filter(|_| key != UNREGISTERED) {
            let _pinned = Pinned::<Plat>::of_scheduler();
            // If the parent has been cancelled, it has no children any more, and nothing is removed.
            let child = parent.state.lock().children.remove(key);
            drop(child);
        }
    }

    #[cfg(all(test, feature = "std"))]
    pub(crate) fn children(&self) -> usize {
        let _pinned = Pinned::<Plat>::of_scheduler();
        self.state.lock().children.len()
    }
}

impl<Plat: Platform> Drop for Node<Plat> {
    fn drop(&mut self) {
        self.leave_parent();
        // This is a loop and not a recursion, because this node may be the only owner of a chain of ancestors of any
        // length.
        let mut parent = self.parent.take();
        while let Some(mut node) = parent.and_then(Arc::into_inner) {
            node.leave_parent();
            parent = node.parent.take();
        }
    }
}

impl<Plat: Platform> fmt::Debug for Node<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("deadline", &self.deadline)
            .field("has_ended", &self.has_ended)
            .finish_non_exhaustive()
    }
}
