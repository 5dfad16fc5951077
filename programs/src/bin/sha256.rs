//! Prints for each disk what `sha256sum` prints for its file: `cargo run -- --disk FILE sha256`.
//!
//! A disk is read in chunks, each by a G of its own, a bounded number of them at a time: while a G waits for the device
//! its M waits with it, and its P runs other Gs. All CPUs take part in the hashing, but those of one disk take turns:
//! SHA-256 is a chain, so the state goes from the G of one chunk to the G of the next, which joins it, while the Gs after
//! that read. Only different disks are hashed at the same time.
//!
//! With `--verbose` it then shows how many chunks each CPU hashed, and what the scheduler did.

#![no_std]
#![no_main]

extern crate alloc;

use alloc::sync::Arc;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gmp_sched::goroutine::{Goroutine, WaitReason};
use gmp_sched::park::{park, ready};
use kernel::disk::{Disk, DiskError, disks};
use kernel::percpu;
use kernel::platform::{Kernel, scheduler};
use kernel::prelude::*;
use kernel::sync::InterruptMutex;
use sha2::{Digest, Sha256};

kernel::main!(main);

/// What one G reads and hashes.
const CHUNK: usize = 64 * 1024;
/// Chunks of a disk that are under way at once.
const CHUNKS_AHEAD: usize = 16;

fn main(args: &[&str]) -> i32 {
    let verbose = match args {
        [] => false,
        ["--verbose"] => true,
        _ => return usage(),
    };
    if disks().is_empty() {
        return usage();
    }
    let sums: Vec<_> = disks().iter().map(|disk| (disk, go(move || sum(disk)))).collect();
    let mut status = 0;
    for (disk, sum) in sums {
        match sum.join().expect("no G of this program panics") {
            Ok(sum) => println!("{}", Line { sum, name: disk.name() }),
            Err(error) => {
                println!("sha256: {}: {error}", disk.name());
                status = 1;
            }
        }
    }
    if verbose {
        report();
    }
    status
}

fn usage() -> i32 {
    println!("usage: cargo run -- --disk FILE [--disk FILE]... sha256 [--verbose]");
    1
}

/// The digest of a file.
type Sum = [u8; 32];

/// A disk could not be read to its end.
#[derive(Clone, Copy, Debug)]
struct ReadError {
    offset: u64,
    cause: Cause,
}

#[derive(Clone, Copy, Debug)]
enum Cause {
    Disk(DiskError),
    EndedEarly,
    OutOfMemory,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot read at offset {}: ", self.offset)?;
        match self.cause {
            Cause::Disk(error) => error.fmt(f),
            Cause::EndedEarly => f.write_str("the disk is shorter than it should be"),
            Cause::OutOfMemory => f.write_str("out of memory"),
        }
    }
}

/// Hashes a disk.
fn sum(disk: &'static Disk) -> Result<Sum, ReadError> {
    let window = Arc::new(Window::new());
    let mut last: Option<JoinHandle<Result<Sha256, ReadError>>> = None;
    let mut offset = 0;
    while offset < disk.len_bytes() && !window.is_abandoned() {
        window.enter();
        let (window, previous) = (window.clone(), last.take());
        last = Some(go(move || {
            let state = hash_chunk(disk, offset, previous);
            window.leave(state.is_err());
            state
        }));
        offset += CHUNK as u64;
    }
    let state = match last {
        Some(last) => join(last)?,
        None => Sha256::new(),
    };
    Ok(state.finalize().into())
}

/// Reads the chunk at `offset`, waits for its turn, and hashes it.
fn hash_chunk(
    disk: &Disk,
    offset: u64,
    previous: Option<JoinHandle<Result<Sha256, ReadError>>>,
) -> Result<Sha256, ReadError> {
    let chunk = read(disk, offset);
    let mut state = match previous {
        Some(previous) => join(previous)?,
        None => Sha256::new(),
    };
    state.update(chunk.map_err(|cause| ReadError { offset, cause })?);
    HASHED[percpu::current().index()].fetch_add(1, Ordering::Relaxed);
    Ok(state)
}

fn read(disk: &Disk, offset: u64) -> Result<Vec<u8>, Cause> {
    let length = usize::try_from(disk.len_bytes() - offset).map_or(CHUNK, |rest| rest.min(CHUNK));
    let mut chunk = Vec::new();
    chunk.try_reserve_exact(length).map_err(|_| Cause::OutOfMemory)?;
    chunk.resize(length, 0);
    match disk.read_at(offset, &mut chunk) {
        Ok(read) if read == length => Ok(chunk),
        Ok(_) => Err(Cause::EndedEarly),
        Err(error) => Err(Cause::Disk(error)),
    }
}

fn join<T: Send>(handle: JoinHandle<T>) -> T {
    handle.join().expect("no G of this program panics")
}

/// Bounds how many chunks are under way: a semaphore for one G that enters and many that leave, on the scheduler's bare
/// park and ready.
struct Window {
    state: InterruptMutex<WindowState>,
    /// A chunk could not be read: those after it are of no use.
    abandoned: AtomicBool,
}

struct WindowState {
    free: usize,
    waiting: Option<&'static Goroutine<Kernel>>,
}

impl Window {
    fn new() -> Self {
        let state = WindowState { free: CHUNKS_AHEAD, waiting: None };
        Self { state: InterruptMutex::new(state), abandoned: AtomicBool::new(false) }
    }

    /// Waits until there is room for one more.
    fn enter(&self) {
        park::<Kernel>(WaitReason::Parked, |_, me| {
            let mut state = self.state.lock();
            if state.free > 0 {
                state.free -= 1;
                return false;
            }
            // Whoever leaves next does not free its place, but lets us have it.
            state.waiting = Some(me);
            true
        });
    }

    fn leave(&self, abandon: bool) {
        self.abandoned.fetch_or(abandon, Ordering::Relaxed);
        let waiting = {
            let mut state = self.state.lock();
            let waiting = state.waiting.take();
            if waiting.is_none() {
                state.free += 1;
            }
            waiting
        };
        if let Some(waiting) = waiting {
            // SAFETY: its own commit put it there, and it was taken out under the lock: nobody else has it.
            unsafe { ready(waiting) };
        }
    }

    fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }
}

/// A line as `sha256sum` prints it: names that would break it are escaped, which a backslash at its beginning says.
struct Line<'a> {
    sum: Sum,
    name: &'a str,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.contains(['\\', '\n', '\r']) {
            f.write_str("\\")?;
        }
        self.sum.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("  ")?;
        self.name.chars().try_for_each(|character| match character {
            '\\' => f.write_str("\\\\"),
            '\n' => f.write_str("\\n"),
            '\r' => f.write_str("\\r"),
            _ => write!(f, "{character}"),
        })
    }
}

/// As many as a machine has CPUs at most.
const CPUS: usize = 255;
/// Chunks hashed by each CPU.
static HASHED: [AtomicU64; CPUS] = [const { AtomicU64::new(0) }; CPUS];

fn report() {
    println!();
    for (cpu, hashed) in HASHED.iter().enumerate().take(num_cpu()) {
        println!("CPU {cpu} hashed {} chunks", hashed.load(Ordering::Relaxed));
    }
    let Some(scheduler) = scheduler() else { return };
    let counts = scheduler.counts();
    println!("{} Ps were handed to other Ms, of which there are {}", counts.handoffs, scheduler.machines().count());
    println!("{} steals, {} parks, {} wake-ups of idle Ms", counts.steals, counts.parks, counts.wakes);
}
