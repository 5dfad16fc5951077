//! The names under which programs know this crate: everything generic over the platform, for one platform.

/// Declares, in the module where it stands, the crate's types and functions for one platform, so that programs and
/// tests that run on several never see the type parameter.
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
        /// Handle to a G. See [`JoinHandle`]($crate::JoinHandle).
        pub type JoinHandle<T> = $crate::JoinHandle<T, $platform>;

        /// How a G is to be spawned. See [`spawn::Builder`]($crate::spawn::Builder).
        pub type Builder<'a> = $crate::spawn::Builder<'a, $platform>;

        /// The side of a channel that sends. See [`chan::Sender`]($crate::chan::Sender).
        pub type Sender<T> = $crate::chan::Sender<T, $platform>;

        /// The side of a channel that receives. See [`chan::Receiver`]($crate::chan::Receiver).
        pub type Receiver<T> = $crate::chan::Receiver<T, $platform>;

        /// Both sides of a channel. See [`chan::Chan`]($crate::chan::Chan).
        pub type Chan<T> = $crate::chan::Chan<T, $platform>;

        /// A channel with room for `capacity` values. See [`chan::channel`]($crate::chan::channel).
        ///
        /// # Panics
        ///
        /// There is no memory for it.
        #[must_use]
        #[track_caller]
        pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
            $crate::chan::channel(capacity)
        }

        /// A value that one G at a time can get at. See [`sync::Mutex`]($crate::sync::Mutex).
        pub type Mutex<T> = $crate::sync::Mutex<T, $platform>;

        /// The right to the value of a mutex. See [`sync::MutexGuard`]($crate::sync::MutexGuard).
        pub type MutexGuard<'a, T> = $crate::sync::MutexGuard<'a, T, $platform>;

        /// A value that many Gs may look at, or one change. See [`sync::RwLock`]($crate::sync::RwLock).
        pub type RwLock<T> = $crate::sync::RwLock<T, $platform>;

        /// The right to look at a value. See [`sync::RwLockReadGuard`]($crate::sync::RwLockReadGuard).
        pub type RwLockReadGuard<'a, T> = $crate::sync::RwLockReadGuard<'a, T, $platform>;

        /// The right to change a value. See [`sync::RwLockWriteGuard`]($crate::sync::RwLockWriteGuard).
        pub type RwLockWriteGuard<'a, T> = $crate::sync::RwLockWriteGuard<'a, T, $platform>;

        /// For what is hardly ever written. See [`sync::ReadMostlyRwLock`]($crate::sync::ReadMostlyRwLock).
        pub type ReadMostlyRwLock<T> = $crate::sync::ReadMostlyRwLock<T, $platform>;

        /// Waiting, with a mutex, for something to become true. See [`sync::Condvar`]($crate::sync::Condvar).
        pub type Condvar = $crate::sync::Condvar<$platform>;

        /// Waiting for a number of Gs to finish. See [`sync::WaitGroup`]($crate::sync::WaitGroup).
        pub type WaitGroup = $crate::sync::WaitGroup<$platform>;

        /// Something that is done once. See [`sync::Once`]($crate::sync::Once).
        pub type Once = $crate::sync::Once<$platform>;

        /// A place for a value that is put there once. See [`sync::OnceCell`]($crate::sync::OnceCell).
        pub type OnceCell<T> = $crate::sync::OnceCell<T, $platform>;

        /// A value that is made when it is first wanted. See [`sync::Lazy`]($crate::sync::Lazy).
        pub type Lazy<T, F = fn() -> T> = $crate::sync::Lazy<T, $platform, F>;

        /// A number of permits. See [`sync::Semaphore`]($crate::sync::Semaphore).
        pub type Semaphore = $crate::sync::Semaphore<$platform>;

        /// Some of the permits of a semaphore. See [`sync::Permit`]($crate::sync::Permit).
        pub type Permit<'a> = $crate::sync::Permit<'a, $platform>;

        /// Waiting for each other. See [`sync::Barrier`]($crate::sync::Barrier).
        pub type Barrier = $crate::sync::Barrier<$platform>;

        /// Values to be used again. See [`sync::Pool`]($crate::sync::Pool).
        pub type Pool<T, F = fn() -> T> = $crate::sync::Pool<T, $platform, F>;

        /// Gs of which the first error counts. See [`sync::ErrorGroup`]($crate::sync::ErrorGroup).
        pub type ErrorGroup<E> = $crate::sync::ErrorGroup<E, $platform>;

        /// Callers that want the same share one call. See [`sync::SingleFlight`]($crate::sync::SingleFlight).
        pub type SingleFlight<K, V> = $crate::sync::SingleFlight<K, V, $platform>;

        /// Runs `body` as a new G, next on this P. See [`spawn::go`]($crate::spawn::go).
        ///
        /// # Panics
        ///
        /// There is no memory for its stack; the caller is not a G.
        #[inline]
        #[track_caller]
        pub fn go<F, T>(body: F) -> JoinHandle<T>
        where
            F: FnOnce() -> T + Send + 'static,
            T: Send + 'static,
        {
            $crate::spawn::go(body)
        }

        /// [`go`] that returns an error if there is no memory. See [`spawn::try_go`]($crate::spawn::try_go).
        ///
        /// # Errors
        ///
        /// There is no memory for its stack; `body` is dropped, and nothing else has happened.
        ///
        /// # Panics
        ///
        /// The caller is not a G.
        #[inline]
        #[track_caller]
        pub fn try_go<F, T>(body: F) -> ::core::result::Result<JoinHandle<T>, $crate::platform::OutOfResources>
        where
            F: FnOnce() -> T + Send + 'static,
            T: Send + 'static,
        {
            $crate::spawn::try_go(body)
        }

        /// Lets the other Gs of this P run first. See [`yield_now::yield_now`]($crate::yield_now::yield_now).
        ///
        /// # Panics
        ///
        /// The caller is not a G.
        #[inline(always)]
        pub fn yield_now() {
            $crate::yield_now::yield_now::<$platform>();
        }

        /// Ends the calling G. See [`exit::exit`]($crate::exit::goexit).
        ///
        /// # Panics
        ///
        /// The caller is not a G, or is pinned.
        pub fn goexit() -> ! {
            $crate::exit::goexit::<$platform>()
        }

        /// Fires once, and can be set again. See [`time::Timer`]($crate::time::Timer).
        pub type Timer = $crate::time::Timer<$platform>;

        /// Fires at regular intervals. See [`time::Ticker`]($crate::time::Ticker).
        pub type Ticker = $crate::time::Ticker<$platform>;

        /// The right to take back what [`after_func`] is to run. See [`time::AfterFunc`]($crate::time::AfterFunc).
        pub type AfterFunc = $crate::time::AfterFunc<$platform>;

        /// The values of a coroutine. See [`coroutine::Pull`]($crate::coroutine::Pull).
        pub type Pull<T> = $crate::coroutine::Pull<T, $platform>;

        /// The side of a coroutine that has the values. See [`coroutine::Yielder`]($crate::coroutine::Yielder).
        pub type Yielder<T> = $crate::coroutine::Yielder<T, $platform>;

        /// Makes a coroutine. See [`coroutine::pull`]($crate::coroutine::pull).
        ///
        /// # Panics
        ///
        /// The caller is not a G with a P; there is no memory for the G's stack.
        #[track_caller]
        pub fn pull<T, F>(body: F) -> Pull<T>
        where
            T: Send + 'static,
            F: FnOnce(&mut Yielder<T>) + Send + 'static,
        {
            $crate::coroutine::pull(body)
        }

        /// [`pull`] that returns an error if there is no memory. See [`coroutine::try_pull`]($crate::coroutine::try_pull).
        ///
        /// # Errors
        ///
        /// There is no memory for the G's stack.
        ///
        /// # Panics
        ///
        /// The caller is not a G with a P.
        pub fn try_pull<T, F>(body: F) -> ::core::result::Result<Pull<T>, $crate::platform::OutOfResources>
        where
            T: Send + 'static,
            F: FnOnce(&mut Yielder<T>) + Send + 'static,
        {
            $crate::coroutine::try_pull(body)
        }

        /// What the names here are for.
        type ThisPlatform = $platform;

        /// Bubbles with a clock of their own. See [`synctest`]($crate::synctest).
        pub mod synctest {
            /// Runs `body` in a bubble of its own. See [`synctest::test`]($crate::synctest::test).
            ///
            /// # Panics
            ///
            /// The body panics; all Gs of the bubble wait for good; the caller is not a G with a P, or is in a bubble.
            pub fn test<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
                $crate::synctest::test::<super::ThisPlatform, T>(body)
            }

            /// Waits until every other G of the bubble waits durably. See [`synctest::wait`]($crate::synctest::wait).
            ///
            /// # Panics
            ///
            /// The caller is in no bubble, or another G of it is in this function.
            pub fn wait() {
                $crate::synctest::wait::<super::ThisPlatform>();
            }

            /// Sleeps, and then waits as [`wait`] does. See [`synctest::sleep`]($crate::synctest::sleep).
            ///
            /// # Panics
            ///
            /// As [`wait`].
            pub fn sleep(duration: ::core::time::Duration) {
                $crate::synctest::sleep::<super::ThisPlatform>(duration);
            }
        }

        /// Where scoped Gs are spawned. See [`scope::Scope`]($crate::scope::Scope).
        pub type Scope<'scope, 'env> = $crate::scope::Scope<'scope, 'env, $platform>;

        /// The right to the result of a scoped G. See [`scope::ScopedJoinHandle`]($crate::scope::ScopedJoinHandle).
        pub type ScopedJoinHandle<'scope, T> = $crate::scope::ScopedJoinHandle<'scope, T, $platform>;

        /// Where scoped Gs are spawned that may fail. See [`scope::TryScope`]($crate::scope::TryScope).
        pub type TryScope<'scope, 'env, E> = $crate::scope::TryScope<'scope, 'env, E, $platform>;

        /// Calls `body` with a scope, and waits for all Gs spawned in it. See [`scope::scope`]($crate::scope::scope).
        ///
        /// # Panics
        ///
        /// The body panics, or a child does that nobody joins; the caller is not a G with a P.
        pub fn scope<'env, F, T>(body: F) -> T
        where
            F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
        {
            $crate::scope::scope(body)
        }

        /// [`scope`] whose Gs may fail, and are cancelled together. See [`scope::try_scope`]($crate::scope::try_scope).
        ///
        /// # Errors
        ///
        /// The first one that a child or the body gave.
        ///
        /// # Panics
        ///
        /// The body or a child panics; the caller is not a G with a P.
        pub fn try_scope<'env, E, F, T>(context: &Context, body: F) -> ::core::result::Result<T, E>
        where
            E: Send + 'env,
            F: for<'scope> FnOnce(&'scope TryScope<'scope, 'env, E>) -> ::core::result::Result<T, E>,
        {
            $crate::scope::try_scope(context, body)
        }

        /// Runs a future to its end in the calling G. See [`future::block_on`]($crate::future::block_on).
        ///
        /// # Panics
        ///
        /// The caller is not a G with a P; the future panics.
        pub fn block_on<F: ::core::future::Future>(future: F) -> F::Output {
            $crate::future::block_on::<$platform, F>(future)
        }

        /// Says whether work is still wanted. See [`cancel::Context`]($crate::cancel::Context).
        pub type Context = $crate::cancel::Context<$platform>;

        /// The right to cancel a context. See [`cancel::CancelHandle`]($crate::cancel::CancelHandle).
        pub type CancelHandle = $crate::cancel::CancelHandle<$platform>;

        /// How long to wait. See [`cancel::Limit`]($crate::cancel::Limit).
        pub type Limit<'a> = $crate::cancel::Limit<'a, $platform>;

        /// What time it is. See [`time::now`]($crate::time::now).
        #[must_use]
        pub fn now() -> $crate::time::Instant {
            $crate::time::now::<$platform>()
        }

        /// A timer that fires after `duration`, for a case of a select. See [`time::after`]($crate::time::after).
        ///
        /// # Panics
        ///
        /// The caller is not a G with a P.
        #[must_use]
        #[track_caller]
        pub fn after(duration: ::core::time::Duration) -> Timer {
            $crate::time::after(duration)
        }

        /// Runs `function` in a G of its own after `duration`. See [`time::after_func`]($crate::time::after_func).
        ///
        /// # Panics
        ///
        /// The caller is not a G with a P; there is no memory for the G or the timer.
        #[track_caller]
        pub fn after_func(duration: ::core::time::Duration, function: impl FnOnce() + Send + 'static) -> AfterFunc {
            $crate::time::after_func(duration, function)
        }

        /// [`after_func`] that returns an error if there is no memory. See
        /// [`time::try_after_func`]($crate::time::try_after_func).
        ///
        /// # Errors
        ///
        /// There is no memory for the G or the timer.
        ///
        /// # Panics
        ///
        /// The caller is not a G with a P.
        pub fn try_after_func(
            duration: ::core::time::Duration,
            function: impl FnOnce() + Send + 'static,
        ) -> ::core::result::Result<AfterFunc, $crate::platform::OutOfResources> {
            $crate::time::try_after_func(duration, function)
        }

        /// Lets the calling G sleep until `when`. See [`sleep::sleep_until`]($crate::sleep::sleep_until).
        ///
        /// # Panics
        ///
        /// As [`sleep`].
        pub fn sleep_until(when: $crate::time::Instant) {
            $crate::sleep::sleep_until::<$platform>(when);
        }

        /// Lets that many Gs run at once, at most; gives the number so far. See [`procs::set_procs`]($crate::procs::set_procs).
        ///
        /// # Errors
        ///
        /// The number is out of range, or there is no thread or memory for it.
        ///
        /// # Panics
        ///
        /// The caller is not a G.
        pub fn set_procs(procs: usize) -> ::core::result::Result<usize, $crate::procs::ProcsError> {
            $crate::procs::set_procs::<$platform>(procs)
        }

        /// Locks the calling G to its thread until the guard is dropped. See
        /// [`lock_os_thread::lock_thread`]($crate::lock_os_thread::lock_thread).
        ///
        /// # Panics
        ///
        /// The caller is not a G; there is no thread to replace this one.
        #[track_caller]
        pub fn lock_thread() -> $crate::lock_os_thread::LockedThread<$platform> {
            $crate::lock_os_thread::lock_thread()
        }

        /// [`lock_thread`] that returns an error if there is no thread. See
        /// [`lock_os_thread::try_lock_thread`]($crate::lock_os_thread::try_lock_thread).
        ///
        /// # Errors
        ///
        /// There is no thread to replace this one.
        ///
        /// # Panics
        ///
        /// The caller is not a G.
        pub fn try_lock_thread()
        -> ::core::result::Result<$crate::lock_os_thread::LockedThread<$platform>, $crate::platform::OutOfResources> {
            $crate::lock_os_thread::try_lock_thread()
        }

        /// Stops all other Gs until the guard is dropped. See [`stop_the_world::stop_the_world`]($crate::stop_the_world::stop_the_world).
        ///
        /// # Panics
        ///
        /// The caller is not a G.
        pub fn stop_the_world() -> $crate::stop_the_world::WorldStopped<$platform> {
            $crate::stop_the_world::stop_the_world($crate::stop_the_world::StopReason::Program)
        }

        /// Lets the calling G sleep. See [`sleep::sleep`]($crate::sleep::sleep).
        ///
        /// # Panics
        ///
        /// The caller is not a G.
        pub fn sleep(duration: ::core::time::Duration) {
            $crate::sleep::sleep::<$platform>(duration);
        }
    };
}
