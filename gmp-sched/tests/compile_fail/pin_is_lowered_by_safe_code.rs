//! A missing pin would let a G migrate while it uses its M's data.

use gmp_sched::native::Native;
use gmp_sched::platform::{Pinned, Platform};

fn main() {
    let _pinned = Pinned::<Native>::new();
    Native::lower_pin();
}
