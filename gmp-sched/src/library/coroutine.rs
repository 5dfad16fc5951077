//! Coroutines: a G that gives one value after the other to whoever asks for the next, by direct switches.
//!
//! ```text
//!   outer:  next ──▶ parks itself, switches to inner          gets the value ◀──┐
//!   inner:            runs ──▶ yield_value: parks itself, switches to outer ────┘
//! ```
//!
//! Neither goes through a queue, and no other G runs in between. Each of the two is parked while the other runs, so only
//! that other one can resume it, and its context has been saved by the switch that brought us here: nothing is to be
//! published on the far side. When the inner G ends it readies the outer one as it would a joiner (see `join`).
//!
//! A G that is [locked to its thread](crate::engine::lock_os_thread) stays there, on either side, and so does one whose values are asked for
//! in another scheduler: then the two hand over through the queues, at the price of a switch from thread to thread. (In Go the inner G takes the outer one's thread over, and ends the
//! program if it has been locked in between.)
//!
//! Go: `coroswitch` (runtime/coro.go), `iter.Pull`.

use alloc::sync::Arc;
use core::fmt;
use core::marker::PhantomData;
use core::ptr;

use crate::base::spin_lock::Lock;
use crate::engine::caller::Caller;
use crate::engine::park::{park_because, ready_pinned};
use crate::engine::switch::{Commit, leave_for, nothing};
use crate::entities::goroutine::{Goroutine, Status, WaitReason};
use crate::lifecycle::exit::exit;
use crate::lifecycle::join::{JoinError, JoinHandle, forget_waiter};
use crate::lifecycle::spawn::{prepare, start_next};
use crate::platform::{OutOfResources, Pinned, Platform};
use crate::synctest::Bubble;

/// What the two sides share. The lock is never contended: one of the two is always parked.
pub(crate) struct Shared<T, P: Platform> {
    exchange: Lock<Exchange<T, P>, P>,
}

struct Exchange<T, P: Platform> {
    /// On its way from the inner G to the outer one.
    value: Option<T>,
    /// The G that waits for a value, while the inner one runs.
    outer: Option<&'static Goroutine<P>>,
    /// No more values are wanted.
    is_stopped: bool,
}

/// The values of a coroutine, one after the other, for whoever asks; see [`pull`] for an example. Go: what `iter.Pull`
/// returns.
///
/// Dropping it ends the coroutine as [`stop`](Self::stop) does.
pub struct Pull<T: Send + 'static, P: Platform> {
    shared: Arc<Shared<T, P>>,
    /// `None` once the coroutine has ended.
    inner: Option<JoinHandle<(), P>>,
}

/// The side of a coroutine that has the values; see [`pull`] for an example.
pub struct Yielder<T: Send + 'static, P: Platform> {
    shared: Arc<Shared<T, P>>,
    // It speaks for the G it was made for.
    _here: PhantomData<*mut ()>,
}

/// Makes a coroutine of `body`, which runs when the first value is asked for, in a G of its own. Go: `iter.Pull`.
///
/// Switching to it and back takes no queue and no other G comes in between, so a walk over a tree, say, can be written as
/// the recursion it is and read as an iterator. Does not block; not callable from interrupts.
///
/// ```
/// use gmp_sched::native;
///
/// unsafe { native::enter() }.run(1, || {
///     let mut squares = native::pull(|yielder| {
///         let mut number = 0;
///         while yielder.yield_value(number * number) {
///             number += 1;
///         }
///     })
///     .unwrap();
///     assert_eq!(squares.next(), Some(0));
///     assert_eq!(squares.by_ref().take(3).collect::<Vec<_>>(), [1, 4, 9]);
///     squares.stop();
/// });
/// ```
///
/// # Errors
///
/// There is no memory for the G's stack; nothing has happened, except that `body` is dropped.
///
/// # Panics
///
/// The caller is not a G with a P.
#[doc(alias = "Pull")]
pub fn pull<P, T, F>(body: F) -> Result<Pull<T, P>, OutOfResources>
where
    P: Platform,
    T: Send + 'static,
    F: FnOnce(&mut Yielder<T, P>) + Send + 'static,
{
    let shared = Arc::new(Shared::new());
    let inner = prepare({
        let shared = shared.clone();
        move || {
            let mut yielder = Yielder { shared, _here: PhantomData };
            if !yielder.is_stopped() {
                body(&mut yielder);
            }
        }
    })?;
    Ok(Pull { shared, inner: Some(inner) })
}

