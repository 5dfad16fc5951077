//! What differs if the crate is compiled for loom, with `--cfg gmp_loom`. In such a build only the loom models run,
//! each inside of a `loom::model`.
//!
//! | | usually | under loom |
//! |---|---|---|
//! | atomics and fences | those of `core` | loom's, which record each access |
//! | [`SpinMutex`] | that of the crate `spin` | that of `base::modelled_lock`, which loom can explore |
//! | `const_fn`, `associated_const` | `const` | not `const`, because loom's types have no `const` constructors |
//! | `const_init` | a constant | a panic when the constant is evaluated, so nothing may use it |
//! | `per_model` | a static | a thread-local variable, because several models run at the same time |
//! | [`IS_MODEL`] | `false` | `true`: some sizes are smaller, some accesses need a fence, no slice ends before a wait |
//!
//! The feature `std` is off under loom. So unit tests, and code that only the platforms `native` and `sim` use, are
//! conditional on `std` and need no other condition.
//!
//! Outside of this file, `cfg(gmp_loom)` marks only code that exists for models, and the code that it replaces:
//!
//! - the modules `models`, `base::modelled_lock`, `entities::loom_wait` (no stack is switched) and `chan::loom_lock` (a
//!   channel's lock that blocks);
//! - `engine::park`, `sync::blocking` and `chan::header`, which use `loom_wait` or `loom_lock` under loom, and the
//!   usual code otherwise;
//! - `base::poll_turn`, `refinements::preempt_in_place`, and the fields that the latter uses, which otherwise only the
//!   feature `std` needs;
//! - a few functions and names that only models use.

pub(crate) use variant::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, SpinMutex, associated_const,
    const_fn, const_init, fence, per_model,
};

/// Whether the crate is compiled for loom.
pub(crate) const IS_MODEL: bool = cfg!(gmp_loom);

#[cfg(not(gmp_loom))]
pub(crate) mod variant {
    pub(crate) use core::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };

    pub(crate) use spin::mutex::SpinMutex;

    /// Defines functions that are `const`, except under loom.
    macro_rules! const_fn {
        ($($(#[$meta:meta])* $vis:vis fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty $body:block)*) => {
            $($(#[$meta])* $vis const fn $name($($argument: $type),*) -> $result $body)*
        };
    }

    /// Declares, defines or reads a constant of a trait. Under loom the constant is a function without arguments.
    macro_rules! associated_const {
        ($(#[$meta:meta])* const $name:ident: Self $(= $value:expr)?;) => {
            $(#[$meta])*
            const $name: Self $(= $value)?;
        };
        ($type:ident::$name:ident) => {
            $type::$name
        };
    }

    /// The value of a constant. Under loom nothing may use the constant, because evaluating it panics.
    macro_rules! const_init {
        ($value:expr) => {
            $value
        };
    }

    /// Defines a static, which is accessed by `with`. Under loom, each thread of the host has a copy of its own.
    macro_rules! per_model {
        ($(#[$meta:meta])* static $name:ident: $type:ty = $value:expr;) => {
            $(#[$meta])*
            static $name: crate::base::under_loom::variant::Static<$type> =
                crate::base::under_loom::variant::Static($value);
        };
    }

    pub(crate) use {associated_const, const_fn, const_init, per_model};

    /// The type of a static that `per_model` defines.
    pub(crate) struct Static<T: 'static>(pub(crate) T);

    impl<T> Static<T> {
        /// Calls `body` with the value.
        pub(crate) fn with<R>(&'static self, body: impl FnOnce(&'static T) -> R) -> R {
            body(&self.0)
        }
    }
}

#[cfg(gmp_loom)]
pub(crate) mod variant {
    pub(crate) use loom::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };

    pub(crate) use crate::base::modelled_lock::SpinMutex;

    macro_rules! const_fn {
        ($($(#[$meta:meta])* $vis:vis fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty $body:block)*) => {
            $($(#[$meta])* $vis fn $name($($argument: $type),*) -> $result $body)*
        };
    }

    macro_rules! associated_const {
        ($(#[$meta:meta])* const $name:ident: Self;) => {
            $(#[$meta])*
            #[expect(non_snake_case, reason = "a constant, except under loom")]
            fn $name() -> Self;
        };
        (const $name:ident: Self = $value:expr;) => {
            fn $name() -> Self {
                $value
            }
        };
        ($type:ident::$name:ident) => {
            $type::$name()
        };
    }

    macro_rules! const_init {
        ($value:expr) => {
            panic!("atomics and locks are not made in constants under loom")
        };
    }

    macro_rules! per_model {
        ($(#[$meta:meta])* static $name:ident: $type:ty = $value:expr;) => {
            std::thread_local! {
                $(#[$meta])*
                static $name: $type = const { $value };
            }
        };
    }

    pub(crate) use {associated_const, const_fn, const_init, per_model};
}
