//! Prints for each disk what `sha256sum` prints for the file that is the disk: `cargo run -- --disk FILE sha256`.
//!
//! A disk is read in chunks. Each chunk has a G of its own, and the number of concurrent chunks is bounded. With
//! `--mode sync`, which is the default, each read is a system call: while a G waits for the device, its M blocks, and
//! its P runs other Gs. With `--mode async` only the G parks, and the interrupt of the device readies it.
//!
//! The state of SHA-256 after a chunk depends on all earlier chunks, so the chunks of one disk are hashed one after the
//! other. The G of a chunk gets the state of the hash by joining the G of the previous chunk. Meanwhile, the Gs of
//! later chunks read. All CPUs take part in the hashing, but only chunks of different disks are hashed in parallel.
//!
//! If standard error is a terminal, a progress bar shows how many bytes have been hashed, unless `--quiet` is given.
//! With `--verbose` the program finally prints how long the hashing took, how many chunks each CPU has hashed, and the
//! scheduler's counters.

#![no_std]
#![cfg_attr(not(test), no_main)]

extern crate alloc;

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use kernel::chan::RecvTimeoutError;
use kernel::disk::{Disk, DiskAccess, DiskError, disks};
use kernel::gmp_sched::goroutine::{Goroutine, WaitReason};
use kernel::gmp_sched::park::{park, ready};
use kernel::percpu;
use kernel::platform::{Kernel, scheduler};
use kernel::prelude::*;
use kernel::sync::InterruptMutex;
use programs::progress::Progress;
use sha2::{Digest, Sha256};

kernel::main!(main);

/// The size of the chunk that one G reads and hashes.
const CHUNK: usize = 256 * 1024;
/// The maximum number of chunks of one disk that are being read or hashed at the same time.
const CHUNKS_AHEAD: usize = 4;

fn main(args: &[&str]) -> i32 {
    let options = match Options::parse(args) {
        Ok(_) if disks().is_empty() => return usage("there is no disk"),
        Ok(options) => options,
        Err(mistake) => return usage(&mistake),
    };
    let total = disks().iter().map(Disk::len_bytes).sum();
    let start = now();
    let mut progress = Progress::new(options.quiet);
    let begin = |disk| {
        let (sender, result) = channel(1);
        let access = if options.asynchronous { Disk::asynchronous(disk) } else { disk.blocking() };
        go(move || sender.send(sum(disk, access)).expect("the main G waits for it")).detach();
        (disk, result)
    };
    let sums: Vec<(&Disk, Receiver<_>)> = disks().iter().map(begin).collect();
    let mut status = 0;
    for (disk, sum) in sums {
        let sum = loop {
            match sum.recv_until(progress.limit()) {
                Err(RecvTimeoutError::Timeout) => progress.draw(HASHED_BYTES.load(Ordering::Relaxed), total),
                sum => break sum.expect("no G of this program panics"),
            }
        };
        progress.hide();
        match sum {
            Ok(sum) => println!("{}", Line { sum, name: disk.name() }),
            Err(error) => {
                eprintln!("sha256: {}: {error}", disk.name());
                status = 1;
            }
        }
    }
    if options.verbose {
        report(now() - start);
    }
    status
}

/// What the arguments of the program request.
#[derive(Default)]
struct Options {
    asynchronous: bool,
    quiet: bool,
    verbose: bool,
}

impl Options {
    /// Parses the arguments. If they are wrong, returns a message that says why.
    fn parse(args: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut args = args.iter();
        while let Some(&arg) = args.next() {
            match arg {
                "--quiet" => options.quiet = true,
                "--verbose" => options.verbose = true,
                "--mode" => {
                    options.asynchronous = match args.next() {
                        Some(&"sync") => false,
                        Some(&"async") => true,
                        Some(mode) => return Err(format!("there is no mode `{mode}`")),
                        None => return Err("`--mode` needs a value".to_owned()),
                    }
                }
                _ => return Err(format!("there is no option `{arg}`")),
            }
        }
        Ok(options)
    }
}

fn usage(mistake: &str) -> i32 {
    eprintln!("sha256: {mistake}");
    eprintln!("usage: cargo run -- --disk FILE [--disk FILE]... sha256 [--mode sync|async] [--quiet] [--verbose]");
    1
}

/// The SHA-256 digest of a disk.
type Sum = [u8; 32];

/// The error of a disk that could not be read completely.
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

