//! The tree of cancellations.
//!
//! A node has a reference to its parent. The node is registered with its parent until the node is dropped or the parent
//! ends, so that a long-lived parent does not accumulate dead children. The lock of a node is held for a few steps
//! only. The locks of timers and of timer slots may be taken under a node's lock, but not the lock of another node.

use alloc::sync::{Arc, Weak};
use core::convert::Infallible;
use core::fmt;
use core::mem;

use slab::Slab;

use super::{Cause, ContextError};
use crate::base::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::base::error::OutOfResources;
use crate::base::instant::Instant;
use crate::base::spin_lock::Lock;
use crate::engine::park::ready_pinned;
use crate::entities::goroutine::{Goroutine, WaitGeneration};
use crate::library::cancel::ContextFunction;
use crate::library::chan::{Receiver, Sender, try_channel};
use crate::library::time::{AfterFunc, now};
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
    state: Lock<State<Plat>, Plat>,
}

struct State<Plat: Platform> {
    /// Why the node has ended, or `None`.
    end: Option<Cause>,
    /// Gs that wait with this context.
    waiters: WaitQueue<Plat>,
    children: Slab<Weak<Node<Plat>>>,
    /// The functions to start when the node ends.
    functions: Slab<AfterFunc<Plat>>,
    /// The channel to close when the node ends, if a channel has been requested.
    done: Option<(Sender<Infallible, Plat>, Receiver<Infallible, Plat>)>,
    /// The next node in the list of nodes that a cancellation in progress still has to end.
    next: Option<Arc<Node<Plat>>>,
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
            state: Lock::new(State {
                end: None,
                waiters: WaitQueue::new(),
                children: Slab::new(),
                functions: Slab::new(),
                done: None,
                next: None,
            }),
        });
        if let Some(parent) = parent {
            parent.adopt(&node);
        }
        node
    }

    fn adopt(&self, child: &Arc<Self>) {
        let _pinned = Pinned::<Plat>::new();
        let end = {
            let mut state = self.state.lock();
            if state.end.is_none() {
                child.key.store(state.children.insert(Arc::downgrade(child)), Ordering::Relaxed);
            }
            state.end.clone()
        };
        if end.is_some() {
            child.state.lock().end = end;
            child.has_ended.store(true, Ordering::Release);
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

    /// Why the node has ended, or `None`. Never changes once it is `Some`.
    pub(crate) fn cause(&self) -> Option<Cause> {
        if !self.is_done() {
            return None;
        }
        let _pinned = Pinned::<Plat>::new();
        let mut state = self.state.lock();
        if state.end.is_none() {
            // The deadline has passed. Descendants need not be ended here, because each of them compares the deadline
            // with the clock.
            state.end = Some(self.deadline_cause.clone());
            self.has_ended.store(true, Ordering::Release);
        }
        state.end.clone()
    }

    /// Ends this node and those of its descendants that have not ended. Readies the Gs that wait with them, and starts
    /// their functions.
    pub(crate) fn cancel(self: &Arc<Self>, cause: &Cause) {
        let mut below = self.end(cause, None);
        while let Some(node) = below {
            let next = {
                let _pinned = Pinned::<Plat>::new();
                node.state.lock().next.take()
            };
            below = node.end(cause, next);
        }
    }

    /// Ends this node, prepends its children to the list `others`, and returns that list. If this node has ended
    /// before, returns `others` unchanged.
    fn end(&self, cause: &Cause, mut others: Option<Arc<Self>>) -> Option<Arc<Self>> {
        let mut children = {
            let pinned = Pinned::<Plat>::new();
            let mut state = self.state.lock();
            if state.end.is_some() {
                return others;
            }
            // If the deadline has passed, it came before this cancellation, so the deadline is the cause.
            let is_late = self.deadline <= now::<Plat>();
            state.end = Some(if is_late { self.deadline_cause.clone() } else { cause.clone() });
            self.has_ended.store(true, Ordering::Release);
            let woken = state.waiters.take_all();
            let functions = mem::take(&mut state.functions);
            let done = state.done.as_ref().map(|(sender, _)| sender.clone());
            let children = mem::take(&mut state.children);
            drop(state);
            woken.ready_all(&pinned);
            drop(pinned);
            if let Some(done) = done {
                done.close_from_anywhere();
            }
            for (_, function) in functions {
                function.start_now();
            }
            children
        };
        for child in children.drain().filter_map(|child| child.upgrade()) {
            let _pinned = Pinned::<Plat>::new();
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
        let _pinned = Pinned::<Plat>::new();
        self.state.lock().waiters.remove(&me.context_waiter);
    }

    /// Returns a channel on which nothing is sent and which is closed when this node ends.
    #[track_caller]
    pub(crate) fn done(self: &Arc<Self>) -> Result<Receiver<Infallible, Plat>, OutOfResources> {
        if let Some((_, receiver)) = self.with(|state| state.done.clone()) {
            return Ok(receiver);
        }
        let (sender, receiver) = try_channel(0)?;
        if self.deadline != Instant::NEVER {
            let sender = sender.clone();
            // At the deadline, a `ContextFunction` closes the channel. Dropping the function's handle does not stop
            // the function. A cancellation closes the channel directly.
            let close = move || {
                sender.close();
            };
            drop(ContextFunction::new(Some(self), close)?);
        }
        let is_first = self.with(|state| {
            let is_first = state.end.is_none() && state.done.is_none();
            if is_first {
                state.done = Some((sender.clone(), receiver.clone()));
            }
            is_first
        });
        if is_first {
            return Ok(receiver);
        }
        match self.with(|state| state.done.clone()) {
            Some((_, receiver)) => Ok(receiver),
            None => {
                // The node has ended meanwhile, so the channel is closed at once.
                sender.close();
                Ok(receiver)
            }
        }
    }

    fn with<R>(&self, access: impl FnOnce(&mut State<Plat>) -> R) -> R {
        let _pinned = Pinned::<Plat>::new();
        access(&mut self.state.lock())
    }

    /// Registers a function to start when this node ends, and returns its key. If the node has ended, the error is the
    /// function, which was not registered.
    pub(crate) fn add_function(&self, function: AfterFunc<Plat>) -> Result<usize, AfterFunc<Plat>> {
        let _pinned = Pinned::<Plat>::new();
        let mut state = self.state.lock();
        if state.end.is_some() { Err(function) } else { Ok(state.functions.insert(function)) }
    }

    /// Unregisters a function and returns it. Returns `None` if a cancellation of this node has taken it.
    pub(crate) fn take_function(&self, key: usize) -> Option<AfterFunc<Plat>> {
        let _pinned = Pinned::<Plat>::new();
        self.state.lock().functions.try_remove(key)
    }

    /// Unregisters this node from its parent.
    fn leave_parent(&self) {
        let key = self.key.load(Ordering::Relaxed);
        if let Some(parent) = self.parent.as_ref().filter(|_| key != UNREGISTERED) {
            let _pinned = Pinned::<Plat>::new();
            // If the parent has been cancelled, it has no children any more, and nothing is removed.
            let child = parent.state.lock().children.try_remove(key);
            drop(child);
        }
    }

    /// Number of registered children.
    #[cfg(all(test, feature = "std"))]
    pub(crate) fn children(&self) -> usize {
        let _pinned = Pinned::<Plat>::new();
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
