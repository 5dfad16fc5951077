//! Interrupts and exceptions: how the processor enters Rust code, and what each handler does. The processor calls this
//! layer, and this layer calls the layers below.
//!
//! | file | what |
//! |---|---|
//! | `idt` | the descriptor table, with the handler and the stack of each vector |
//! | `entry` | the code that saves and restores the registers |
//! | `interrupt` | the handlers of interrupts |
//! | `divert` | asynchronous preemption: a switch to another G when an interrupt returns |
//! | `exception` | an exception that no handler resolves: it ends the kernel or, with `panic=isolate`, its G |
//! | `page_fault` | the first touch of a page of a stack, stack overflows, and the lack of memory for a page |

pub(crate) mod divert;
mod entry;
mod exception;
pub(crate) mod idt;
mod interrupt;
mod page_fault;
