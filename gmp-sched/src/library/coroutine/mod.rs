//! Coroutines. A coroutine is a G that yields values one by one to the G that asks for them. The two Gs switch to each
//! other directly.
//!
//! ```text
//!   outer:  next ──▶ parks itself, switches to inner          gets the value ◀──┐
//!   inner:            runs ──▶ yield_value: parks itself, switches to outer ────┘
//! ```
//!
//! Neither G goes through a queue, and no other G is picked in between. Each G is parked while the other one runs, and
//! only the other one can resume it. Before the other G runs, the switch has saved the context of the G that parks. So
//! no commit is needed to publish the parked G. When the inner G ends, it readies the outer G, as every G that ends
//! readies the G that joins it (see `join`).
//!
//! On platforms without [timer interrupts](Platform::TIMER_INTERRUPTS), other Gs run in between if the slice that the
//! two Gs share is over, if a timer or the check of the global queue is due, or if the world is to stop. The two Gs
//! then switch through the run queues.
//!
//! A G that is [locked to its thread](crate::lock_os_thread) stays on that thread, both as the inner and as the outer
//! side of a coroutine. If one side is locked, or if the two sides belong to different schedulers or bubbles, they
//! switch to each other through the run queues. With a locked side or two schedulers this costs a thread switch. (In Go
//! the inner G takes over the thread of the outer G. The program ends if the thread locking has changed since the
//! coroutine was made.)
//!
//! Go: `coroswitch` (runtime/coro.go), `iter.Pull`.

mod switch;

use alloc::sync::Arc;
use core::fmt;
use core::marker::PhantomData;

#[cfg(gmp_loom)]
pub(crate) use switch::hand_over;
use switch::switch_to;

use crate::base::error::{JoinError, OutOfResources};
use crate::base::spin_lock::Lock;
use crate::engine::hooks::Window;
use crate::engine::ready::ready_pinned;
use crate::entities::current::CurrentGoroutine;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::status::Status;
use crate::entities::window::At;
use crate::lifecycle::closure::__rust_begin_short_backtrace;
use crate::lifecycle::exit::goexit;
use crate::lifecycle::join::{JoinHandle, forget_waiter};
use crate::lifecycle::new_goroutine::{prepare, start_next};
use crate::platform::{Pinned, Platform};

/// The state that the two sides share. The lock is never contended, because one of the two sides is always parked.
pub(crate) struct Shared<T, Plat: Platform> {
    exchange: Lock<Exchange<T, Plat>, Plat>,
}

struct Exchange<T, Plat: Platform> {
    /// The value that is passed from the inner G to the outer one.
    value: Option<T>,
    /// The G that waits for a value while the inner G runs.
    outer: Option<&'static Goroutine<Plat>>,
    /// Whether the outer side has stopped the coroutine, so that no more values are wanted.
    is_stopped: bool,
}

/// The outer side of a coroutine: an iterator over the values that the coroutine yields. See [`pull`] for an example.
/// Go: what `iter.Pull` returns.
///
/// Dropping this iterator ends the coroutine as [`stop`](Self::stop) does, but ignores a panic or exit of the
/// coroutine. If the caller may not block, for example in a system call, the drop returns at once, and the coroutine
/// runs to its end as a detached G.
pub struct Pull<T: Send + 'static, Plat: Platform> {
    shared: Arc<Shared<T, Plat>>,
    /// `None` after the coroutine has ended.
    inner: Option<JoinHandle<(), Plat>>,
}

/// The inner side of a coroutine, which yields values. See [`pull`] for an example.
pub struct Yielder<T: Send + 'static, Plat: Platform> {
    shared: Arc<Shared<T, Plat>>,
    // This field makes the type neither `Send` nor `Sync`, because a yielder belongs to the G of its coroutine.
    _here: PhantomData<*mut ()>,
}

