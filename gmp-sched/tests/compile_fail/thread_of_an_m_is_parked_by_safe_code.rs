//! The P that the M holds would be lost to all others.

use gmp_sched::native::Native;
use gmp_sched::platform::{Pinned, Platform};

fn main() {
    Native::park_thread(&Pinned::new(), None);
}
