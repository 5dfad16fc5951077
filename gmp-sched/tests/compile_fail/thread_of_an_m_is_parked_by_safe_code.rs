//! A parked thread would keep the P that its M holds, so no other M could run that P's Gs.

use gmp_sched::native::Native;
use gmp_sched::platform::{Pinned, Platform};

fn main() {
    Native::park_thread(&Pinned::new(), None);
}
