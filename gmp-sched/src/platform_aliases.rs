//! Aliases of the crate's generic types and functions for one platform. Programs use these names.

/// Declares the crate's types and functions for one platform, in the module that invokes this macro. Programs, and
/// tests that run on several platforms, then need no type parameter for the platform.
///
/// ```
/// mod threads {
///     gmp_sched::platform_aliases!(gmp_sched::native::Native);
/// }
///
/// let answer = unsafe { gmp_sched::native::enter() }.run(2, || threads::go(|| 42).join().unwrap());
/// assert_eq!(answer, 42);
/// ```
#[macro_export]
macro_rules! platform_aliases {
    ($platform:ty) => {
        /// A handle to a G. See [`JoinHandle`]($crate::JoinHandle).
        pub type JoinHandle<T> = $crate::JoinHandle<T, $platform>;

        /// The options with which a G is spawned. See [`spawn::Builder`]($crate::spawn::Builder).
        pub type Builder<'a> = $crate::spawn::Builder<'a, $platform>;

        /// The sending side of a channel. See [`chan::Sender`]($crate::chan::Sender).
        pub type Sender<T> = $crate::chan::Sender<T, $platform>;

        /// The receiving side of a channel. See [`chan::Receiver`]($crate::chan::Receiver).
        pub type Receiver<T> = $crate::chan::Receiver<T, $platform>;

        /// Both sides of a channel. See [`chan::Chan`]($crate::chan::Chan).
        pub type Chan<T> = $crate::chan::Chan<T, $platform>;

        /// Makes a channel with room for `capacity` values. See [`chan::channel`]($crate::chan::channel).
        ///
        /// # Panics
        ///
        /// There is no memory for the channel, or `capacity` is at least an eighth of the range of `usize`.
        #[must_use]
        #[track_caller]
        pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
            $crate::chan::channel(capacity)
        }

        $crate::sync_aliases!($platform);

        /// Runs `body` in a new G, which runs next on this P. See [`spawn::go`]($crate::spawn::go).
        ///
        /// # Panics
        ///
        /// There is no memory for the G's stack, or the caller is not a G with a P.
        #[inline]
        #[track_caller]
        pub fn go<F, T>(body: F) -> JoinHandle<T>
        where
            F: FnOnce() -> T + Send + 'static,
            T: Send + 'static,
        {
            $crate::spawn::go(body)
        }

        /// Like [`go`], but returns an error if there is no memory. See [`spawn::try_go`]($crate::spawn::try_go).
        ///
        /// # Errors
        ///
        /// There is no memory for the G's stack. `body` has been dropped, and nothing else has changed.
        ///
        /// # Panics
        ///
        /// The caller is not a G with a P.
        #[inline]
        #[track_caller]
        pub fn try_go<F, T>(body: F) -> ::core::result::Result<JoinHandle<T>, $crate::platform::OutOfResources>
        where
            F: FnOnce() -> T + Send + 'static,
            T: Send + 'static,
        {
            $crate::spawn::try_go(body)
        }

        /// Lets other Gs run first. See [`yield_now::yield_now`]($crate::yield_now::yield_now).
        ///
        /// # Panics
        ///
        /// The caller is pinned or is not a G with a P.
        #[inline(always)]
        #[track_caller]
        pub fn yield_now() {
            $crate::yield_now::yield_now::<$platform>();
        }

        /// Ends the calling G. See [`exit::goexit`]($crate::exit::goexit).
        ///
        /// # Panics
        ///
        /// The caller is pinned or is not a G with a P.
        #[track_caller]
        pub fn goexit() -> ! {
            $crate::exit::goexit::<$platform>()
        }

        /// A timer that fires once and can be reset. See [`time::Timer`]($crate::time::Timer).
        pub type Timer = $crate::time::Timer<$platform>;

        /// A timer that fires at regular intervals. See [`time::Ticker`]($crate::time::Ticker).
        pub type Ticker = $crate::time::Ticker<$platform>;

        /// A handle that can stop a function passed to [`after_func`]. See
        /// [`time::AfterFunc`]($crate::time::AfterFunc).
        pub type AfterFunc = $crate::time::AfterFunc<$platform>;

        /// The platform for which this module declares its names. It is the type parameter of those types and functions
        /// of the crate that are generic over a platform.
        pub type ThisPlatform = $platform;

        /// Spawns scoped Gs. See [`scope::Scope`]($crate::scope::Scope).
        pub type Scope<'scope, 'env> = $crate::scope::Scope<'scope, 'env, $platform>;

        /// A handle to a scoped G. See [`scope::ScopedJoinHandle`]($crate::scope::ScopedJoinHandle).
        pub type ScopedJoinHandle<'scope, T> = $crate::scope::ScopedJoinHandle<'scope, T, $platform>;

        /// Calls `body` with a scope, and waits for all Gs spawned in it. See [`scope::scope`]($crate::scope::scope).
        ///
        /// # Panics
        ///
        /// The body panics, a child that is not joined panics, or the caller is pinned or is not a G with a P.
        #[track_caller]
        pub fn scope<'env, F, T>(body: F) -> T
        where
            F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
        {
            $crate::scope::scope(body)
        }

        /// A deadline and a cancellation token. See [`cancel::Context`]($crate::cancel::Context).
        pub type Context = $crate::cancel::Context<$platform>;

        /// A handle that can cancel a context. See [`cancel::CancelHandle`]($crate::cancel::CancelHandle).
        pub type CancelHandle = $crate::cancel::CancelHandle<$platform>;

        /// How long an operation may wait. See [`cancel::Limit`]($crate::cancel::Limit).
        pub type Limit<'a> = $crate::cancel::Limit<'a, $platform>;

        /// The current time. See [`time::now`]($crate::time::now).
        #[must_use]
        pub fn now() -> $crate::time::Instant {
            $crate::time::now::<$platform>()
        }

        /// Makes a timer that fires after `duration`, for a case of a select. See [`time::after`]($crate::time::after).
        ///
        /// # Panics
        ///
        /// There is no memory for another timer, or the caller is not a G with a P.
        #[must_use]
        #[track_caller]
        pub fn after(duration: ::core::time::Duration) -> Timer {
            $crate::time::after(duration)
        }

        /// Runs `function` in a new G after `duration`. See [`time::after_func`]($crate::time::after_func).
        ///
        /// # Panics
        ///
        /// The caller is not a G with a P, or there is no memory for the G or the timer.
        #[track_caller]
        pub fn after_func(duration: ::core::time::Duration, function: impl FnOnce() + Send + 'static) -> AfterFunc {
            $crate::time::after_func(duration, function)
        }

        /// Like [`after_func`], but returns an error if there is no memory. See
        /// [`time::try_after_func`]($crate::time::try_after_func).
        ///
        /// # Errors
        ///
        /// There is no memory for the G or the timer.
        ///
        /// # Panics
        ///
        /// The caller is not a G with a P.
        #[track_caller]
        pub fn try_after_func(
            duration: ::core::time::Duration,
            function: impl FnOnce() + Send + 'static,
        ) -> ::core::result::Result<AfterFunc, $crate::platform::OutOfResources> {
            $crate::time::try_after_func(duration, function)
        }

        /// Blocks the calling G until `when`. See [`sleep::sleep_until`]($crate::sleep::sleep_until).
        ///
        /// # Panics
        ///
        /// The caller is pinned or is not a G with a P.
        #[track_caller]
        pub fn sleep_until(when: $crate::time::Instant) {
            $crate::sleep::sleep_until::<$platform>(when);
        }

        /// Blocks the calling G for `duration`. See [`sleep::sleep`]($crate::sleep::sleep).
        ///
        /// # Panics
        ///
        /// `duration` is not zero, and the caller is pinned or is not a G with a P.
        #[track_caller]
        pub fn sleep(duration: ::core::time::Duration) {
            $crate::sleep::sleep::<$platform>(duration);
        }

        $crate::extras_aliases!($platform);
        $crate::refinements_aliases!($platform);
        $crate::synctest_aliases!($platform);
    };
}

