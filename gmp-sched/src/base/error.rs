//! Errors that are common to all layers.

#[cfg(feature = "std")]
use alloc::boxed::Box;
#[cfg(feature = "std")]
use alloc::string::String;
#[cfg(feature = "std")]
use core::any::Any;
use core::fmt;
use core::mem;
#[cfg(feature = "std")]
use core::panic::AssertUnwindSafe;
#[cfg(feature = "std")]
use std::panic::catch_unwind;
#[cfg(feature = "std")]
use std::sync::{Mutex, PoisonError};

/// There is no memory, thread or other resource for a request. The request had no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfResources;

impl fmt::Display for OutOfResources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("out of memory or threads")
    }
}

impl core::error::Error for OutOfResources {}

/// Why a G ended without a result.
///
/// Two errors are equal if the Gs ended in the same way; the payloads of panics are not compared.
///
/// ```
/// use gmp_sched::native;
/// use std::panic;
///
/// // SAFETY: no G uses a thread-local variable.
/// let threads = unsafe { native::enter() };
/// let error = threads.run(1, || native::go(|| -> u32 { panic!("out of paper") }).join().unwrap_err());
/// assert!(error.is_panic());
/// assert_eq!(error.to_string(), "the G panicked: out of paper");
/// // `panic::resume_unwind(payload)` would let the joiner panic in the same way.
/// let payload = error.into_panic();
/// assert_eq!(*payload.downcast_ref::<&str>().unwrap(), "out of paper");
/// ```
#[derive(Debug)]
pub enum JoinError {
    /// The body of the G panicked.
    Panicked(Panic),
    /// The G overflowed its stack, on a platform where a stack overflow ends the G and not the program.
    StackOverflow,
    /// The G called [`goexit`](crate::lifecycle::exit::goexit).
    Exited,
}

impl JoinError {
    /// Returns the error of a G whose body panicked, without the payload of the panic.
    #[must_use]
    pub const fn panicked() -> Self {
        Self::Panicked(Panic::without_payload())
    }

    /// Whether the body of the G panicked.
    #[must_use]
    pub const fn is_panic(&self) -> bool {
        matches!(self, Self::Panicked(_))
    }

    /// Whether a joiner or a scope treats this end of a G as an error. An end by `goexit` is not an error.
    pub(crate) fn is_failure(&self) -> bool {
        *self != Self::Exited
    }

    /// If there is a payload of the G's panic, panics with this payload and prints no message, because the G's panic
    /// has printed one. Otherwise panics with `message`.
    #[track_caller]
    pub(crate) fn propagate(self, message: &str) -> ! {
        #[cfg(feature = "std")]
        if let Ok(payload) = self.try_into_panic() {
            std::panic::resume_unwind(payload);
        }
        panic!("{message}")
    }
}

/// Methods for platforms that unwind.
#[cfg(feature = "std")]
impl JoinError {
    /// Returns the payload of the G's panic, for `std::panic::resume_unwind` or for inspection. See [`JoinError`] for
    /// an example.
    ///
    /// # Panics
    ///
    /// The G did not end by a panic, or its platform does not keep the payload.
    #[must_use]
    #[track_caller]
    pub fn into_panic(self) -> Box<dyn Any + Send> {
        match self.try_into_panic() {
            Ok(payload) => payload,
            Err(error) => panic!("there is no payload of a panic: {error}"),
        }
    }

    /// Like [`into_panic`](Self::into_panic), but returns an error if there is no payload.
    ///
    /// # Errors
    ///
    /// The G did not end by a panic, or its platform does not keep the payload.
    pub fn try_into_panic(self) -> Result<Box<dyn Any + Send>, Self> {
        match self {
            Self::Panicked(panic) => panic.into_payload().ok_or(Self::panicked()),
            other => Err(other),
        }
    }
}

impl PartialEq for JoinError {
    fn eq(&self, other: &Self) -> bool {
        mem::discriminant(self) == mem::discriminant(other)
    }
}

impl Eq for JoinError {}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked(panic) => {
                f.write_str("the G panicked")?;
                panic.with_message(|message| message.map_or(Ok(()), |message| write!(f, ": {message}")))
            }
            Self::StackOverflow => f.write_str("the G overflowed its stack"),
            Self::Exited => f.write_str("the G ended itself without a result"),
        }
    }
}

impl core::error::Error for JoinError {}

/// The panic of a G. It contains the payload on platforms that unwind, and nothing on others.
///
/// If dropping the payload panics, the `drop` of this type catches that panic.
pub struct Panic {
    /// The lock makes this type `Sync`, which the payload alone is not.
    #[cfg(feature = "std")]
    payload: Option<Box<Mutex<Box<dyn Any + Send>>>>,
}

impl Panic {
    const fn without_payload() -> Self {
        Self {
            #[cfg(feature = "std")]
            payload: None,
        }
    }

    /// Calls `body` with the message of the panic, if there is one.
    #[cfg(not(feature = "std"))]
    fn with_message<R>(&self, body: impl FnOnce(Option<&str>) -> R) -> R {
        body(None)
    }
}

#[cfg(feature = "std")]
impl Panic {
    /// Makes a `Panic` that contains the payload that [`catch_unwind`] returned.
    pub(crate) fn new(payload: Box<dyn Any + Send>) -> Self {
        Self { payload: Some(Box::new(Mutex::new(payload))) }
    }

    fn into_payload(mut self) -> Option<Box<dyn Any + Send>> {
        let payload = self.payload.take()?;
        Some(payload.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Calls `body` with the message of the panic, if there is one.
    fn with_message<R>(&self, body: impl FnOnce(Option<&str>) -> R) -> R {
        let Some(payload) = &self.payload else { return body(None) };
        let payload = payload.lock().unwrap_or_else(PoisonError::into_inner);
        let literal = || payload.downcast_ref::<&str>().copied();
        body(payload.downcast_ref::<String>().map(String::as_str).or_else(literal))
    }
}

#[cfg(feature = "std")]
impl Drop for Panic {
    fn drop(&mut self) {
        let payload = self.payload.take();
        if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            // `second` is leaked, because dropping it may panic as well.
            mem::forget(second);
        }
    }
}

impl fmt::Debug for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_message(|message| match message {
            Some(message) => f.debug_tuple("Panic").field(&message).finish(),
            None => f.write_str("Panic"),
        })
    }
}
