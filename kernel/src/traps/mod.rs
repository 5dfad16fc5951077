//! Interrupts and exceptions: how they enter Rust, and what each of them does. The processor calls this layer, and this layer
//! calls those below.
//!
//! | file | what |
//! |---|---|
//! | `idt` | the descriptor table, and which stack each vector enters on |
//! | `entry` | saving and restoring of registers |
//! | `interrupt` | what each interrupt does |
//! | `page_fault` | pages of stacks that are touched for the first time, stack overflows |
//! | `preempt` | strong preemption: a switch when an interrupt returns |

mod entry;
pub(crate) mod idt;
mod interrupt;
mod page_fault;
pub(crate) mod preempt;
