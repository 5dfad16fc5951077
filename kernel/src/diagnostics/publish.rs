//! Publishes the numbers of the scheduler in memory that the host reads, for `boot --top`. This is done by a kernel
//! thread that is no M and needs no P. Without the option `top` there is no such thread.

use core::sync::atomic::AtomicU64;
use core::time::Duration;

use gmp_sched::snapshot::Publisher;
use spin::Once;

use crate::sched::startup::Observer;
use crate::sched::{kthread, platform};

/// The shortest time from the end of a publication to the next one.
const INTERVAL: Duration = Duration::from_millis(10);
/// The wait after each publication is at least this many times as long as the publication. So the thread takes only a
/// small share of a CPU, even if there are many Gs, which take long to count.
const PAUSE: u32 = 20;

static MEMORY: Once<&'static [AtomicU64]> = Once::new();

/// Stores `memory`, into which the thread publishes, and returns the function that the thread runs.
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
