//! A G may run on any thread, so its captures must be `Send`.

use std::rc::Rc;

use gmp_sched::native::{self, go};

fn main() {
    unsafe { native::enter() }.run(1, || {
        let count = Rc::new(1);
        go(move || assert_eq!(*count, 1)).detach();
    });
}
