//! Runs code that may never return in a copy of the process, so that the process itself can still end.
//!
//! A G that is reported after an exception may hold any lock of the process. A backtrace with names needs locks: those
//! of `std` and of the allocator. If the G that asks for a lock holds it, it would wait for ever. Another thread that
//! asks for the lock could not distinguish this from a short wait. But a copy of the process has only one thread. If
//! that thread has to wait for a lock, no other thread will unlock it. So the system ends the copy as soon as it waits.

use core::ptr;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::Signal;

use super::exception::set_default;

/// The number of copies that are tried. A copy contains the locks that other threads held at the moment of the copy,
/// which these threads unlock meanwhile in the process itself.
const COPIES: u32 = 3;

/// Runs `body` in a copy of this process whose only thread is the caller. Returns whether `body` has returned there.
/// The copy is ended if it waits for a lock, raises an exception or takes too long.
///
/// Waits for the end of the copy. Takes no lock and does not allocate. What `body` changes in memory is lost.
pub(super) fn run(body: impl Fn()) -> bool {
    (0..COPIES).any(|copy| {
        if copy > 0 {
            thread::sleep(Duration::from_millis(10));
        }
        run_once(&body)
    })
}

fn run_once(body: &impl Fn()) -> bool {
    // The function `fork` is not used, because it takes locks and calls functions of the program. The end of the copy
    // sends no signal, because the program may have a handler for that signal.
    // SAFETY: without flags, the system call copies the process, and the caller continues in both.
    let copy = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) };
    match libc::pid_t::try_from(copy) {
        Ok(0) => {
            let is_limited = limit();
            if is_limited {
                body();
            }
            // SAFETY: `_exit` is async-signal-safe.
            unsafe { libc::_exit(libc::c_int::from(!is_limited)) }
        }
        Ok(copy @ 1..) => wait(copy),
        _ => false,
    }
}

/// Waits for the end of a copy, and returns whether it has ended with status 0.
fn wait(copy: libc::pid_t) -> bool {
    let mut status = -1;
    // SAFETY: `status` is valid for writes. `__WALL` includes processes whose end sends no signal.
    while unsafe { libc::waitpid(copy, &raw mut status, libc::__WALL) } == -1 {
        if Errno::last() != Errno::EINTR {
            return false;
        }
    }
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

/// Called in the copy. Ensures that the copy ends in any case. Returns whether that has succeeded.
fn limit() -> bool {
    // The program's handlers are for the process, and not for its copy.
    for signal in [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGFPE, Signal::SIGILL, Signal::SIGABRT] {
        set_default(signal);
    }
    // Ends a thread that spins for a lock. Finding the names takes less than a second.
    let is_limited = set_limit(libc::RLIMIT_CPU, 20) && set_limit(libc::RLIMIT_CORE, 0);
    is_limited && forbid_waits()
}

fn set_limit(resource: libc::__rlimit_resource_t, limit: libc::rlim_t) -> bool {
    let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
    // SAFETY: the pointer is valid.
    unsafe { libc::setrlimit(resource, &raw const limit) == 0 }
}

/// Makes the system end this process when it waits for a lock or sleeps.
fn forbid_waits() -> bool {
    const fn load(offset: u32) -> libc::sock_filter {
        operation(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0, 0)
    }
    /// Continues after `jt` more operations if the loaded number equals `k`, otherwise after `jf`.
    const fn compare(k: libc::c_long, jt: u8, jf: u8) -> libc::sock_filter {
        operation(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, k as u32, jt, jf)
    }
    const fn operation(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
        libc::sock_filter { code: code as u16, jt, jf, k }
    }
    /// The offsets in `seccomp_data` of the number of the system call and of the lower half of its second argument.
    const NUMBER: u32 = 0;
    const SECOND_ARGUMENT: u32 = 24;
    /// The part of the second argument of `futex` that is not flags.
    const COMMAND: libc::c_int = !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
    static FILTER: [libc::sock_filter; 9] = [
        load(NUMBER),
        compare(libc::SYS_nanosleep, 5, 0),
        compare(libc::SYS_clock_nanosleep, 4, 0),
        compare(libc::SYS_futex, 0, 4),
        load(SECOND_ARGUMENT),
        operation(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, COMMAND as u32, 0, 0),
        compare(libc::FUTEX_WAKE as libc::c_long, 1, 0),
        operation(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_KILL_PROCESS, 0, 0),
        operation(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let program =
        libc::sock_fprog { len: FILTER.len() as libc::c_ushort, filter: ptr::from_ref(&FILTER).cast_mut().cast() };
    // SAFETY: from this call on, the process cannot gain privileges. That is all that the call changes.
    let is_restrictable = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } == 0;
    // SAFETY: the system only reads the filter.
    is_restrictable && unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) } == 0
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn copy_that_returns_is_distinguished_from_one_that_cannot() {
        let lock = Mutex::new(());
        assert!(run(|| drop(lock.lock())));
        let held = lock.lock();
        assert!(!run(|| drop(lock.lock())), "this thread holds the lock");
        drop(held);
        assert!(!run(|| thread::sleep(Duration::from_secs(1_000_000))));
        assert!(!run(|| std::process::abort()));
        // SAFETY: the copy ends.
        assert!(!run(|| unsafe { core::arch::asm!("ud2") }));
    }
}