/// Makes a coroutine of `body`, which begins to run, in a G of its own, when the first value is asked for. Go:
/// `iter.Pull`.
///
/// Switching to the coroutine and back uses no queue, and no other G is picked in between. (The [module](self) names
/// the exceptions.) So it is cheap, for example, to write a tree walk as a recursive function and to use it as an
/// iterator. Does not block; not callable from interrupts.
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
///     });
///     assert_eq!(squares.next(), Some(0));
///     assert_eq!(squares.by_ref().take(3).collect::<Vec<_>>(), [1, 4, 9]);
///     squares.stop();
/// });
/// ```
///
/// # Panics
///
/// In the cases in which [`try_pull`] panics or returns an error.
#[doc(alias = "Pull")]
#[track_caller]
pub fn pull<Plat, T, F>(body: F) -> Pull<T, Plat>
where
    Plat: Platform,
    T: Send + 'static,
    F: FnOnce(&mut Yielder<T, Plat>) + Send + 'static,
{
    match try_pull(body) {
        Ok(pull) => pull,
        Err(error) => panic!("cannot make a coroutine: {error}"),
    }
}

/// Like [`pull`], but returns an error if there is no memory for the G or its stack. If there is none for the small
/// heap cell that the coroutine shares with its caller, the program ends, as with the types of `alloc`.
///
/// # Errors
///
/// There is no memory for the G or its stack; `body` is dropped, and nothing else has happened.
///
/// # Panics
///
/// The caller is not a G with a P.
#[track_caller]
pub fn try_pull<Plat, T, F>(body: F) -> Result<Pull<T, Plat>, OutOfResources>
where
    Plat: Platform,
    T: Send + 'static,
    F: FnOnce(&mut Yielder<T, Plat>) + Send + 'static,
{
    let shared = Arc::new(Shared::new());
    let inner = prepare::<Plat, F, _, _>({
        let shared = shared.clone();
        move || {
            let mut yielder = Yielder { shared, _here: PhantomData };
            if !yielder.is_stopped() {
                __rust_begin_short_backtrace(|| body(&mut yielder));
            }
        }
    })?;
    Ok(Pull { shared, inner: Some(inner) })
}

impl<T: Send + 'static, Plat: Platform> Pull<T, Plat> {
    /// Stops the coroutine. Its pending [`yield_value`](Yielder::yield_value) returns `false`, and the coroutine runs
    /// until it returns. If it has not begun, `body` is dropped. Go: the `stop` of `iter.Pull`.
    ///
    /// If the coroutine [exits](crate::exit::goexit) meanwhile, the calling G exits, too, as in Go.
    ///
    /// Blocks the calling G until the coroutine has ended; not callable from interrupts.
    ///
    /// ```
    /// use gmp_sched::native;
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let mut lines = native::pull(|yielder| {
    ///         while yielder.yield_value("more") {}
    ///         // The coroutine cleans up here.
    ///     });
    ///     assert_eq!(lines.next(), Some("more"));
    ///     lines.stop();
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// The coroutine panics meanwhile, or the caller is pinned or is not a G with a P.
    #[track_caller]
    pub fn stop(mut self) {
        pass_on::<Plat>(self.run_to_end());
    }

    #[track_caller]
    fn run_to_end(&mut self) -> Result<(), JoinError> {
        // `new` panics if the caller may not block. At this point nothing has changed yet. The panic drops this `Pull`,
        // and that drop ends the coroutine.
        drop(CurrentGoroutine::<Plat>::new());
        let Some(inner) = self.inner.take() else { return Ok(()) };
        self.shared.with(|exchange| exchange.is_stopped = true);
        self.shared.resume(&inner);
        inner.join()
    }

    /// Lets the coroutine run to its end as a detached G.
    #[cold]
    fn release(&mut self) {
        let Some(inner) = self.inner.take() else { return };
        self.shared.with(|exchange| exchange.is_stopped = true);
        let (pinned, goroutine) = (Pinned::<Plat>::of_scheduler(), inner.goroutine());
        if goroutine.status() == Status::Idle {
            start_next(&pinned, goroutine, pinned.try_machine().and_then(Machine::current_goroutine));
        } else {
            ready_pinned(&pinned, goroutine);
        }
    }
}

impl<T: Send + 'static, Plat: Platform> Iterator for Pull<T, Plat> {
    type Item = T;

    /// Returns the next value, or `None` if the coroutine has returned. If the coroutine [exits](crate::exit::goexit),
    /// the calling G exits, too, as in Go. Blocks the calling G until there is a value; not callable from interrupts.
    ///
    /// # Panics
    ///
    /// The coroutine panicked, or the caller is pinned or is not a G with a P.
    #[track_caller]
    fn next(&mut self) -> Option<T> {
        self.shared.resume(self.inner.as_ref()?);
        let value = self.shared.take_value();
        if value.is_none()
            && let Some(inner) = self.inner.take()
        {
            pass_on::<Plat>(inner.join());
        }
        value
    }
}

