//! Events of the host's sockets that are announced late, as on a busy host: the poller's thread pauses between the time at
//! which it gets them and the time at which it wakes Gs.
//!
//! This test is alone in its process, because it replaces a function of the C library.

#![cfg(target_os = "linux")]

use std::ffi::{c_int, c_long, c_void};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use gmp_sched::native;
use kernel::net::{TcpListener, TcpStream};
use kernel::prelude::{select, sleep};

/// The pause of the poller's thread.
const PAUSE: Duration = Duration::from_millis(20);
/// How often the poller's thread has paused.
static PAUSES: AtomicU32 = AtomicU32::new(0);

/// Replaces the C function by which the poller waits.
#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_wait(epoll: c_int, events: *mut c_void, most: c_int, limit: c_int) -> c_int {
    unsafe extern "C" {
        fn syscall(number: c_long, ...) -> c_long;
    }
    const SYS_EPOLL_PWAIT: c_long = if cfg!(target_arch = "x86_64") { 281 } else { 22 };
    let (no_signals, bytes) = (std::ptr::null::<c_void>(), 8_usize);
    // SAFETY: these are the arguments of this system call, which the caller has chosen except for the signals.
    let count = unsafe { syscall(SYS_EPOLL_PWAIT, epoll, events, most, limit, no_signals, bytes) } as c_int;
    if count > 0 {
        PAUSES.fetch_add(1, Ordering::Relaxed);
        thread::sleep(PAUSE);
    }
    count
}

/// A G reads what has arrived while the poller's thread still pauses. When that thread continues, a select must not say
/// that a read need not wait.
#[test]
fn select_does_not_announce_what_was_read() {
    // SAFETY: the threads of the test stay alive until the process ends.
    unsafe { native::enter() }.run(2, || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr()).unwrap();
        let (far, _) = listener.accept().unwrap();
        for _ in 0..20 {
            near.write_all(b"x").unwrap();
            sleep(PAUSE / 4);
            far.readable().unwrap().recv().unwrap();
            assert_eq!(far.read(&mut [0; 10]), Ok(1));
            let readable = far.readable().unwrap();
            select! {
                recv(readable) -> _ => panic!("nothing has arrived"),
                timeout(2 * PAUSE) => {}
            }
        }
        assert_ne!(PAUSES.load(Ordering::Relaxed), 0, "the poller does not call the function that is replaced");
    });
}
