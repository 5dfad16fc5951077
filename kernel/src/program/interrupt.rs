//! What Ctrl-C does to a program that ends by itself. The machine and the host have this module in common.

use crate::console::wait_for_interrupt;
use crate::platform::{Builder, Context, OnceCell};

/// Returns a context that is done when the user asks the program to end: by Ctrl-C, or by the signal SIGINT for `boot`
/// or for the process on the host. The program then has two seconds to end. After them, or at the second Ctrl-C, it is
/// ended. (A program that has not called this function is ended at the first Ctrl-C.) A G of the kernel waits for the
/// interrupt, so a deadlock of the program is not noticed any more.
///
/// The first call makes the G that waits for the interrupt. Another call at the same time blocks the calling G until
/// the first call has returned.
///
/// # Panics
///
/// If the caller is not a G, or must not block. If there is no memory for a G, in the first call.
#[track_caller]
pub fn interrupted() -> &'static Context {
    static INTERRUPTED: OnceCell<Context> = OnceCell::new();
    INTERRUPTED.get_or_init(|| {
        let (context, cancel) = Context::background().with_cancel();
        Builder::new()
            .in_no_bubble()
            .go(move || {
                wait_for_interrupt();
                cancel.cancel();
            })
            .detach();
        context
    })
}
