//! The live page of the scheduler. The page gets the numbers by server-sent events: a response that does not end, of which
//! each line `data: …` is an event (WHATWG HTML, 9.2). The page computes rates and shares from the differences of two events.
//! While nobody looks at the page, nothing is observed.

use core::fmt::Write as _;
use core::hint::black_box;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use kernel::gmp_sched::snapshot::{Publisher, Snapshot, words};
use kernel::gmp_sched::syscall;
use kernel::interrupted;
use kernel::net::{self, NetError, TcpStream};
use kernel::platform::{self, Kernel, Limit};
use kernel::prelude::*;

use super::{PATIENCE, REQUESTS};

/// The page. It needs no other files.
pub(crate) const PAGE: &str = include_str!("sched.html");

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n\
                    Connection: close\r\n\r\n";

/// How often the Ps are observed, and how often an event is sent. The share of time for which a P is busy is the share of
/// the observations that found a G on it.
const INTERVAL: Duration = Duration::from_millis(20);
const EVENT_INTERVAL: Duration = Duration::from_millis(200);

/// What all viewers share: the memory to which the scheduler publishes its numbers.
struct Observer {
    publisher: Publisher<Kernel>,
    memory: &'static [AtomicU64],
}

static OBSERVER: Mutex<Option<Observer>> = Mutex::new(None);

/// Observes the scheduler, and returns its numbers.
///
/// A G that looks at the Ps occupies one of them itself, and would find it busy in each observation. So it observes in a
/// blocking call, before which its M hands its P off.
fn observe() -> Option<Snapshot> {
    let scheduler = platform::scheduler()?;
    let mut observer = OBSERVER.lock();
    let Observer { publisher, memory } = observer.get_or_insert_with(|| {
        // The memory is for the rest of the run.
        let memory = Vec::leak((0..words(scheduler.procs_limit())).map(|_| AtomicU64::new(0)).collect());
        Observer { publisher: Publisher::new(scheduler, memory), memory }
    });
    syscall::blocking::<Kernel, _>(|| publisher.publish());
    // Nobody publishes while this G holds the lock, so the copy is consistent.
    let copy: Vec<u64> = memory.iter().map(|word| word.load(Ordering::Relaxed)).collect();
    Snapshot::from_words(&copy)
}

/// Sends events until the client closes the connection, or until an interrupt.
pub(crate) fn stream(stream: &TcpStream) -> Result<(), NetError> {
    let send = |text: &str| stream.write_all_until(text.as_bytes(), Limit::after(PATIENCE));
    send(HEAD)?;
    let (mut observations, mut busy, mut next) = (0, Vec::new(), now());
    while !interrupted().is_done() {
        if let Some(snapshot) = observe() {
            observations += 1;
            busy.resize(snapshot.processors.len(), 0);
            busy.iter_mut().zip(&snapshot.processors).for_each(|(busy, of)| *busy += u64::from(of.goroutine != 0));
            if now() >= next {
                send(&event(&snapshot, observations, &busy))?;
                next = now() + EVENT_INTERVAL;
            }
        }
        sleep(INTERVAL);
    }
    Ok(())
}

/// Returns an event with these numbers, as JSON. `busy` says for each P how many of the observations found a G on it.
fn event(snapshot: &Snapshot, observations: u64, busy: &[u64]) -> String {
    let (goroutines, totals) = (snapshot.goroutines, snapshot.totals);
    let mut text = format!("data: {{\"when\":{},\"observations\":{observations}", snapshot.when);
    let mut put = |name: &str, numbers: &[u64]| {
        // Writing to a string cannot fail.
        let _ = write!(text, ",\"{name}\":{numbers:?}");
    };
    put("queueAndMachines", &[snapshot.global_length, snapshot.machines, snapshot.idle_machines, snapshot.spinning]);
    put("goroutines", &[goroutines.running, goroutines.runnable, goroutines.syscall, goroutines.waiting]);
    put(
        "totals",
        &[totals.switches, totals.spawns, totals.readies, totals.preemptions, totals.steals, totals.handoffs],
    );
    put("server", &[snapshot.longest_wait, net::usage().connections as u64, REQUESTS.load(Ordering::Relaxed)]);
    let processors = snapshot.processors.iter().zip(busy);
    let processors: Vec<_> = processors.map(|(of, busy)| [of.status, of.goroutine, of.queue_length, *busy]).collect();
    let _ = write!(text, ",\"processors\":{processors:?}}}\n\n");
    text
}

/// How many Gs [`work`] starts for each P, and how long they work. Together they need about half of the time of the Ps.
const WORKERS: usize = 16;
const WORK: Duration = Duration::from_secs(5);

/// Starts Gs that compute and sleep by turns, so that there is something to see. Does nothing while such Gs run.
pub(crate) fn work() {
    static IS_WORKING: AtomicBool = AtomicBool::new(false);
    if IS_WORKING.swap(true, Ordering::Relaxed) {
        return;
    }
    go(|| {
        let end = now() + WORK;
        scope(|scope| {
            for number in 0..procs() * WORKERS {
                scope.go(move || {
                    while now() < end {
                        compute(now() + Duration::from_micros(500 + 100 * (number % 10) as u64));
                        sleep(Duration::from_millis(10 + 3 * (number % 16) as u64));
                    }
                });
            }
        });
        IS_WORKING.store(false, Ordering::Relaxed);
    })
    .detach();
}

fn compute(end: Instant) {
    while now() < end {
        black_box((0..1000_u64).fold(1, |sum: u64, term| black_box(sum.wrapping_mul(31)) + term));
    }
}