/// The part of [`platform_aliases!`] for the feature `extras`.
#[cfg(feature = "extras")]
#[doc(hidden)]
#[macro_export]
macro_rules! extras_aliases {
    ($platform:ty) => {
        /// A lock for values that are hardly ever written. See
        /// [`sync::ReadMostlyRwLock`]($crate::sync::ReadMostlyRwLock).
        pub type ReadMostlyRwLock<T> = $crate::sync::ReadMostlyRwLock<T, $platform>;

        /// A cache of reusable values. See [`sync::Pool`]($crate::sync::Pool).
        pub type Pool<T, F = fn() -> T> = $crate::sync::Pool<T, $platform, F>;

        /// A group of Gs that returns the first of their errors. See [`sync::ErrorGroup`]($crate::sync::ErrorGroup).
        pub type ErrorGroup<E> = $crate::sync::ErrorGroup<E, $platform>;

        /// Lets concurrent callers with the same key share one call. See
        /// [`sync::SingleFlight`]($crate::sync::SingleFlight).
        pub type SingleFlight<K, V> = $crate::sync::SingleFlight<K, V, $platform>;

        /// An iterator over the values of a coroutine. See [`coroutine::Pull`]($crate::coroutine::Pull).
        pub type Pull<T> = $crate::coroutine::Pull<T, $platform>;

        /// The side of a coroutine that yields values. See [`coroutine::Yielder`]($crate::coroutine::Yielder).
        pub type Yielder<T> = $crate::coroutine::Yielder<T, $platform>;

        /// Makes a coroutine. See [`coroutine::pull`]($crate::coroutine::pull).
        ///
        /// # Panics
        ///
        /// The caller is not a G with a P, or there is no memory for the G's stack.
        #[track_caller]
        pub fn pull<T, F>(body: F) -> Pull<T>
        where
            T: Send + 'static,
            F: FnOnce(&mut Yielder<T>) + Send + 'static,
        {
            $crate::coroutine::pull(body)
        }

        /// Like [`pull`], but returns an error if there is no memory. See
        /// [`coroutine::try_pull`]($crate::coroutine::try_pull).
        ///
        /// # Errors
        ///
        /// There is no memory for the G's stack.
        ///
        /// # Panics
        ///
        /// The caller is not a G with a P.
        #[track_caller]
        pub fn try_pull<T, F>(body: F) -> ::core::result::Result<Pull<T>, $crate::platform::OutOfResources>
        where
            T: Send + 'static,
            F: FnOnce(&mut Yielder<T>) + Send + 'static,
        {
            $crate::coroutine::try_pull(body)
        }

        /// Spawns scoped Gs that may fail. See [`scope::TryScope`]($crate::scope::TryScope).
        pub type TryScope<'scope, 'env, E> = $crate::scope::TryScope<'scope, 'env, E, $platform>;

        /// Like [`scope`], but its Gs may return errors; the first error cancels the other Gs. See
        /// [`scope::try_scope`]($crate::scope::try_scope).
        ///
        /// # Errors
        ///
        /// The first error that a child or the body returned.
        ///
        /// # Panics
        ///
        /// The body or a child panics, or the caller is pinned or is not a G with a P.
        #[track_caller]
        pub fn try_scope<'env, E, F, T>(context: &Context, body: F) -> ::core::result::Result<T, E>
        where
            E: Send + 'env,
            F: for<'scope> FnOnce(&'scope TryScope<'scope, 'env, E>) -> ::core::result::Result<T, E>,
        {
            $crate::scope::try_scope(context, body)
        }

        /// Runs a future to completion in the calling G. See [`future::block_on`]($crate::future::block_on).
        ///
        /// # Panics
        ///
        /// In the same cases as [`future::block_on`]($crate::future::block_on).
        #[track_caller]
        pub fn block_on<F: ::core::future::Future>(future: F) -> F::Output {
            $crate::future::block_on::<$platform, F>(future)
        }
    };
}

