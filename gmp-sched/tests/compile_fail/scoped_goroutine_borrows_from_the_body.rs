// A child must not borrow a value that is dropped before the scope waits.

use gmp_sched::native;

fn main() {
    unsafe { native::enter() }.run(1, || {
        native::scope(|scope| {
            let short_lived = String::from("gone when the body returns");
            scope.go(|| short_lived.len());
        });
    });
}
