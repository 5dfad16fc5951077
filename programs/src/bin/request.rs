//! A request over the network beside a call that blocks its M: what happens to G, M and P, step by step. The steps are
//! the events of a trace of this very run.
//!
//! There is one P. Client and server are Gs of the same machine, so there is no device, and with `--icount` each run
//! shows the same instants. `docs/life-of-a-g.md` names the functions.

#![no_std]
#![cfg_attr(not(test), no_main)]

use core::hint;

use kernel::clock;
use kernel::disk;
use kernel::gmp_sched::goroutine::GoroutineId;
use kernel::gmp_sched::platform::Pinned;
use kernel::gmp_sched::scheduler::Scheduler;
use kernel::gmp_sched::trace::{Event, EventKind};
use kernel::net::{NetError, TcpListener, TcpStream};
use kernel::platform::{Kernel, scheduler};
use kernel::prelude::*;

kernel::main!(main);

/// How long the server takes to answer, and how long the blocking call lasts.
const TAKES: Duration = Duration::from_millis(1);

/// Room for the events of a run.
const EVENTS: usize = 10_000;

fn main(_args: &[&str]) -> Result<(), NetError> {
    let Some(scheduler) = scheduler() else { return Err(NetError::Other) };
    set_procs(1).expect("one P is allowed");
    // A wait is recorded only if it begins after this.
    scheduler.start_trace(EVENTS).expect("memory for a trace");

    let listener = TcpListener::bind("127.0.0.1:0")?;
    let near = TcpStream::connect(listener.local_addr())?;
    let (far, _) = listener.accept()?;
    let server = go(move || answer(&far));
    println!("-- over the network: the server answers after {} us. Only the G waits.", TAKES.as_micros());
    tell(scheduler, Some(server.id()), EventKind::Park, move || {
        near.write_all(b"request").expect("the server reads");
        near.read(&mut [0; 64]).expect("the server answers");
    });
    server.join().expect("no panic")?;

    println!("-- a driver that blocks for {} us: its M waits, too.", TAKES.as_micros());
    tell(scheduler, None, EventKind::HandOff, || disk::delay(TAKES).expect("memory for another M"));
    Ok(())
}

/// Receives a request, and answers it after a while.
fn answer(stream: &TcpStream) -> Result<(), NetError> {
    stream.read(&mut [0; 64])?;
    sleep(TAKES);
    stream.write_all(b"answer")
}

/// Computes for twice as long as a call takes. Returns the M.
fn compute() -> u32 {
    let end = clock::now() + 2 * TAKES.as_nanos() as u64;
    while clock::now() < end {
        hint::spin_loop();
    }
    machine()
}

/// Runs a client, and another G while the client waits. Prints what happens from the last event of the kind `wait` until
/// the client continues.
fn tell(
    scheduler: &'static Scheduler<Kernel>,
    server: Option<GoroutineId>,
    wait: EventKind,
    call: impl FnOnce() + Send + 'static,
) {
    let machines = scheduler.machines().count();
    let client = go(move || {
        let before = machine();
        call();
        (before, machine())
    });
    let own = client.id();
    let waits = |event: &Event| event.kind == wait && event.goroutine == Some(own);
    while !scheduler.processors()[0].trace().iter().any(waits) {
        yield_now();
    }
    let other = go(compute);
    let names = [(GoroutineId::MAIN, "main"), (own, "the client"), (other.id(), "the other G")];
    let ((before, after), on) = (client.join().expect("no panic"), other.join().expect("no panic"));

    let name = |goroutine: GoroutineId| match names.into_iter().find(|(known, _)| *known == goroutine) {
        Some((_, name)) => name,
        None if server == Some(goroutine) => "the server",
        None => "the G `network`",
    };
    let events = scheduler.processors()[0].trace();
    let begin = events.iter().rposition(waits).expect("it has waited");
    for Event { when, kind, goroutine, detail } in &events[begin..] {
        let who = goroutine.map_or("", name);
        let what = match kind {
            EventKind::Park if *goroutine == Some(own) => format!("{who} parks; M{before} keeps P0"),
            EventKind::Park => format!("{who} parks"),
            EventKind::HandOff => format!("{who} blocks M{before}, and P0 is handed off"),
            EventKind::Busy => format!("M{detail} gets P0"),
            EventKind::Timer => "a timer is due".into(),
            EventKind::Device => format!("the link has a frame for {who}"),
            EventKind::Ready => format!("{who} is runnable"),
            EventKind::Start | EventKind::SyscallExit => format!("{who} runs"),
            EventKind::Preempt if server.is_none() => format!("the call has ended, and {who} is displaced"),
            EventKind::Preempt => format!("{who} is displaced"),
            EventKind::SyscallReturn => format!("the call ends; M{detail} has no P, and {who} is runnable"),
            _ => continue,
        };
        println!("   {:>5} us  {what}", (*when - events[begin].when).as_micros());
        if *kind == EventKind::Start && *goroutine == Some(own) {
            break;
        }
    }
    let more = scheduler.machines().count() - machines;
    println!("   The client waited on M{before}, and continues on M{after}. The other G ran on M{on}. New Ms: {more}.");
}

/// Returns the number of the M that the calling G runs on.
fn machine() -> u32 {
    Pinned::<Kernel>::new().machine().id().get()
}
