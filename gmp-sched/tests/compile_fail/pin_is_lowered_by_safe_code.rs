//! A pin too few lets a G change its M while it uses what belongs to that one.

use gmp_sched::native::Native;
use gmp_sched::platform::{Pinned, Platform};

fn main() {
    let _pinned = Pinned::<Native>::new();
    Native::lower_pin();
}
