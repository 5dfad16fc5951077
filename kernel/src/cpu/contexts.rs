//! Which operations are allowed in which context: a table, and the checks that enforce it.
//!
#![doc = include_str!("contexts.md")]
//!
//! The columns are contexts. If contexts are nested, for example in a handler that has interrupted a pinned G, the
//! leftmost of their columns applies. "Pinned" means with preemption off: the code holds a
//! [`PreemptGuard`](crate::percpu::PreemptGuard) or a `PreemptMutex`, or is in the scheduler. Before the scheduler is
//! up, every CPU is pinned. A closure that safe code passes to the kernel to be called with interrupts off is in the
//! same context as the holder of an `InterruptMutex`. The reasons for the table:
//!
//! - A non-maskable interrupt (NMI) may interrupt code that holds an `InterruptMutex`. If the handler of the NMI took
//!   the same lock, the CPU would wait for itself for ever.
//! - Any other handler may interrupt code that holds a `PreemptMutex` or a lock of the scheduler. If the handler took
//!   the same lock, the CPU would wait for itself for ever.
//! - Suppose that CPU 1 holds an `InterruptMutex` and waits for a `PreemptMutex`, which CPU 2 holds. If a handler on
//!   CPU 2 then waited for the `InterruptMutex`, both CPUs would wait for ever.
//! - Pinned code must stay on its CPU, so it cannot block. A handler cannot block either: it runs on the CPU's
//!   interrupt stack, which the next handler reuses.
//!
//! The preempt word of a CPU ([`percpu`]) encodes the context. So a check is one test of this word against a constant,
//! which the compiler computes from [`is_allowed`]. `qemu-tests/guest/src/contexts.rs` tests each combination that is
//! refused. Only a debug build checks the locks of the scheduler, because each operation on a channel takes one.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};

#[cfg(debug_assertions)]
use x86_64::instructions::interrupts;

use crate::cpu::local::cpu_local;
use crate::cpu::percpu::{self, LOCKS, NMIS, PINS, TRAPS};
use crate::cpu::sync;

/// A column of the table: the context that code runs in. The contexts are in the order of the columns. Each context
/// allows at least the operations that the previous one allows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Context {
    NonMaskable,
    Handler,
    InterruptLock,
    Pinned,
    Goroutine,
}

/// A row of the table: what the code wants to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    TakeInterruptMutex,
    Unpark,
    Raise,
    TakePreemptMutex,
    #[cfg(debug_assertions)]
    TakeSchedulerLock,
    Allocate,
    Spawn,
    Block,
}

/// The table: whether `act` is allowed in `context`.
const fn is_allowed(act: Act, context: Context) -> bool {
    match act {
        Act::TakeInterruptMutex | Act::Unpark | Act::Raise => !matches!(context, Context::NonMaskable),
        Act::TakePreemptMutex | Act::Allocate | Act::Spawn => matches!(context, Context::Pinned | Context::Goroutine),
        #[cfg(debug_assertions)]
        Act::TakeSchedulerLock => is_allowed(Act::TakePreemptMutex, context),
        Act::Block => matches!(context, Context::Goroutine),
    }
}

/// The contexts that the preempt word encodes, each with its bits. If none of these bits is set, the context is
/// `Goroutine`.
const CONTEXTS: [(Context, u32); 4] =
    [(Context::NonMaskable, NMIS), (Context::Handler, TRAPS), (Context::InterruptLock, LOCKS), (Context::Pinned, PINS)];

/// Returns the bits of the preempt word that forbid `act`: the act is not allowed while at least one of these bits is
/// set.
const fn refusing(act: Act) -> u32 {
    let (mut bits, mut index) = (0, 0);
    while index < CONTEXTS.len() {
        let (context, of_context) = CONTEXTS[index];
        if !is_allowed(act, context) {
            bits |= of_context;
        }
        index += 1;
    }
    bits
}

impl Context {
    /// Returns the context of the caller.
    fn here() -> Self {
        let word = percpu::context_word();
        CONTEXTS.iter().find(|(_, bits)| word & bits != 0).map_or(Self::Goroutine, |(context, _)| *context)
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = match self {
            Self::NonMaskable => return f.write_str("in the handler of a non-maskable interrupt"),
            Self::Handler => return f.write_str("in the handler of an interrupt or exception"),
            Self::Goroutine => return f.write_str("in a G"),
            Self::InterruptLock => {
                let is_in_closure = sync::is_in_closure();
                f.write_str(if is_in_closure {
                    "with interrupts turned off"
                } else {
                    "with an `InterruptMutex` held"
                })?;
                percpu::interrupts_off_at()
            }
            Self::Pinned => {
                f.write_str("with preemption turned off")?;
                percpu::preempt_off_at()
            }
        };
        since.map_or(Ok(()), |place| write!(f, " since {place}"))
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TakeInterruptMutex => "an `InterruptMutex` is taken",
            Self::Unpark => "a thread is unparked or preempted",
            Self::Raise => "a signal is raised",
            Self::TakePreemptMutex => "a `PreemptMutex` is taken",
            #[cfg(debug_assertions)]
            Self::TakeSchedulerLock => "a lock of the scheduler is taken",
            Self::Allocate => "memory is allocated or freed",
            Self::Spawn => "a G is spawned",
            Self::Block => "a G blocks, yields or ends",
        })
    }
}

/// Whether memory may be allocated in the context of the caller.
pub(crate) fn may_allocate() -> bool {
    !percpu::is_any_set::<{ refusing(Act::Allocate) }>()
}

/// The bits of the preempt word that forbid taking an `InterruptMutex`. Used by callers that have loaded the word
/// already.
pub(crate) const REFUSING_INTERRUPT_MUTEX: u32 = refusing(Act::TakeInterruptMutex);

