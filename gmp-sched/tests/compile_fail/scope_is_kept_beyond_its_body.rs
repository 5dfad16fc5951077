// A scope that has been left waits for no children.

use gmp_sched::native;

fn main() {
    unsafe { native::enter() }.run(1, || {
        let mut kept = None;
        native::scope(|scope| kept = Some(scope));
        kept.unwrap().go(|| ());
    });
}
