//! Tests of panics whose message cannot be formatted. The machine must end nevertheless, with the status of the first
//! panic.

use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};

/// A message that calls a function when it is formatted.
struct Message<F>(F);

impl<F: Fn()> fmt::Display for Message<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.0)();
        f.write_str("the message")
    }
}

/// The report formats the message twice. The second time, the message panics at a location outside of the program,
/// which looks like a fault of the kernel.
fn message_that_panics_in_a_library_keeps_the_status() {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let panic_second_time = || {
        let step = 1 - COUNT.fetch_add(1, Ordering::Relaxed);
        assert_eq!((0..1).step_by(step).count(), 1);
    };
    panic!("{}", Message(panic_second_time));
}
guest_test!(
    message_that_panics_in_a_library_keeps_the_status,
    smp = &[1, 2],
    status = 2,
    texts = &["the message", "goroutine 1 [running]", "panic while panicking"]
);