impl<T: Send + 'static, P: Platform> Pull<T, P> {
    /// Ends the coroutine: the call in which it gave its last value returns `false`, and it runs on until it returns by
    /// itself. One that has not begun is dropped. Go: the `stop` of `iter.Pull`.
    ///
    /// If the coroutine [ends itself](crate::lifecycle::exit::exit) meanwhile, that ends the calling G as well, as in Go.
    ///
    /// Blocks the calling G for as long as that takes; not callable from interrupts.
    ///
    /// ```
    /// use gmp_sched::native;
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let mut lines = native::pull(|yielder| {
    ///         while yielder.yield_value("more") {}
    ///         // Here it cleans up.
    ///     })
    ///     .unwrap();
    ///     assert_eq!(lines.next(), Some("more"));
    ///     lines.stop();
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// The coroutine panics meanwhile; the caller is not a G with a P.
    pub fn stop(mut self) {
        pass_on::<P>(self.run_to_end());
    }

    fn run_to_end(&mut self) -> Result<(), JoinError> {
        let Some(inner) = self.inner.take() else { return Ok(()) };
        self.shared.with(|exchange| exchange.is_stopped = true);
        self.shared.resume(&inner);
        inner.join()
    }
}

impl<T: Send + 'static, P: Platform> Iterator for Pull<T, P> {
    type Item = T;

    /// The next value, `None` if the coroutine has returned. If it [ends itself](crate::lifecycle::exit::exit), that ends the calling
    /// G as well, as in Go. Blocks the calling G while the coroutine works on the value; not callable from interrupts.
    ///
    /// # Panics
    ///
    /// The coroutine panicked; the caller is not a G with a P.
    fn next(&mut self) -> Option<T> {
        self.shared.resume(self.inner.as_ref()?);
        let value = self.shared.take_value();
        if value.is_none()
            && let Some(inner) = self.inner.take()
        {
            pass_on::<P>(inner.join());
        }
        value
    }
}

impl<T: Send + 'static, P: Platform> Drop for Pull<T, P> {
    fn drop(&mut self) {
        // How it ended is not passed on: a drop may be part of an unwinding, and is not to begin another.
        let _ = self.run_to_end();
    }
}

/// Ends the calling G as its coroutine ended. Go: `iter.Pull` passes a panic and `runtime.Goexit` on to `next` and `stop`.
fn pass_on<P: Platform>(end: Result<(), JoinError>) {
    match end {
        Ok(()) => {}
        Err(JoinError::Exited) => exit::<P>(),
        Err(JoinError::Panicked | JoinError::StackOverflow) => panic!("the coroutine panicked"),
    }
}

impl<T: Send + 'static, P: Platform> Yielder<T, P> {
    /// Gives a value to whoever asked for one, and waits until the next one is asked for. Tells whether one is: otherwise
    /// the coroutine is to return, and what else it gives is dropped. Go: the `yield` function of an iterator.
    ///
    /// Blocks the calling G; not callable from interrupts.
    ///
    /// ```
    /// use gmp_sched::native::{self, Yielder};
    ///
    /// fn walk(tree: &[Vec<u32>], yielder: &mut Yielder<u32>) -> bool {
    ///     tree.iter().flatten().all(|&leaf| yielder.yield_value(leaf))
    /// }
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let leaves = native::pull(|yielder| drop(walk(&[vec![1, 2], vec![], vec![3]], yielder))).unwrap();
    ///     assert!(leaves.eq([1, 2, 3]));
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// The caller is not the coroutine's G.
    #[must_use = "`false` says that no more values are wanted"]
    pub fn yield_value(&mut self, value: T) -> bool {
        if self.is_stopped() {
            return false;
        }
        // Panics before anything has changed, if the caller may not block.
        let caller = Caller::<P>::new();
        let outer = self.shared.hand_back(caller.me, value);
        switch_to(caller, outer);
        !self.is_stopped()
    }

    fn is_stopped(&self) -> bool {
        self.shared.with(|exchange| exchange.is_stopped)
    }
}

