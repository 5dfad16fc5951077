//! Only the thread of an M may run the loop of that M, so this loop cannot be called by a G.

use gmp_sched::machine::Machine;
use gmp_sched::native::Native;

fn search_on_the_stack_of_a_goroutine(machine: &'static Machine<Native>) {
    machine.run();
}

fn main() {
    let _ = search_on_the_stack_of_a_goroutine;
}
