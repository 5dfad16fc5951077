//! G, M, P and the scheduler that they share: data and its invariants.

pub(crate) mod background;
#[cfg_attr(not(feature = "synctest"), path = "no_bubble.rs")]
pub(crate) mod bubble;
pub(crate) mod current;
pub(crate) mod current_call;
pub(crate) mod current_slice;
pub(crate) mod events;
pub(crate) mod free_list;
pub(crate) mod free_stacks;
pub(crate) mod global_queue;
pub mod goroutine;
pub(crate) mod inline_body;
pub(crate) mod locked;
#[cfg(gmp_loom)]
pub(crate) mod loom_wait;
pub mod machine;
pub(crate) mod name;
pub mod processor;
pub(crate) mod processor_status;
pub(crate) mod ranked;
pub(crate) mod sampler;
pub mod scheduler;
pub(crate) mod scheduler_number;
pub(crate) mod shared;
pub(crate) mod signal;
pub(crate) mod status;
pub(crate) mod timers;
pub(crate) mod urgent_queue;
pub(crate) mod wait_reason;
pub(crate) mod waiter;
pub(crate) mod window;
pub(crate) mod world_stop;