impl<T, P: Platform> Shared<T, P> {
    pub(crate) fn new() -> Self {
        let exchange = Exchange { value: None, outer: None, is_stopped: false };
        Self { exchange: Lock::new(exchange) }
    }

    fn with<R>(&self, look: impl FnOnce(&mut Exchange<T, P>) -> R) -> R {
        let _pinned = Pinned::<P>::new();
        look(&mut self.exchange.lock())
    }

    /// Runs the inner G until it gives a value or ends.
    fn resume(&self, inner: &JoinHandle<(), P>) {
        // Panics before anything has changed, if the caller may not block.
        let caller = Caller::<P>::new();
        self.lend(caller.me, inner);
        switch_to(caller, inner.goroutine());
    }

    /// `me`, the calling G, is about to be left for the inner one, which resumes it with a value or by its end.
    pub(crate) fn lend(&self, me: &'static Goroutine<P>, inner: &JoinHandle<(), P>) {
        self.exchange.lock().outer = Some(me);
        inner.set_waiter(me);
    }

    /// `me`, the inner G, is about to be left for the outer one, which this returns, with a value.
    pub(crate) fn hand_back(&self, me: &'static Goroutine<P>, value: T) -> &'static Goroutine<P> {
        let outer = {
            let mut exchange = self.exchange.lock();
            exchange.value = Some(value);
            exchange.outer.take()
        };
        forget_waiter(me);
        outer.expect("the G that resumes a coroutine has lent itself")
    }

    /// The value that the outer G has been resumed with, `None` if the inner one has ended.
    pub(crate) fn take_value(&self) -> Option<T> {
        self.with(|exchange| exchange.value.take())
    }
}

/// Parks the caller and runs `next`, which is parked in the same coroutine or has not begun. Go: `coroswitch`.
#[doc(alias = "coroswitch")]
fn switch_to<P: Platform>(caller: Caller<P>, next: &'static Goroutine<P>) {
    let is_for_other_machine = next.locked_machine().is_some() || !caller.machine.is_of_scheduler_of(next);
    if is_for_other_machine || caller.machine.locked_goroutine().is_some() {
        return hand_over(caller, next);
    }
    let (processor, me) = (caller.processor, caller.me);
    let bubble = me.bubble();
    let is_new = next.status() == Status::Idle;
    if is_new {
        next.set_bubble(bubble);
        processor.counters.spawned.add(1);
    } else if !is_same(bubble, next.bubble()) || bubble.is_some() && !next.is_waiting_in_bubble() {
        // Whoever is resumed from outside of its bubble counts as usual there.
        return hand_over(caller, next);
    }
    me.set_waiting(WaitReason::Coroutine, processor.watch.unwatched(), processor.clock());
    if let Some(bubble) = bubble {
        // One of the two begins to wait and the other ends: the number of those that do not stays.
        me.set_waiting_in_bubble(WaitReason::CoroutineDurable, true);
        if is_new {
            bubble.entered_for_another();
        }
    }
    next.set_status(Status::Runnable);
    drop(leave_for(caller, next, Commit::new(nothing, 0)));
}

/// Whether both are the same bubble, or both none.
#[inline(always)]
fn is_same<P: Platform>(one: Option<&'static Bubble<P>>, other: Option<&'static Bubble<P>>) -> bool {
    one.map(ptr::from_ref) == other.map(ptr::from_ref)
}

/// [`switch_to`], where one of the two is locked to its M, or they belong to different schedulers or bubbles: `next` is run by
/// its scheduler, once the calling G has been left.
#[cold]
fn hand_over<P: Platform>(caller: Caller<P>, next: &'static Goroutine<P>) {
    let bubble = caller.me.bubble();
    let is_new = next.status() == Status::Idle;
    let is_durable = is_new || is_same(bubble, next.bubble());
    let in_bubble = || if is_durable { WaitReason::CoroutineDurable } else { WaitReason::Coroutine };
    park_because(caller, WaitReason::Coroutine, in_bubble, move |pinned, me| {
        if is_new {
            start_next(pinned, next, me.bubble());
        } else {
            ready_pinned(pinned, next);
        }
        true
    });
}

impl<T: Send + 'static, P: Platform> fmt::Debug for Pull<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pull").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<T: Send + 'static, P: Platform> fmt::Debug for Yielder<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Yielder")
    }
}