/// Declares nothing, because the feature `extras` is off. The feature is tested here and not in the body of
/// [`platform_aliases!`], because a `cfg` in the body of a macro tests the features of the crate that uses the macro.
#[cfg(not(feature = "extras"))]
#[doc(hidden)]
#[macro_export]
macro_rules! extras_aliases {
    ($platform:ty) => {};
}

/// The part of [`platform_aliases!`] for the feature `refinements`.
#[cfg(feature = "refinements")]
#[doc(hidden)]
#[macro_export]
macro_rules! refinements_aliases {
    ($platform:ty) => {
        /// Begins a part of the calling G's work that a trace shows. See [`trace::span`]($crate::trace::span).
        #[inline]
        pub fn span(name: &'static str) -> $crate::trace::Span<$platform> {
            $crate::trace::span(name)
        }

        /// Records in a trace that the calling G has reached a point. See [`trace::mark`]($crate::trace::mark).
        #[inline]
        pub fn mark(name: &'static str) {
            $crate::trace::mark::<$platform>(name);
        }

        /// Sets the number that the program's policy uses for the calling G. See
        /// [`by_policy::set_parameter`]($crate::by_policy::set_parameter).
        ///
        /// # Panics
        ///
        /// The caller is not a G.
        #[track_caller]
        pub fn set_parameter(parameter: u64) {
            $crate::by_policy::set_parameter::<$platform>(parameter);
        }

        /// Sets the number of Ps, which is how many Gs can run at once; returns the previous number. See
        /// [`procs::set_procs`]($crate::procs::set_procs).
        ///
        /// # Errors
        ///
        /// The number is out of range, or there is no thread or memory for another M.
        ///
        /// # Panics
        ///
        /// The caller is pinned or is not a G with a P.
        #[track_caller]
        pub fn set_procs(procs: usize) -> ::core::result::Result<usize, $crate::procs::ProcsError> {
            $crate::procs::set_procs::<$platform>(procs)
        }

        /// Locks the calling G to its thread until the guard is dropped. See
        /// [`lock_os_thread::lock_thread`]($crate::lock_os_thread::lock_thread).
        ///
        /// # Panics
        ///
        /// The caller is not a G with a P, or there is no thread that could take over the P of the caller's thread.
        #[track_caller]
        pub fn lock_thread() -> $crate::lock_os_thread::LockedThread<$platform> {
            $crate::lock_os_thread::lock_thread()
        }

        /// Like [`lock_thread`], but returns an error if there is no thread. See
        /// [`lock_os_thread::try_lock_thread`]($crate::lock_os_thread::try_lock_thread).
        ///
        /// # Errors
        ///
        /// There is no thread that could take over the P of the caller's thread.
        ///
        /// # Panics
        ///
        /// The caller is not a G with a P.
        #[track_caller]
        pub fn try_lock_thread()
        -> ::core::result::Result<$crate::lock_os_thread::LockedThread<$platform>, $crate::platform::OutOfResources> {
            $crate::lock_os_thread::try_lock_thread()
        }

        /// Stops all other Gs until the guard is dropped. See
        /// [`stop_the_world::stop_the_world`]($crate::stop_the_world::stop_the_world).
        ///
        /// # Panics
        ///
        /// The caller is pinned or is not a G with a P.
        #[track_caller]
        pub fn stop_the_world() -> $crate::stop_the_world::WorldStopped<$platform> {
            $crate::stop_the_world::stop_the_world($crate::stop_the_world::StopReason::Program)
        }
    };
}