/// Hashes a disk and returns the digest.
fn sum(disk: &'static Disk, access: DiskAccess<'static>) -> Result<Sum, ReadError> {
    let permits = Arc::new(Permits::new());
    let mut last: Option<JoinHandle<Result<Sha256, ReadError>>> = None;
    let mut offset = 0;
    // An empty disk has one chunk, which is empty. Reading it returns an error if the disk cannot be used.
    while offset == 0 || offset < disk.len_bytes() && !permits.is_abandoned() {
        permits.acquire();
        let (permits, previous) = (permits.clone(), last.take());
        last = Some(go(move || {
            let state = hash_chunk(disk, access, offset, previous);
            permits.release(state.is_err());
            state
        }));
        offset += CHUNK as u64;
    }
    let last = last.expect("every disk has a chunk");
    Ok(join(last)?.finalize().into())
}

/// Reads the chunk at `offset`, waits for the state after the previous chunk, and hashes the chunk.
fn hash_chunk(
    disk: &Disk,
    access: DiskAccess<'_>,
    offset: u64,
    previous: Option<JoinHandle<Result<Sha256, ReadError>>>,
) -> Result<Sha256, ReadError> {
    let chunk = read(disk, access, offset);
    let mut state = match previous {
        Some(previous) => join(previous)?,
        None => Sha256::new(),
    };
    let chunk = chunk.map_err(|cause| ReadError { offset, cause })?;
    state.update(&chunk);
    HASHED_BYTES.fetch_add(chunk.len() as u64, Ordering::Relaxed);
    HASHED[percpu::current().index()].fetch_add(1, Ordering::Relaxed);
    Ok(state)
}

fn read(disk: &Disk, access: DiskAccess<'_>, offset: u64) -> Result<Vec<u8>, Cause> {
    let length = usize::try_from(disk.len_bytes() - offset).map_or(CHUNK, |rest| rest.min(CHUNK));
    let mut chunk = Vec::new();
    chunk.try_reserve_exact(length).map_err(|_| Cause::OutOfMemory)?;
    chunk.resize(length, 0);
    match access.read_at(offset, &mut chunk) {
        Ok(read) if read == length => Ok(chunk),
        Ok(_) => Err(Cause::EndedEarly),
        Err(error) => Err(Cause::Disk(error)),
    }
}

fn join<T: Send>(handle: JoinHandle<T>) -> T {
    handle.join().expect("no G of this program panics")
}

/// Limits the number of chunks that are being read or hashed. This is a semaphore with one acquiring G and many
/// releasing Gs, built directly from park and ready.
struct Permits {
    state: InterruptMutex<PermitsState>,
    /// Whether a chunk could not be read, which makes all later chunks useless.
    abandoned: AtomicBool,
}

struct PermitsState {
    free: usize,
    waiting: Option<&'static Goroutine<Kernel>>,
}

impl Permits {
    fn new() -> Self {
        let state = PermitsState { free: CHUNKS_AHEAD, waiting: None };
        Self { state: InterruptMutex::new(state), abandoned: AtomicBool::new(false) }
    }

    /// Waits until another chunk may start.
    fn acquire(&self) {
        park::<Kernel>(WaitReason::Parked, |_, me| {
            let mut state = self.state.lock();
            if state.free > 0 {
                state.free -= 1;
                return false;
            }
            // The next call of `release` passes its permit to this G.
            state.waiting = Some(me);
            true
        });
    }

    fn release(&self, abandon: bool) {
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
            // SAFETY: the closure in `acquire` has stored this G, and `park` calls that closure only after it has saved
            // the context of the G. So the G has left its stack. `take` has removed the G from the state under the
            // lock, so no other code readies it. The closure uses nothing of the G after it has released the lock.
            unsafe { ready(waiting) };
        }
    }

    fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }
}

/// A line in the format of `sha256sum`. If the name contains special characters, they are escaped, and the line begins
/// with a backslash.
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

/// The number of bytes of all disks that have been hashed.
static HASHED_BYTES: AtomicU64 = AtomicU64::new(0);
/// The maximum number of CPUs.
const CPUS: usize = 255;
/// The number of chunks that each CPU has hashed.
static HASHED: [AtomicU64; CPUS] = [const { AtomicU64::new(0) }; CPUS];

/// Prints how long the hashing took, how many chunks each CPU has hashed, and the scheduler's counters.
fn report(elapsed: Duration) {
    println!();
    println!("{} bytes in {:.3} s", HASHED_BYTES.load(Ordering::Relaxed), elapsed.as_secs_f64());
    for (cpu, hashed) in HASHED.iter().enumerate().take(num_cpu()) {
        println!("CPU {cpu} hashed {} chunks", hashed.load(Ordering::Relaxed));
    }
    let Some(scheduler) = scheduler() else { return };
    let counts = scheduler.counts();
    println!("{} Ps were handed to other Ms, of which there are {}", counts.handoffs, scheduler.machines().count());
    println!("{} steals, {} parks, {} wake-ups of idle Ms", counts.steals, counts.parks, counts.wakes);
}
