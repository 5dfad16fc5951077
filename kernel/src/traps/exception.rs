//! Exceptions that no handler resolves. Each ends the kernel or, with the kernel option `panic=isolate`, only the G
//! whose own code has raised it.

use super::divert;
use crate::arch::x86_64::trap::TrapFrame;
use crate::cpu::percpu;
use crate::diagnostics::{isolation, panic};

/// Ends the G that has raised this exception, if that is possible. Otherwise stops the kernel. Called with interrupts
/// off.
pub(super) fn handle(frame: &mut TrapFrame) {
    // The code that ends the G runs on the G's own stack. So only a G with a valid stack pointer can be ended.
    if let Some(goroutine) = panic::faulty(frame)
        && isolation::covers(goroutine)
        && (goroutine.stack().start as u64..=goroutine.stack().end as u64).contains(&frame.rsp)
    {
        isolation::report_exception(goroutine, frame);
        if divert::divert(frame, end) {
            return;
        }
    }
    panic::exception(frame)
}

/// Ends the calling G, which has raised an exception. [`handle`] has diverted the G to this function. Called pinned.
extern "sysv64" fn end() {
    percpu::preempt_enable_quietly();
    isolation::end_after_exception()
}
