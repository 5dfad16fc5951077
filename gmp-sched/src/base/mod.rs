//! Building blocks for all layers above. The only types of this layer that concern Gs, Ms and Ps are their ids
//! ([`id`]).

pub(crate) mod atomic;
pub(crate) mod error;
pub(crate) mod extension;
pub(crate) mod forever;
pub(crate) mod id;
pub(crate) mod instant;
pub(crate) mod list;
#[cfg(gmp_loom)]
#[expect(unsafe_code, reason = "guards a value that loom watches")]
pub(crate) mod modelled_lock;
pub(crate) mod points;
#[cfg(any(feature = "std", gmp_loom))]
pub(crate) mod poll_turn;
pub(crate) mod ranked_queue;
pub(crate) mod reference;
pub mod run_queue;
pub(crate) mod spin_lock;
pub(crate) mod timing_wheel;
pub(crate) mod under_loom;
