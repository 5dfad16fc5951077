// If a guard ended the system call, a G could leak the guard and continue without a P.

use gmp_sched::native::{self, Native};

fn main() {
    unsafe { native::enter() }.run(1, || std::mem::forget(gmp_sched::syscall::enter_syscall::<Native>()));
}