/// Declares nothing, because the feature `refinements` is off.
#[cfg(not(feature = "refinements"))]
#[doc(hidden)]
#[macro_export]
macro_rules! refinements_aliases {
    ($platform:ty) => {};
}

/// The part of [`platform_aliases!`] for the feature `synctest`.
#[cfg(feature = "synctest")]
#[doc(hidden)]
#[macro_export]
macro_rules! synctest_aliases {
    ($platform:ty) => {
        /// Groups of Gs with a clock of their own, for tests. See [`synctest`]($crate::synctest).
        pub mod synctest {
            /// Runs `body` in a new bubble. See [`synctest::test`]($crate::synctest::test).
            ///
            /// # Panics
            ///
            /// In the same cases as [`synctest::test`]($crate::synctest::test), for example if the body panics or
            /// all Gs of the bubble wait for ever.
            #[track_caller]
            pub fn test<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
                $crate::synctest::test::<super::ThisPlatform, T>(body)
            }

            /// Waits until every other G of the bubble waits durably. See [`synctest::wait`]($crate::synctest::wait).
            ///
            /// # Panics
            ///
            /// The caller is pinned, is not a G with a P, or is in no bubble; or another G of the bubble is in this
            /// function.
            #[track_caller]
            pub fn wait() {
                $crate::synctest::wait::<super::ThisPlatform>();
            }

            /// Sleeps, then waits as [`wait`] does. See [`synctest::sleep`]($crate::synctest::sleep).
            ///
            /// # Panics
            ///
            /// In the same cases as [`wait`].
            #[track_caller]
            pub fn sleep(duration: ::core::time::Duration) {
                $crate::synctest::sleep::<super::ThisPlatform>(duration);
            }
        }
    };
}

/// Declares nothing, because the feature `synctest` is off.
#[cfg(not(feature = "synctest"))]
#[doc(hidden)]
#[macro_export]
macro_rules! synctest_aliases {
    ($platform:ty) => {};
}
