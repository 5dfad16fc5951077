//! A select must not have the same case twice, because both cases could then complete.

use gmp_sched::native::Receiver;
use gmp_sched::select::{Select, recv};

fn main() {
    let never = Receiver::<u8>::never();
    let mut one = recv(&never);
    _ = Select::new(&mut [one.case(), one.case()]).poll();
}
