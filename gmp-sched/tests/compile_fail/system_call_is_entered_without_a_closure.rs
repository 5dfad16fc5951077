// With a guard, which could be leaked, a G could continue in its system call, without a P.

use gmp_sched::native::{self, Native};

fn main() {
    unsafe { native::enter() }.run(1, || std::mem::forget(gmp_sched::syscall::enter_syscall::<Native>()));
}
