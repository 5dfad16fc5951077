//! Threads of Ms that are made without the standard library.
//!
//! For each thread, the standard library maps an alternate stack, and lets the C library map the thread's own stack.
//! Such a thread takes one and a half times as much CPU time (`docs/manual/comparison-threads.md`). But only a thread
//! that the standard library makes has the output capture of Rust's test harness. The harness runs each test on a
//! thread of its own, so the main thread of the process has no capture to pass on. Therefore a run that begins on the
//! main thread makes its threads here, and other runs make them in [`starting`](super::starting).
//!
//! A thread that is made here takes no lock of a library before its M runs. So its maker need not wait for it.

use alloc::boxed::Box;
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr;
use std::io::Write as _;
use std::process;
use std::sync::Mutex;

use super::overflow::AlternateStack;
use super::park::Thread;
use super::platform::run_machine;
use super::stack::{self, PAGE};
use super::{Native, lock};
use crate::base::error::OutOfResources;
use crate::entities::machine::NewMachine;

/// What a new thread is told. It is freed when the thread ends, because a new thread must not wait for the allocator.
struct Start {
    machine: NewMachine<Native>,
    token: &'static Thread,
    alternate: Option<AlternateStack>,
    stack: Range<usize>,
}

/// A thread that has nothing left to do but to end, and its stack.
struct Ended {
    thread: libc::pthread_t,
    stack: Range<usize>,
}

/// The thread that has ended last. Its stack is used again when the next thread has waited for its end.
static LAST_ENDED: Mutex<Option<Ended>> = Mutex::new(None);

/// Whether a test harness may capture the output of the calling thread.
pub(super) fn may_capture_output() -> bool {
    // SAFETY: the call has no requirements.
    let thread = unsafe { libc::gettid() };
    thread.cast_unsigned() != process::id()
}

/// Makes the thread of an M.
pub(super) fn start(
    machine: NewMachine<Native>,
    token: &'static Thread,
    alternate: Option<AlternateStack>,
) -> Result<(), OutOfResources> {
    let stack = stack::allocate_for_thread(stack::DEFAULT)?;
    let pages = stack.start.next_multiple_of(PAGE)..stack.end / PAGE * PAGE;
    let start = Box::into_raw(Box::new(Start { machine, token, alternate, stack }));
    let mut attributes = MaybeUninit::uninit();
    let mut thread = 0;
    // SAFETY: this initialises the attributes.
    unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) };
    let base = ptr::with_exposed_provenance_mut(pages.start);
    // SAFETY: the attributes are initialised. The stack is memory that only the new thread uses, until it has ended.
    unsafe { libc::pthread_attr_setstack(attributes.as_mut_ptr(), base, pages.len()) };
    // SAFETY: the attributes are initialised. `begin` takes over `start`.
    let error = unsafe { libc::pthread_create(&raw mut thread, attributes.as_ptr(), begin, start.cast()) };
    // SAFETY: the attributes are initialised, and are not used any more.
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    if error != 0 {
        // SAFETY: there is no thread, so the value still belongs to this function.
        let start = unsafe { Box::from_raw(start) };
        // SAFETY: nothing uses the stack.
        unsafe { stack::release_of_thread(start.stack) };
        return Err(OutOfResources);
    }
    Ok(())
}

/// The first function of a thread.
extern "C" fn begin(start: *mut c_void) -> *mut c_void {
    // SAFETY: `start` has made the value by `Box`, for this thread alone.
    let memory = unsafe { Box::from_raw(start.cast::<MaybeUninit<Start>>()) };
    // SAFETY: the value is initialised, and is read only here.
    let Start { machine, token, alternate, stack } = unsafe { memory.assume_init_read() };
    set_name(machine.machine().id().get());
    run_machine(machine, token, alternate, || ());
    drop(memory);
    // SAFETY: the call has no requirements.
    let thread = unsafe { libc::pthread_self() };
    let before = lock(&LAST_ENDED).replace(Ended { thread, stack });
    if let Some(Ended { thread, stack }) = before {
        // SAFETY: each thread is joined once, by the thread that takes it from `LAST_ENDED`.
        unsafe { libc::pthread_join(thread, ptr::null_mut()) };
        // SAFETY: the thread has ended, so nothing uses its stack.
        unsafe { stack::release_of_thread(stack) };
    }
    ptr::null_mut()
}

/// Names the calling thread, for debuggers and `top`. Takes no lock.
fn set_name(number: u32) {
    // The system expects at most 16 bytes, of which the last is zero.
    let mut name = [0; 16];
    let _ = write!(&mut name[..15], "M{number}");
    // SAFETY: the system reads the name up to the zero.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}
