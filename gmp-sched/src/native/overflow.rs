//! Reports stack overflows of Gs. The report names the G, the size of its stack, and whether a single huge frame is the
//! cause. If so, a backtrace follows.
//!
//! The page below each stack is a guard page: touching it raises SIGSEGV. The handler runs on an alternate stack,
//! because the G's stack is exhausted, and does only what is async-signal-safe: it reads atomics and makes system
//! calls. (The standard library has such a handler, too, but it knows only the stacks of threads.)
//!
//! Then the handler diverts the G to another stack, where the G prints its backtrace (`exception`).

use core::fmt::{self, Write};
use core::ops::Range;
use core::ptr;
use std::process;
use std::sync::OnceLock;

use nix::errno::Errno;
use nix::sys::signal::{SigAction, Signal};

use super::exception::{self, Registers, Start};
use super::stack::{self, PAGE};
use super::{Native, current};
use crate::entities::goroutine::Goroutine;
use crate::report::stack_overflow::{PROBE_BYTES, Probe, Rest, StackOverflow};

/// The action that SIGSEGV had before [`install`]. If a SIGSEGV is not the overflow of a G's stack, `exception::handle`
/// uses this action.
static PREVIOUS: OnceLock<SigAction> = OnceLock::new();

/// Installs the handler, once per process.
pub(super) fn install() {
    PREVIOUS.get_or_init(|| exception::set_handler(Signal::SIGSEGV, handle));
}

/// The handler of SIGSEGV.
extern "C" fn handle(_: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    #[expect(unsafe_code, reason = "reads what the system passes to a signal handler")]
    // SAFETY: with SA_SIGINFO the system passes a valid pointer.
    let info_read = unsafe { &*info };
    #[expect(unsafe_code, reason = "reads a field of a union")]
    // SAFETY: the system has initialised the whole value, and any bits are valid in this field of the union. (They are
    // the address of an access only if the signal is that of a page fault.)
    let address = unsafe { info_read.si_addr() } as usize;
    if let Some(goroutine) = overflowed(address) {
        #[expect(unsafe_code, reason = "reads what the system passes to a signal handler")]
        // SAFETY: the system passes a valid pointer to the registers of the interrupted code, and no other reference to
        // them exists.
        let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
        return report(goroutine, registers);
    }
    exception::end_if_in_commit(Signal::SIGSEGV);
    #[expect(unsafe_code, reason = "passes on what the system passes to a signal handler")]
    // SAFETY: the system has passed both pointers to this handler of SIGSEGV.
    unsafe {
        exception::handle(Signal::SIGSEGV, PREVIOUS.get(), handle, info, context);
    }
}

/// The G that runs on this thread, if `address` is in the guard page of its stack.
fn overflowed(address: usize) -> Option<&'static Goroutine<Native>> {
    let goroutine = current::get()?.current_goroutine()?;
    let end = stack::guard_end(goroutine.stack().start);
    (end - PAGE..end).contains(&address).then_some(goroutine)
}

/// The last line of the report.
pub(super) const STACK_OVERFLOW: &str = "fatal error: stack overflow";

/// Reports the overflow. `registers` are those of the instruction that caused it. Then either ends the process, with
/// the same status as Go, or diverts the G so that it prints its backtrace before the process ends.
fn report(goroutine: &'static Goroutine<Native>, registers: &mut Registers) {
    let get = |register: libc::c_int| registers[register as usize].cast_unsigned() as usize;
    let code = get(libc::REG_RIP);
    let mut code_around = [0; 2 * PROBE_BYTES];
    let (before, at) = code_around.split_at_mut(PROBE_BYTES);
    let probe = Probe::decode(read(code - PROBE_BYTES, before), read(code, at));
    let frame_bytes = probe.map(|probe| probe.frame_bytes);
    let overflow = StackOverflow { goroutine, frame_bytes, for_main: FOR_MAIN };
    let _ = writeln!(Unbuffered, "{overflow}\n{STACK_OVERFLOW}");
    let start = start(code as u64, get(libc::REG_RSP), probe, at[0], || get(libc::REG_R11));
    // A G that overflows its stack once more has done so in the report.
    let is_diverted = exception::is_first(goroutine) && exception::divert_after_overflow(goroutine, start, registers);
    if !is_diverted {
        #[expect(unsafe_code, reason = "ends the process without running what a signal handler may not")]
        // SAFETY: `_exit` is async-signal-safe.
        unsafe {
            libc::_exit(2)
        }
    }
}

/// Where the backtrace begins after an overflow at the instruction `code`, whose first byte is `first`, with this stack
/// pointer. `r11` returns the value of R11.
fn start(code: u64, stack_pointer: usize, probe: Option<Probe>, first: u8, r11: impl FnOnce() -> usize) -> Start {
    // For each address of a backtrace, the standard library shows the line of the byte before the address, because it
    // expects return addresses. So the address is that of the second byte of an instruction.
    if let Some(probe) = probe {
        // The backtrace begins after the instructions of the probe, because they belong to no line of the program.
        let stack_pointer = match probe.rest {
            Rest::Below(bytes) => stack_pointer.wrapping_sub(bytes),
            Rest::BelowLoopEnd(bytes) => r11().wrapping_sub(bytes),
        };
        let instruction = code + probe.code_bytes as u64 + 1;
        return Start { instruction, stack_pointer: stack_pointer as u64, is_uncertain: false };
    }
    // A `push` of one byte may be the first instruction of its function, and then the byte before it belongs to another
    // function. The address after the `push` cannot be used, either, because there the stack pointer is different.
    let is_push = (0x50..0x58).contains(&first);
    Start { instruction: code + u64::from(!is_push), stack_pointer: stack_pointer as u64, is_uncertain: is_push }
}

