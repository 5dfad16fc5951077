//! What may be done in which context: one table, and the checks that enforce it.
//!
#![doc = include_str!("contexts.md")]
//!
//! The columns are contexts. If one context is inside another (a handler that interrupted a pinned G), the column further left
//! applies. "Pinned" means with preemption off: a G or the kernel holds a [`PreemptGuard`](crate::percpu::PreemptGuard) or a
//! `PreemptMutex`, or is in the scheduler. Before the scheduler is up, every CPU is pinned. The reasons:
//!
//! - An NMI also arrives while its CPU holds an `InterruptMutex`. If its handler took the same lock, it would wait for ever.
//! - Any other handler may run while its CPU holds a `PreemptMutex` or a lock of the scheduler, and would wait for ever
//!   likewise.
//! - If the holder of an `InterruptMutex` waited for a `PreemptMutex`, a handler on the CPU that holds the `PreemptMutex` could
//!   wait for the `InterruptMutex`: a deadlock.
//! - Pinned code must stay on its CPU, so it cannot block. A handler runs on the CPU's interrupt stack, which the next handler
//!   reuses.
//!
//! The preempt word of a CPU ([`percpu`]) encodes the context, so a check is one test of the word against a constant that is
//! computed from [`is_allowed`]. `qemu-tests/guest/src/contexts.rs` tests each combination that is refused.

use core::fmt;

use crate::cpu::percpu::{self, LOCKS, NMIS, PINS, TRAPS};

/// A column of the table. The first one allows least.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Context {
    NonMaskable,
    Handler,
    InterruptLock,
    Pinned,
    Goroutine,
}

/// A row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    TakeInterruptMutex,
    TakePreemptMutex,
    Allocate,
    Spawn,
    Block,
}

/// The table.
const fn is_allowed(act: Act, context: Context) -> bool {
    match act {
        Act::TakeInterruptMutex => !matches!(context, Context::NonMaskable),
        Act::TakePreemptMutex | Act::Allocate | Act::Spawn => matches!(context, Context::Pinned | Context::Goroutine),
        Act::Block => matches!(context, Context::Goroutine),
    }
}

/// The contexts that the preempt word distinguishes, with their bits.
const CONTEXTS: [(Context, u32); 4] =
    [(Context::NonMaskable, NMIS), (Context::Handler, TRAPS), (Context::InterruptLock, LOCKS), (Context::Pinned, PINS)];

/// The bits of the preempt word that refuse `act` if one of them is set.
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
    /// The context of the caller.
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
                f.write_str("with an `InterruptMutex` held")?;
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
            Self::TakePreemptMutex => "a `PreemptMutex` is taken",
            Self::Allocate => "memory is allocated or freed",
            Self::Spawn => "a G is spawned",
            Self::Block => "a G blocks, yields or ends",
        })
    }
}

/// Whether the caller may allocate memory.
pub(crate) fn may_allocate() -> bool {
    !percpu::is_any_set::<{ refusing(Act::Allocate) }>()
}

/// The bits of the preempt word that refuse an `InterruptMutex`, for callers that have loaded the word already.
pub(crate) const REFUSING_INTERRUPT_MUTEX: u32 = refusing(Act::TakeInterruptMutex);

/// # Panics
/// Always: an `InterruptMutex` is taken in the wrong context, or while too many are held.
#[cold]
#[inline(never)]
#[track_caller]
pub(crate) fn refuse_interrupt_mutex() -> ! {
    refuse(Act::TakeInterruptMutex)
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

/// Whether the caller, which has pinned itself once to do so, may block, yield or end in this context.
#[inline(always)]
pub(crate) fn may_block_pinned() -> bool {
    !percpu::is_any_set::<{ refusing(Act::Block) & !1 }>()
}

/// # Panics
/// If the caller, which has pinned itself once to do so, must not block, yield or end in this context.
#[inline(always)]
#[track_caller]
pub(crate) fn assert_may_block_pinned() {
    if !may_block_pinned() {
        refuse(Act::Block);
    }
}

/// # Panics
/// Always: `act` is not allowed in the context of the caller.
#[cold]
#[inline(never)]
#[track_caller]
pub(crate) fn refuse(act: Act) -> ! {
    panic!("{act} {}", Context::here())
}

// In nested contexts the bits of all of them are set. So whatever a context allows, the contexts that can be around it must
// allow, too.
const _: () = {
    let (acts, mut index) =
        ([Act::TakeInterruptMutex, Act::TakePreemptMutex, Act::Allocate, Act::Spawn, Act::Block], 0);
    while index < acts.len() {
        let mut context = 1;
        while context < CONTEXTS.len() {
            assert!(!is_allowed(acts[index], CONTEXTS[context - 1].0) || is_allowed(acts[index], CONTEXTS[context].0));
            context += 1;
        }
        index += 1;
    }
};
