//! Asynchronous preemption on the return from an interrupt: takes the CPU from a G at any instruction of user code. For
//! kernels; see [`porting`](crate::porting).
//!
//! An interrupt handler cannot switch to another G, because it runs on the CPU's interrupt stack, which the next
//! interrupt reuses. Instead it *diverts* the interrupted G. [`on_interrupt_return`] stores the G's RIP, RFLAGS, RSP
//! and RDI in the [`Slots`] of the CPU. Then it changes the frame to which the handler returns, so that the G continues
//! at an entry in this crate, on its own stack, pinned and with interrupts off. The entry saves all registers on that
//! stack and calls [`preempt::give_way`], which switches as for a yield. When the G is resumed, perhaps on another CPU,
//! the entry restores the registers and returns to the interrupted instruction by `iretq`.
//!
//! The handler writes nothing to the stack of the G, so the stack's pages may be mapped on first touch. Nothing is
//! written to the red zone, the 128 bytes below the interrupted stack pointer, in which code may keep data.
//!
//! Only *user code* is diverted. User code runs without a pin, and its stack pointer is inside the stack of the current
//! G. A request that comes while the G is pinned stays pending until [`honour_requests`] is called, when the last pin
//! is lowered.
//!
//! The entry saves the general registers, x87 and SSE. It does not save the registers of AVX and later extensions, so a
//! kernel that uses this module must leave these extensions turned off (CR4.OSXSAVE clear). On targets without SSE the
//! entry saves the general registers only.
//!
//! ```
//! use gmp_sched::interrupt_return::{self, Interrupted, InterruptReturn};
//!
//! /// The registers that the stub of a handler has pushed, followed by the frame that the processor has pushed.
//! #[repr(C)]
//! struct TrapFrame {
//!     rdi: u64,
//!     // The other registers.
//!     rip: u64,
//!     cs: u64,
//!     rflags: u64,
//!     rsp: u64,
//!     ss: u64,
//! }
//!
//! /// Called by the stub of the timer's interrupt, with interrupts off, on the interrupt stack.
//! extern "sysv64" fn timer<Kernel: InterruptReturn>(frame: &mut TrapFrame) {
//!     // Here the handler calls `preempt::tick`, records a request, and signals the end of the interrupt. Last:
//!     let TrapFrame { rdi, rip, cs, rflags, rsp, ss } = frame;
//!     let interrupted = Interrupted { rip, cs: *cs, rflags, rsp, ss: *ss, rdi };
//!     // SAFETY: this is the end of the handler of a maskable interrupt. The stub pops the registers from the frame
//!     // and returns by `iretq`. Every stack has a reserve.
//!     unsafe { interrupt_return::on_interrupt_return::<Kernel>(interrupted) };
//! }
//! ```

use crate::context::diverted;
pub use crate::context::diverted::{ENTRY_STACK, Interrupted, MODES, RED_ZONE, Slots};
use crate::engine::preempt;
use crate::entities::machine::Machine;
use crate::platform::{Pinned, Platform};

/// A platform on which interrupts preempt Gs.
///
/// # Safety
///
/// - [`slots`](Self::slots) returns the [`Slots`] of the calling CPU. Each CPU has its own, and only this crate uses
///   them.
/// - [`is_pinned`](Self::is_pinned) returns `true` while a pin is raised on the calling CPU, and while there is another
///   reason for which the CPU must not switch.
/// - [`red_zone`](Self::red_zone) returns at least the number of bytes that the code at `rip` uses below its stack
///   pointer.
pub unsafe trait InterruptReturn: Platform {
    /// Returns the [`Slots`] of the calling CPU. Called with interrupts off.
    fn slots() -> &'static Slots;

    /// Returns `true` if the interrupted code may not be preempted, because a pin is raised on this CPU or because
    /// another handler was interrupted. Called in a handler, with interrupts off.
    fn is_pinned() -> bool;

    /// Whether a preemption was requested on this CPU and not withdrawn. Called in handlers and in Gs. If the caller
    /// may be preempted, the answer may be outdated.
    fn is_requested() -> bool;

    /// Withdraws the request for a preemption on this CPU. Called pinned.
    fn withdraw_request();

    /// Undoes one [`raise_pin`](Platform::raise_pin), like [`lower_pin`](Platform::lower_pin), but honours no request.
    ///
    /// # Safety
    ///
    /// The requirements of [`lower_pin`](Platform::lower_pin) apply. In addition, the caller checks for a request
    /// afterwards, or the calling G returns to the interrupted code at once.
    unsafe fn lower_pin_quietly();

    /// Returns how many bytes below the stack pointer must be preserved if the code at `rip` is interrupted. May return
    /// 0 if all code, including `core`, is compiled without a red zone.
    fn red_zone(rip: u64) -> u64 {
        let _ = rip;
        RED_ZONE
    }

    /// Lets the calling G give way. When this function returns, the G is pinned again, perhaps on another CPU. A kernel
    /// whose CPUs also run threads that are not Ms overrides this function, because such a thread may have to run
    /// first.
    ///
    /// # Safety
    ///
    /// The caller is a G in user code, on its own stack, pinned exactly once, with interrupts on.
    unsafe fn give_way(pinned: Pinned<Self>) -> Pinned<Self> {
        preempt::give_way(pinned)
    }
}

