//! Spawning Gs: `go` and `Builder`.

use core::marker::PhantomData;

use crate::base::error::OutOfResources;
use crate::entities::current::CurrentGoroutine;
pub use crate::entities::free_list::STACK_SIZE;
use crate::lifecycle::closure::StackEnd;
use crate::lifecycle::free_slots;
use crate::lifecycle::join::JoinHandle;
use crate::lifecycle::new_goroutine::{SMALLEST_STACK, new_goroutine};
use crate::platform::Platform;

/// Runs `body` as a new G. Go: the `go` statement, `newproc`.
///
/// The new G goes into `runnext` of the caller's P, and the G that was there before goes to the tail of the ring. Does
/// not block; not callable from interrupts.
///
/// # Errors
///
/// There is no memory for the G or its stack. `body` has been dropped, and nothing else has changed.
///
/// # Panics
///
/// The caller is not a G with a P.
#[doc(alias = "newproc")]
#[inline]
#[track_caller]
pub fn try_go<Plat, F, T>(body: F) -> Result<JoinHandle<T, Plat>, OutOfResources>
where
    Plat: Platform,
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    try_go_for::<Plat, F, F, T>(body)
}

/// Like [`try_go`], for a `body` of this crate that calls the program's function `N`. Traces name that function.
#[inline]
#[track_caller]
pub(crate) fn try_go_for<Plat, N, F, T>(body: F) -> Result<JoinHandle<T, Plat>, OutOfResources>
where
    Plat: Platform,
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let (caller, goroutine) = free_slots::take_to_spawn::<Plat>(Plat::STACK_SIZE)?;
    let CurrentGoroutine { pinned: _pinned, machine, processor, me } = caller;
    goroutine.set_name(None);
    let end = StackEnd::of(goroutine);
    Ok(new_goroutine::<Plat, N, F, T>(machine, processor, me, goroutine, Some(me), end, body))
}

/// Runs `body` as a new G. Like [`try_go`], but panics if there is no memory.
///
/// # Panics
///
/// In the cases in which [`try_go`] panics or returns an error.
#[inline]
#[track_caller]
pub fn go<Plat, F, T>(body: F) -> JoinHandle<T, Plat>
where
    Plat: Platform,
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    match try_go(body) {
        Ok(handle) => handle,
        Err(error) => panic!("cannot spawn a G: {error}"),
    }
}

/// Spawns a G with a name or a stack size of its own. Similar to `std::thread::Builder`.
///
/// ```
/// use gmp_sched::native;
///
/// let depth = unsafe { native::enter() }.run(1, || {
///     fn deep(levels: u64) -> u64 {
///         let room = std::hint::black_box([0u8; 1000]);
///         if levels == 0 { u64::from(room[0]) } else { 1 + deep(levels - 1) }
///     }
///     let diver = native::Builder::new().name("diver").stack_size(16 << 20);
///     diver.go(|| deep(2_000)).join().unwrap()
/// });
/// assert_eq!(depth, 2_000);
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is spawned before `go`"]
pub struct Builder<'a, Plat: Platform> {
    name: Option<&'a str>,
    stack_size: usize,
    parameter: u64,
    is_in_no_bubble: bool,
    _platform: PhantomData<fn() -> Plat>,
}

impl<'a, Plat: Platform> Builder<'a, Plat> {
    /// Makes a builder for Gs without a name and with a stack of the standard size, as [`go`] spawns them.
    pub const fn new() -> Self {
        Self { name: None, stack_size: Plat::STACK_SIZE, parameter: 0, is_in_no_bubble: false, _platform: PhantomData }
    }

    /// Sets the name of the G in lists of Gs and reports; the first [`NAME_LIMIT`](crate::NAME_LIMIT) bytes are kept.
    pub const fn name(mut self, name: &'a str) -> Self {
        self.name = Some(name);
        self
    }

    /// Sets the size of the stack in bytes. A size below 16 KiB is raised to 16 KiB. The platform may round the size
    /// up. Without this call the size is [`Platform::STACK_SIZE`]. If the platform has no stacks of this size,
    /// [`try_go`](Self::try_go) returns an error.
    pub const fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = bytes;
        self
    }

    /// Sets a number whose meaning the program's [policy](crate::policy) defines, such as a priority. Without a policy
    /// it has no effect. See also [`set_parameter`](crate::by_policy::set_parameter).
    pub const fn parameter(mut self, parameter: u64) -> Self {
        self.parameter = parameter;
        self
    }

    /// Lets the G be in no [bubble](crate#features), also if the caller is in one. For Gs that serve the whole program,
    /// such as the G of a driver. The first G that needs such a service spawns the G, and may be in a bubble.
    pub const fn in_no_bubble(mut self) -> Self {
        self.is_in_no_bubble = true;
        self
    }

    /// Runs `body` as a new G. Like [`try_go`](Self::try_go), but panics if there is no memory.
    ///
    /// # Panics
    ///
    /// In the cases in which [`try_go`](Self::try_go) panics or returns an error.
    #[track_caller]
    pub fn go<F, T>(self, body: F) -> JoinHandle<T, Plat>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        match self.try_go(body) {
            Ok(handle) => handle,
            Err(error) => panic!("cannot spawn a G: {error}"),
        }
    }

    /// Runs `body` as a new G.
    ///
    /// # Errors
    ///
    /// There is no memory for the G or its stack, or the platform has no stacks of that size.
    ///
    /// # Panics
    ///
    /// The caller is not a G with a P.
    #[track_caller]
    pub fn try_go<F, T>(self, body: F) -> Result<JoinHandle<T, Plat>, OutOfResources>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (caller, goroutine) = free_slots::take_to_spawn::<Plat>(self.stack_size.max(SMALLEST_STACK))?;
        let CurrentGoroutine { pinned: _pinned, machine, processor, me } = caller;
        goroutine.set_name(self.name);
        if self.parameter != 0 && machine.scheduler().policy().is_some() {
            goroutine.ranking.begin_next(self.parameter);
        }
        let (bubble_of, end) = (Some(me).filter(|_| !self.is_in_no_bubble), StackEnd::of(goroutine));
        Ok(new_goroutine::<Plat, F, F, T>(machine, processor, me, goroutine, bubble_of, end, body))
    }
}

impl<Plat: Platform> Default for Builder<'_, Plat> {
    fn default() -> Self {
        Self::new()
    }
}
