//! If safe code could lower a pin, a G could migrate while it uses its M's data.

use gmp_sched::native::Native;
use gmp_sched::platform::{Pinned, Platform};

fn main() {
    let _pinned = Pinned::<Native>::new();
    Native::lower_pin();
}