/// If a preemption is requested and the interrupted G can be preempted now, makes the G give way. Must be the last call
/// in the handler of *every* maskable interrupt, after the end-of-interrupt was signalled. Does not block or allocate.
///
/// # Safety
///
/// The requirements of [`divert`] apply. In addition, the interrupt is maskable and is not an exception.
pub unsafe fn on_interrupt_return<Plat: InterruptReturn>(interrupted: Interrupted<'_>) {
    if Plat::is_requested() {
        // SAFETY: the caller guarantees what `divert` requires of the handler. `give_way` may be called at any
        // instruction of user code, and returns pinned once, as `divert` requires of its function.
        unsafe { divert::<Plat>(interrupted, give_way::<Plat>) };
    }
}

/// Diverts the interrupted G if it is in user code and its stack has room. The diverted G calls `function`, and then
/// gives way as long as a preemption is requested. Returns whether the G is diverted; if not, nothing has changed. Does
/// not block or allocate.
///
/// # Safety
///
/// - The caller is at the end of a handler in ring 0, with interrupts off, on another stack than the interrupted code.
///   The interrupted code had interrupts on. After this call the handler restores all registers and returns by `iretq`.
///   If a register is a field of `interrupted`, the handler takes its value from the memory to which that field refers.
///   Until `iretq` the handler does not turn interrupts on and does not switch.
/// - Below the [stack](crate::goroutine::Goroutine::stack) of every G there is room for [`ENTRY_STACK`] bytes, for
///   `function`, and for the scheduler. (In the kernel of this project this room is 16 KiB. The need was measured with
///   and without optimisation.)
/// - `function` is sound to call at any instruction of a G's user code, pinned once and with interrupts on. It must
///   return in the same state, perhaps on another CPU.
pub unsafe fn divert<Plat: InterruptReturn>(interrupted: Interrupted<'_>, function: extern "sysv64" fn()) -> bool {
    if Plat::is_pinned() {
        return false;
    }
    // A G in the entry is pinned or has interrupts off, so it is not diverted a second time. If it were, each
    // preemption could save another set of registers below the last one, until the stack overflows.
    let is_in_entry = diverted::is_in_entry(*interrupted.rip);
    assert!(!is_in_entry, "a G was diverted while it was still in the entry of a diversion");
    let Some(goroutine) = Plat::current_machine().and_then(Machine::current_goroutine) else { return false };
    let stack = goroutine.stack();
    // The room below a stack is for the entry and the functions that it calls. If the G's own stack pointer is in that
    // room, the G is about to overflow its stack and is not diverted.
    if !(stack.start as u64..=stack.end as u64).contains(&*interrupted.rsp) {
        return false;
    }
    // SAFETY: the diverted code lowers this pin, when it has given way.
    unsafe { Plat::raise_pin() };
    let red_zone = Plat::red_zone(*interrupted.rip);
    Plat::slots().divert(interrupted, red_zone, run_diverted::<Plat>, function);
    true
}

/// Calls `function`, and then gives way as long as a preemption is requested. Called by the entry, pinned once. Returns
/// unpinned, with interrupts off. Interrupts must stay off until `iretq`, because a preemption before `iretq` would
/// save another set of registers on the stack. If that happened again and again, the stack would overflow.
extern "sysv64" fn run_diverted<Plat: InterruptReturn>(function: extern "sysv64" fn()) {
    function();
    // SAFETY: the entry runs in ring 0, as the caller of `divert` guarantees.
    unsafe { diverted::disable_interrupts() };
    while Plat::is_requested() {
        // SAFETY: the entry runs in ring 0, as the caller of `divert` guarantees. The G is pinned, so an interrupt
        // cannot divert it.
        unsafe { diverted::enable_interrupts() };
        give_way::<Plat>();
        // SAFETY: the entry runs in ring 0, as the caller of `divert` guarantees.
        unsafe { diverted::disable_interrupts() };
    }
    // SAFETY: `divert` has raised this pin for the G. The entry returns to the interrupted code at once.
    unsafe { Plat::lower_pin_quietly() };
}

/// Makes the calling G give way once. The caller is a G in user code, pinned once, with interrupts on. The
/// caller is still pinned once when this function returns.
extern "sysv64" fn give_way<Plat: InterruptReturn>() {
    Plat::withdraw_request();
    // SAFETY: the caller is pinned. `pinned` is forgotten below instead of dropped, so only the caller lowers the pin.
    let pinned = unsafe { Pinned::adopt() };
    // SAFETY: the calling G is in user code. If `run_diverted` is the caller, `divert` has checked this. If
    // `honour_requests` is the caller, it has checked that it runs on a G without another pin, and that interrupts are
    // on.
    let pinned = unsafe { Plat::give_way(pinned) };
    core::mem::forget(pinned);
}

/// Makes the calling G give way as long as a preemption is requested. Called by [`lower_pin`](Platform::lower_pin)
/// after the last pin of the CPU has been lowered, if there is a request. While interrupts are off, a G must not be
/// switched out. In that case this function does nothing, and the next interrupt honours the request. On g0, and on a
/// thread that is not an M, this function only withdraws the request.
///
/// # Panics
///
/// The caller holds a pin, or may not block for another reason.
#[cold]
#[track_caller]
pub fn honour_requests<Plat: InterruptReturn>() {
    if !diverted::are_interrupts_on() {
        return;
    }
    loop {
        // SAFETY: `lower_pin_quietly` below lowers this pin.
        unsafe { Plat::raise_pin() };
        let is_goroutine = Plat::current_machine().and_then(Machine::current_goroutine).is_some();
        if is_goroutine {
            Plat::assert_pinned_once();
            give_way::<Plat>();
        } else {
            Plat::withdraw_request();
        }
        // SAFETY: this function has raised the pin. If the caller is a G, this function checks for a request below.
        // Otherwise there is no G to preempt.
        unsafe { Plat::lower_pin_quietly() };
        if !is_goroutine || !Plat::is_requested() {
            return;
        }
    }
}
