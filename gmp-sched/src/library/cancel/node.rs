//! The tree of cancellations.
//!
//! A node knows its parent for as long as it lives, and is registered with it until it is dropped or the parent ends, so
//! that nothing is left behind in a parent that lives long. The lock of a node is held for a few steps only; that of
//! timers or of a timer slot may be taken under it, no other node's.

use alloc::sync::{Arc, Weak};
use core::convert::Infallible;
use core::fmt;
use core::mem;

use slab::Slab;

use super::{Cause, ContextError, ContextFunction};
use crate::base::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::base::spin_lock::Lock;
use crate::engine::park::ready_pinned;
use crate::entities::goroutine::{Goroutine, Ticket};
use crate::library::chan::{Receiver, Sender, try_channel};
use crate::library::time::{AfterFunc, Instant, now};
use crate::library::waiter::WaitQueue;
use crate::platform::{OutOfResources, Pinned, Platform};

/// What can be cancelled. Go: `cancelCtx`, `timerCtx`.
#[doc(alias = "cancelCtx")]
pub(crate) struct Node<P: Platform> {
    parent: Option<Arc<Self>>,
    /// The key under which the parent has it, [`NOWHERE`] if it does not.
    key: AtomicUsize,
    /// The earliest deadline of this node and those above.
    deadline: Instant,
    /// What was said about that deadline.
    deadline_cause: Cause,
    /// Whether `State::end` is set. Stays so.
    has_ended: AtomicBool,
    state: Lock<State<P>, P>,
}

struct State<P: Platform> {
    /// Why it ended, if it has.
    end: Option<Cause>,
    /// Gs that wait with this context.
    waiters: WaitQueue<P>,
    children: Slab<Weak<Node<P>>>,
    /// What is to run when it ends.
    functions: Slab<AfterFunc<P>>,
    /// The channel that is closed when it ends, if somebody has asked for it.
    done: Option<(Sender<Infallible, P>, Receiver<Infallible, P>)>,
    /// The next to be cancelled along with a common ancestor.
    next: Option<Arc<Node<P>>>,
}

/// The key of a node that no parent has.
const NOWHERE: usize = usize::MAX;

impl<P: Platform> Node<P> {
    /// A node below `parent`, ended if that has.
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
            key: AtomicUsize::new(NOWHERE),
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
        let _pinned = Pinned::<P>::new();
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

    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether it has been cancelled or its deadline has passed. The one is a load, the other a look at the clock.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        // Ordering: Acquire; partner: the Release in `end`: what the canceller did before is seen.
        self.has_ended.load(Ordering::Acquire) || self.deadline != Instant::NEVER && self.deadline <= now::<P>()
    }

    /// Why it ended, if it has. Once it says so it always says the same.
    pub(crate) fn cause(&self) -> Option<Cause> {
        if !self.is_done() {
            return None;
        }
        let _pinned = Pinned::<P>::new();
        let mut state = self.state.lock();
        if state.end.is_none() {
            // Past the deadline. Those below are as well, and see it themselves.
            state.end = Some(self.deadline_cause.clone());
            self.has_ended.store(true, Ordering::Release);
        }
        state.end.clone()
    }

    /// Ends it and all below it, unless they have; readies the Gs that wait with them, and starts their functions.
    pub(crate) fn cancel(self: &Arc<Self>, cause: &Cause) {
        let mut below = self.end(cause, None);
        while let Some(node) = below {
            let next = {
                let _pinned = Pinned::<P>::new();
                node.state.lock().next.take()
            };
            below = node.end(cause, next);
        }
    }

    /// Ends this node; gives the list `others` with its children in front.
    fn end(&self, cause: &Cause, mut others: Option<Arc<Self>>) -> Option<Arc<Self>> {
        let mut children = {
            let pinned = Pinned::<P>::new();
            let mut state = self.state.lock();
            if state.end.is_some() {
                return others;
            }
            // The deadline came first, if it has passed.
            let is_late = self.deadline <= now::<P>();
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
            let _pinned = Pinned::<P>::new();
            child.state.lock().next = others.take();
            others = Some(child);
        }
        others
    }

    /// Queues `me`, which has left its stack, as one that waits with this node and with `ticket`, and calls `arm` under the
    /// same lock; ends the wait at once if the node has ended.
    pub(crate) fn enqueue(&self, pinned: &Pinned<P>, me: &'static Goroutine<P>, ticket: Ticket, arm: impl FnOnce()) {
        let state = self.state.lock();
        if state.end.is_none() {
            me.context_waiter.prepare(me, ticket, core::ptr::null_mut());
            state.waiters.push_back(&me.context_waiter);
            arm();
            return;
        }
        drop(state);
        if me.claim(ticket) {
            ready_pinned(pinned, me);
        }
    }

    /// The calling G's wait is over.
    pub(crate) fn dequeue(&self, me: &'static Goroutine<P>) {
        let _pinned = Pinned::<P>::new();
        self.state.lock().waiters.remove(&me.context_waiter);
    }

    /// A channel on which nothing is ever sent, and which is closed when this ends.
    pub(super) fn done(self: &Arc<Self>) -> Result<Receiver<Infallible, P>, OutOfResources> {
        if let Some((_, receiver)) = self.with(|state| state.done.clone()) {
            return Ok(receiver);
        }
        let (sender, receiver) = try_channel(0)?;
        if self.deadline != Instant::NEVER {
            let sender = sender.clone();
            // Whoever cancels closes it himself. Dropped, the right to take the function back lets it run.
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
                // It has ended.
                sender.close();
                Ok(receiver)
            }
        }
    }

    fn with<R>(&self, look: impl FnOnce(&mut State<P>) -> R) -> R {
        let _pinned = Pinned::<P>::new();
        look(&mut self.state.lock())
    }

    /// Has `function` started when this ends; gives the key to take it back with. `None` if it has ended.
    pub(super) fn add_function(&self, function: AfterFunc<P>) -> Result<usize, AfterFunc<P>> {
        let _pinned = Pinned::<P>::new();
        let mut state = self.state.lock();
        if state.end.is_some() { Err(function) } else { Ok(state.functions.insert(function)) }
    }

    /// Takes a function back, unless this has ended.
    pub(super) fn take_function(&self, key: usize) -> Option<AfterFunc<P>> {
        let _pinned = Pinned::<P>::new();
        self.state.lock().functions.try_remove(key)
    }

    /// Takes it out of its parent's children.
    fn leave_parent(&self) {
        let key = self.key.load(Ordering::Relaxed);
        if let Some(parent) = self.parent.as_ref().filter(|_| key != NOWHERE) {
            let _pinned = Pinned::<P>::new();
            // A parent that was cancelled has no children any more, and takes none.
            let child = parent.state.lock().children.try_remove(key);
            drop(child);
        }
    }

    /// Children that are registered.
    #[cfg(all(test, feature = "std", not(gmp_loom)))]
    pub(super) fn children(&self) -> usize {
        let _pinned = Pinned::<P>::new();
        self.state.lock().children.len()
    }
}

impl<P: Platform> Drop for Node<P> {
    fn drop(&mut self) {
        self.leave_parent();
        // A long line of ancestors that only this one kept alive goes one by one, not each inside the drop of the next.
        let mut parent = self.parent.take();
        while let Some(mut node) = parent.and_then(Arc::into_inner) {
            node.leave_parent();
            parent = node.parent.take();
        }
    }
}

impl<P: Platform> fmt::Debug for Node<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("deadline", &self.deadline)
            .field("has_ended", &self.has_ended)
            .finish_non_exhaustive()
    }
}
