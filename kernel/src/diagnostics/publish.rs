//! Publishes the numbers of the scheduler in memory that the host reads, for `boot --top`. This is done by a kernel
//! thread that is no M and needs no P. Without the option `top` there is no such thread.

use core::sync::atomic::AtomicU64;
use core::time::Duration;

use gmp_sched::snapshot::Publisher;
use spin::Once;

use crate::sched::startup::Observer;
use crate::sched::{kthread, platform};

/// The time between two publications.
const INTERVAL: Duration = Duration::from_millis(10);
/// After a publication, the thread waits for at least this many times as long as the publication took. So the thread
/// takes only a small share of a CPU, even if it takes long to count the Gs because there are many.
const PAUSE: u32 = 20;

static MEMORY: Once<&'static [AtomicU64]> = Once::new();

/// Stores the memory, and returns the body of the thread.
pub(crate) fn configure(memory: &'static [AtomicU64]) -> Observer {
    MEMORY.call_once(|| memory);
    run
}

fn run(_: usize) -> ! {
    let scheduler = platform::scheduler().expect("the thread starts after the scheduler");
    let memory = *MEMORY.get().expect("the memory is stored before the thread is made");
    let mut publisher = Publisher::new(scheduler, memory);
    loop {
        let start = kthread::now();
        publisher.publish();
        let end = kthread::now();
        kthread::park(Some(end + INTERVAL.max((end - start) * PAUSE)));
    }
}
