//! A library for `LD_PRELOAD` that makes QEMU do at nearly every halt what it otherwise does only on a busy host, and
//! rarely: its main loop is awake, and finds that the machine's CPU has halted before the last instructions of this CPU
//! are counted (see the kernel's `sched::idle`). For this, the main loop sleeps only for moments, and the thread that
//! executes the CPU pauses when it leaves an instruction such as `hlt`.
//!
//! The test `replay` compiles this file with `rustc`. In the folder that `BUSY_HOST` names, the library makes a file for
//! each function that it has replaced and that QEMU has called a thousand times.

use std::ffi::{CStr, c_char, c_int, c_long, c_ulong, c_void};
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, hint, mem, ptr};

/// The longest sleep of the main loop.
const NAP: Duration = Duration::from_micros(5);
/// The pause of the thread that executes the CPUs.
const PAUSE: Duration = Duration::from_micros(2);

#[repr(C)]
struct Timespec {
    seconds: c_long,
    nanoseconds: c_long,
}

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, symbol: *const c_char) -> *mut c_void;
    fn getpid() -> c_int;
    fn gettid() -> c_int;
}

/// Finds the function that would have been called without this library.
fn next(name: &CStr) -> *mut c_void {
    const RTLD_NEXT: *mut c_void = ptr::without_provenance_mut(usize::MAX);
    // SAFETY: the name ends with a zero byte, and `RTLD_NEXT` has this value on Linux.
    let function = unsafe { dlsym(RTLD_NEXT, name.as_ptr()) };
    assert!(!function.is_null(), "{name:?} is missing");
    function
}

/// Whether this process is QEMU. The library is also loaded by what starts QEMU.
fn is_qemu() -> bool {
    static IS_QEMU: LazyLock<bool> =
        LazyLock::new(|| env::current_exe().is_ok_and(|path| path.ends_with("qemu-system-x86_64")));
    *IS_QEMU
}

fn is_main_thread() -> bool {
    // SAFETY: both functions can be called at any time.
    unsafe { gettid() == getpid() }
}

fn count(calls: &AtomicU32, name: &str) {
    if calls.fetch_add(1, Ordering::Relaxed) == 1000 {
        let folder = env::var("BUSY_HOST").expect("the test has set it");
        fs::write(Path::new(&folder).join(name), "").expect("room for an empty file");
    }
}

/// Replaces the C function with which the main loop sleeps.
#[unsafe(no_mangle)]
unsafe extern "C" fn ppoll(
    files: *mut c_void,
    length: c_ulong,
    limit: *const Timespec,
    signals: *const c_void,
) -> c_int {
    type Ppoll = unsafe extern "C" fn(*mut c_void, c_ulong, *const Timespec, *const c_void) -> c_int;
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let nap = Timespec { seconds: 0, nanoseconds: NAP.subsec_nanos().into() };
    let mut limit = limit;
    // SAFETY: the caller passes null or a valid limit.
    let is_short = unsafe { limit.as_ref() }.is_some_and(|it| (it.seconds, it.nanoseconds) < (0, nap.nanoseconds));
    if is_qemu() && is_main_thread() && !is_short {
        count(&CALLS, "ppoll");
        limit = &nap;
    }
    // SAFETY: this is the type of the function, and the arguments are the caller's, or as valid as these.
    unsafe { mem::transmute::<*mut c_void, Ppoll>(next(c"ppoll"))(files, length, limit, signals) }
}

/// Does what the C function `name` does, by which the thread of the CPUs leaves an instruction, but later.
///
/// # Safety
/// The arguments must be those for the C function `siglongjmp`.
unsafe fn jump_late(name: &CStr, target: *mut c_void, value: c_int) -> ! {
    type LongJump = unsafe extern "C" fn(*mut c_void, c_int) -> !;
    static CALLS: AtomicU32 = AtomicU32::new(0);
    if is_qemu() && !is_main_thread() {
        count(&CALLS, "siglongjmp");
        let start = Instant::now();
        while start.elapsed() < PAUSE {
            hint::spin_loop();
        }
    }
    // SAFETY: this is the type of the function, the arguments are the caller's, and this frame owns nothing.
    unsafe { mem::transmute::<*mut c_void, LongJump>(next(name))(target, value) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn siglongjmp(target: *mut c_void, value: c_int) -> ! {
    // SAFETY: the arguments are the caller's.
    unsafe { jump_late(c"siglongjmp", target, value) }
}

/// `siglongjmp` in programs that are compiled with more checks (`_FORTIFY_SOURCE`).
#[unsafe(no_mangle)]
unsafe extern "C" fn __longjmp_chk(target: *mut c_void, value: c_int) -> ! {
    // SAFETY: the arguments are the caller's.
    unsafe { jump_late(c"__longjmp_chk", target, value) }
}
