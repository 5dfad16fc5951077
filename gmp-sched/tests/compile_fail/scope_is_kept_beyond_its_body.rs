// A scope that has already been left would not wait for a new child.

use gmp_sched::native;

fn main() {
    unsafe { native::enter() }.run(1, || {
        let mut kept = None;
        native::scope(|scope| kept = Some(scope));
        kept.unwrap().go(|| ());
    });
}