/// How a program chooses the stack size of its main G.
const FOR_MAIN: &str = "`stack_size` of `kernel::main!` or of `native::Threads`";

/// Copies memory of this process from `address` to `buffer`, as far as it is mapped. Returns the copied bytes.
fn read(address: usize, buffer: &mut [u8]) -> &[u8] {
    let own = process::id().cast_signed();
    let into = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let from = libc::iovec { iov_base: ptr::without_provenance_mut(address), iov_len: buffer.len() };
    #[expect(unsafe_code, reason = "reads memory that may be unmapped")]
    // SAFETY: the system call writes only to `buffer`, and returns an error if the source is not mapped.
    let count = unsafe { libc::process_vm_readv(own, &raw const into, 1, &raw const from, 1, 0) };
    &buffer[..usize::try_from(count).unwrap_or(0)]
}

/// Standard error without a buffer and without a lock, because the G that is reported may hold the lock of `std`.
pub(super) struct Unbuffered;

impl Unbuffered {
    /// Writes all bytes. Stops at the first error.
    #[expect(clippy::unused_self, reason = "as in `Write`")]
    pub(super) fn put_bytes(&mut self, mut bytes: &[u8]) {
        while let [_, ..] = bytes {
            #[expect(unsafe_code, reason = "writes from a signal handler")]
            // SAFETY: the pointer and the length are those of `bytes`; `write` is async-signal-safe.
            let written = unsafe { libc::write(libc::STDERR_FILENO, bytes.as_ptr().cast(), bytes.len()) };
            match usize::try_from(written) {
                Ok(written @ 1..) => bytes = &bytes[written..],
                Ok(0) => return,
                Err(_) if Errno::last() == Errno::EINTR => {}
                Err(_) => return,
            }
        }
    }
}

impl Write for Unbuffered {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.put_bytes(text.as_bytes());
        Ok(())
    }
}

/// Standard error with a buffer, so that a report consists of few writes.
pub(super) struct Buffered {
    bytes: [u8; 1024],
    length: usize,
}

impl Buffered {
    pub(super) fn new() -> Self {
        Self { bytes: [0; 1024], length: 0 }
    }

    pub(super) fn flush(&mut self) {
        Unbuffered.put_bytes(&self.bytes[..self.length]);
        self.length = 0;
    }
}

impl Write for Buffered {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &byte in text.as_bytes() {
            if self.length == self.bytes.len() {
                self.flush();
            }
            self.bytes[self.length] = byte;
            self.length += 1;
        }
        Ok(())
    }
}

/// An alternate stack for a thread. Threads of Rust's standard library may already have one, but it may be too small:
/// while a G is preempted, a handler waits on the alternate stack, and handlers of other signals run on top of it.
pub(super) struct AlternateStack(Range<usize>);

/// The least size of an alternate stack, without what the system saves for each signal. It is enough for the handlers.
const ALTERNATE_BYTES: usize = 64 * 1024;

impl AlternateStack {
    /// Allocates a stack. Returns `None` if there is no memory for it. Then an overflow may end the process without a
    /// report.
    pub(super) fn allocate() -> Option<Self> {
        // The room for the registers that the system saves, for several signals at the same time.
        #[expect(unsafe_code, reason = "asks for a property of the system")]
        // SAFETY: the call has no requirements.
        let frame = usize::try_from(unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) }).unwrap_or(0);
        stack::allocate_for_thread(ALTERNATE_BYTES + 4 * frame).ok().map(Self)
    }

    /// Makes this the alternate stack of the calling thread, until the returned value is dropped. Takes no lock.
    pub(super) fn install(self) -> InstalledStack {
        let base = ptr::with_exposed_provenance_mut(self.0.start);
        let new = libc::stack_t { ss_sp: base, ss_flags: 0, ss_size: self.0.len() };
        let mut before = NO_STACK;
        #[expect(unsafe_code, reason = "changes the alternate stack")]
        // SAFETY: the new stack is memory that only this thread uses until the returned value is dropped, which sets the
        // old one again.
        unsafe {
            libc::sigaltstack(&raw const new, &raw mut before);
        }
        InstalledStack { before, _stack: self }
    }
}

impl Drop for AlternateStack {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "releases the alternate stack")]
        // SAFETY: `allocate` allocated this stack. If it has been installed, the `InstalledStack` has been dropped first.
        unsafe {
            stack::release_of_thread(self.0.clone());
        }
    }
}

/// The alternate stack of the calling thread until this value is dropped.
pub(super) struct InstalledStack {
    before: libc::stack_t,
    _stack: AlternateStack,
}

const NO_STACK: libc::stack_t = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };

impl Drop for InstalledStack {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "changes the alternate stack")]
        // SAFETY: the standard library keeps the old stack, if there is one, until the thread ends.
        unsafe {
            libc::sigaltstack(&raw const self.before, ptr::null_mut());
        }
    }
}