/// # Panics
/// Always, because the caller may not take an `InterruptMutex`. Either its context forbids this, or the CPU already
/// holds too many of these locks.
#[cold]
#[inline(never)]
#[track_caller]
pub(crate) fn refuse_interrupt_mutex() -> ! {
    refuse(Act::TakeInterruptMutex)
}

/// # Panics
/// If a thread must not be unparked or preempted in this context.
#[inline(always)]
#[track_caller]
pub(crate) fn assert_may_unpark() {
    if percpu::is_any_set::<{ refusing(Act::Unpark) }>() {
        refuse(Act::Unpark);
    }
}

/// # Panics
/// If a signal must not be raised in this context.
#[inline(always)]
pub(crate) fn assert_may_raise() {
    if percpu::is_any_set::<{ refusing(Act::Raise) }>() {
        refuse(Act::Raise);
    }
}

/// # Panics
/// If a lock of the scheduler must not be taken in this context.
#[cfg(debug_assertions)]
#[inline(always)]
#[track_caller]
pub(crate) fn assert_may_take_scheduler_lock() {
    if percpu::is_any_set::<{ refusing(Act::TakeSchedulerLock) }>() {
        refuse(Act::TakeSchedulerLock);
    }
}

/// # Panics
/// If a `PreemptMutex` must not be taken in this context.
#[inline(always)]
#[track_caller]
pub(crate) fn assert_may_take_preempt_mutex() {
    if percpu::is_any_set::<{ refusing(Act::TakePreemptMutex) }>() {
        refuse(Act::TakePreemptMutex);
    }
}

/// # Panics
/// If memory must not be allocated or freed in this context.
#[inline(always)]
pub(crate) fn assert_may_allocate() {
    if percpu::is_any_set::<{ refusing(Act::Allocate) }>() {
        refuse(Act::Allocate);
    }
}

/// # Panics
/// If a G must not be spawned in this context.
#[inline(always)]
#[track_caller]
pub(crate) fn assert_may_spawn() {
    if percpu::is_any_set::<{ refusing(Act::Spawn) }>() {
        refuse(Act::Spawn);
    }
}

/// Whether the caller may block, yield or end. The caller has pinned itself once for this operation, and that pin is
/// ignored.
#[inline(always)]
#[track_caller]
pub(crate) fn may_block_pinned() -> bool {
    let may_block = !percpu::is_any_set::<{ refusing(Act::Block) & !1 }>();
    #[cfg(debug_assertions)]
    if may_block && !interrupts::are_enabled() {
        // The preempt word says that no lock has turned interrupts off. The next G would run with interrupts off, and
        // could not be preempted.
        misuse(format_args!("a G blocks, yields or ends with interrupts turned off by unsafe code"));
    }
    may_block
}

/// # Panics
/// If the caller must not block, yield or end.
#[track_caller]
pub(crate) fn assert_may_block() {
    if percpu::is_any_set::<{ refusing(Act::Block) }>() {
        refuse(Act::Block);
    }
}

/// # Panics
/// If the caller must not block, yield or end. The caller has pinned itself once for this operation, and that pin is
/// ignored.
#[inline(always)]
#[track_caller]
pub(crate) fn assert_may_block_pinned() {
    if !may_block_pinned() {
        refuse(Act::Block);
    }
}

/// # Panics
/// Always, because `act` is not allowed in the context of the caller.
#[cold]
#[inline(never)]
#[track_caller]
pub(crate) fn refuse(act: Act) -> ! {
    misuse(format_args!("{act} {}", Context::here()))
}

cpu_local! {
    /// Whether the panic on this CPU reports a misuse by the G that runs there. Never cleared, because the panic stops
    /// the kernel.
    static IS_MISUSED: AtomicBool = AtomicBool::new(false);
}

/// Panics because the caller of the kernel has done what it may not do in its context.
///
/// A G that is pinned or holds an `InterruptMutex` is not in user code, so in general its panic counts as a fault of
/// the kernel. But the panic of this function counts as a fault of the program, because the G has made a forbidden
/// call. If the caller is a handler, the panic counts as a fault of the kernel, because programs have no handlers.
///
/// # Panics
/// Always.
#[cold]
#[track_caller]
pub(crate) fn misuse(message: fmt::Arguments<'_>) -> ! {
    if matches!(Context::here(), Context::InterruptLock | Context::Pinned) {
        // The caller stays on this CPU, because preemption is off.
        IS_MISUSED.here().store(true, Ordering::Relaxed);
    }
    panic!("{message}")
}

/// Whether the panic on this CPU reports a [misuse]. Called by the handler of panics.
pub(crate) fn is_misuse() -> bool {
    IS_MISUSED.here().load(Ordering::Relaxed)
}

// In nested contexts the preempt word has the bits of all these contexts, so an act is refused if any of these contexts
// forbids it. In the table, however, only the leftmost of the contexts' columns decides. Both rules agree if every act
// that is allowed in a column is also allowed in every column to its right. The following code checks this.
const _: () = {
    let acts = [
        Act::TakeInterruptMutex,
        Act::Unpark,
        Act::Raise,
        Act::TakePreemptMutex,
        #[cfg(debug_assertions)]
        Act::TakeSchedulerLock,
        Act::Allocate,
        Act::Spawn,
        Act::Block,
    ];
    let mut index = 0;
    while index < acts.len() {
        let mut context = 1;
        while context < CONTEXTS.len() {
            assert!(!is_allowed(acts[index], CONTEXTS[context - 1].0) || is_allowed(acts[index], CONTEXTS[context].0));
            context += 1;
        }
        index += 1;
    }
};
