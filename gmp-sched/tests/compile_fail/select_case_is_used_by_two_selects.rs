//! A case that could be used twice would send its value twice.

use gmp_sched::native::channel;
use gmp_sched::select::{Select, send};

fn main() {
    let (sender, _receiver) = channel(2);
    let mut sending = send(&sender, String::from("sent twice"));
    let mut cases = [sending.case()];
    _ = Select::new(&mut cases).poll();
    _ = Select::new(&mut cases).poll();
}
