//! The trace of a run in a file, as the environment variable `GMP_TRACE` requests.

use std::env;
use std::format;
use std::fs::{File, TryLockError};
use std::io;
use std::mem;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Native;
use super::schedtrace::print;
use crate::base::atomic::AtomicU64;
use crate::entities::scheduler::Scheduler;

/// The environment variable that contains the name of the file.
const VARIABLE: &str = "GMP_TRACE";

/// The size of the file.
const BYTES: usize = 128 << 20;

/// If the environment variable requests it, starts the trace of `scheduler` in the file. Only the first call in a
/// process does so. Called by the main G when it begins to run. If the trace cannot be started, prints a message.
pub(super) fn start_as_requested(scheduler: &'static Scheduler<Native>) {
    static IS_STARTED: AtomicBool = AtomicBool::new(false);
    let Some(name) = env::var_os(VARIABLE).filter(|name| !name.is_empty()) else { return };
    if IS_STARTED.swap(true, Ordering::Relaxed) {
        return;
    }
    let started = map(name.as_ref())
        .and_then(|memory| scheduler.start_trace_in(memory).map_err(|_| io::ErrorKind::OutOfMemory.into()));
    if let Err(error) = started {
        print(format_args!("{VARIABLE}: cannot write the trace to {}: {error}", name.display()));
    }
}

/// Makes the file, reserves its space, and maps it. Without the reservation, the process would get SIGBUS if the file
/// system were full when an event is recorded. It would also get SIGBUS if a second process with the same file emptied
/// it, so the file is locked until this process ends. However the process ends, the operating system writes the
/// contents of the mapped memory to the file.
#[expect(unsafe_code, reason = "maps memory")]
fn map(name: &Path) -> io::Result<&'static [AtomicU64]> {
    let file = File::options().read(true).write(true).create(true).truncate(false).open(name)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
        return Err(io::Error::other("another process writes a trace to it"));
    }
    file.set_len(0)?;
    if let Err(error) = reserve(&file) {
        // An error is ignored: the file then only keeps some space.
        let _ = file.set_len(0);
        return Err(io::Error::other(format!("no room for {} MiB: {error}", BYTES >> 20)));
    }
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address chosen by the system affects no existing memory.
    let base = unsafe { libc::mmap(ptr::null_mut(), BYTES, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // If the file were closed, it would not be locked any more.
    mem::forget(file);
    // SAFETY: the mapping is never removed, is aligned to pages, and has this size. Every content is valid for atomics,
    // through which this process accesses it. (If another process makes the file shorter, an access is reported as an
    // exception of the program.)
    Ok(unsafe { core::slice::from_raw_parts(base.cast(), BYTES / size_of::<AtomicU64>()) })
}

/// Gives the file its size, and reserves space for all of it.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "calls a function of libc")]
fn reserve(file: &File) -> io::Result<()> {
    loop {
        // SAFETY: the call only changes the file, which is open.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, BYTES as libc::off_t) } {
            0 => return Ok(()),
            libc::EINTR => {}
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// Gives the file its size, and reserves space for all of it, by writing zeros.
#[cfg(not(target_os = "linux"))]
fn reserve(mut file: &File) -> io::Result<()> {
    io::copy(&mut io::Read::take(io::repeat(0), BYTES as u64), &mut file).map(drop)
}