impl<T: Send + 'static, Plat: Platform> Drop for Pull<T, Plat> {
    fn drop(&mut self) {
        if self.inner.is_none() {
            return;
        }
        if CurrentGoroutine::<Plat>::if_may_block().is_some() {
            // The coroutine's panic or exit is not propagated, because this drop may be part of an unwinding, and must
            // not start another one.
            let _ = self.run_to_end();
        } else {
            self.release();
        }
    }
}

/// If the coroutine panicked or exited, ends the calling G in the same way. Go: `iter.Pull` propagates a panic and
/// `runtime.Goexit` to `next` and `stop`.
#[track_caller]
fn pass_on<Plat: Platform>(end: Result<(), JoinError>) {
    match end {
        Ok(()) => {}
        Err(JoinError::Exited) => goexit::<Plat>(),
        Err(error) => error.propagate("the coroutine panicked"),
    }
}

impl<T: Send + 'static, Plat: Platform> Yielder<T, Plat> {
    /// Passes a value to the outer G, and waits until the outer G asks for the next one. Returns `false` if the outer
    /// G has stopped the coroutine. The coroutine should then return; further values are dropped. Go: the `yield`
    /// function of an iterator.
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
    ///     let leaves = native::pull(|yielder| drop(walk(&[vec![1, 2], vec![], vec![3]], yielder)));
    ///     assert!(leaves.eq([1, 2, 3]));
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// The caller is pinned or in a system call.
    #[must_use = "`false` means that no more values are wanted"]
    #[track_caller]
    pub fn yield_value(&mut self, value: T) -> bool {
        if self.is_stopped() {
            return false;
        }
        // `new` panics if the caller may not block. At this point nothing has changed yet.
        let caller = CurrentGoroutine::<Plat>::new();
        let window = Window::<Plat>::open(At::Coroutine);
        let outer = self.shared.store_value(caller.me, value);
        switch_to(caller, outer);
        window.close();
        !self.is_stopped()
    }

    fn is_stopped(&self) -> bool {
        self.shared.with(|exchange| exchange.is_stopped)
    }
}

impl<T, Plat: Platform> Shared<T, Plat> {
    pub(crate) fn new() -> Self {
        let exchange = Exchange { value: None, outer: None, is_stopped: false };
        Self { exchange: Lock::new(exchange) }
    }

    fn with<R>(&self, access: impl FnOnce(&mut Exchange<T, Plat>) -> R) -> R {
        let _pinned = Pinned::<Plat>::of_scheduler();
        access(&mut self.exchange.lock())
    }

    /// Runs the inner G until it yields a value or ends.
    #[track_caller]
    fn resume(&self, inner: &JoinHandle<(), Plat>) {
        // `new` panics if the caller may not block. At this point nothing has changed yet.
        let caller = CurrentGoroutine::<Plat>::new();
        let window = Window::<Plat>::open(At::Coroutine);
        self.register_outer(caller.me, inner);
        switch_to(caller, inner.goroutine());
        window.close();
    }

    /// Registers `me`, the calling G, as the outer G. The caller is about to switch to the inner G, which resumes `me`
    /// when it yields a value or ends.
    pub(crate) fn register_outer(&self, me: &'static Goroutine<Plat>, inner: &JoinHandle<(), Plat>) {
        self.exchange.lock().outer = Some(me);
        inner.set_waiter(me);
    }

    /// Stores the value that `me`, the inner G, yields. The caller is about to switch to the outer G. Returns the outer
    /// G.
    pub(crate) fn store_value(&self, me: &'static Goroutine<Plat>, value: T) -> &'static Goroutine<Plat> {
        let outer = {
            let mut exchange = self.exchange.lock();
            exchange.value = Some(value);
            exchange.outer.take()
        };
        forget_waiter(me);
        outer.expect("the G that resumes a coroutine has registered itself")
    }

    /// Takes the value with which the outer G was resumed, or `None` if the inner G has ended.
    pub(crate) fn take_value(&self) -> Option<T> {
        self.with(|exchange| exchange.value.take())
    }
}

impl<T: Send + 'static, Plat: Platform> fmt::Debug for Pull<T, Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pull").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<T: Send + 'static, Plat: Platform> fmt::Debug for Yielder<T, Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Yielder")
    }
}
