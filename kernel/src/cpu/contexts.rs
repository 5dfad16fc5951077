//! What may be done in which context: one table, and the checks that it is kept.
//!
#![doc = include_str!("contexts.md")]
//!
//! A context is the column; one inside of the other (a handler that came while a G was pinned) is the one further left.
//! "Pinned" is a G, or the kernel, with preemption off: with a [`PreemptGuard`](crate::percpu::PreemptGuard), a
//! `PreemptMutex`, or in the scheduler. Before the scheduler is up, every CPU is pinned. The reasons:
//!
//! - An NMI comes also while its CPU holds an `InterruptMutex`: a handler that takes that one waits for itself.
//! - Any other handler comes while its CPU holds a `PreemptMutex` or a lock of the scheduler, and would wait for itself.
//! - The holder of an `InterruptMutex` that waits for a `PreemptMutex` waits for a CPU on which a handler may wait for the
//!   `InterruptMutex`.
//! - Who is pinned cannot leave the CPU; and a handler runs on the CPU's own stack, which the next one reuses.
//!
//! The preempt word of a CPU ([`percpu`]) says in which context it is, so that a check is one test of the word against a
//! constant that is made of [`is_allowed`]. `qemu-tests/guest/src/contexts.rs` provokes each combination that is refused.

use core::fmt;

use crate::cpu::percpu::{self, LOCKS, NMIS, PINS, TRAPS};

/// A column of the table, from the one in which most is refused.
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

/// The contexts that the preempt word tells apart, with their bits.
const CONTEXTS: [(Context, u32); 4] =
    [(Context::NonMaskable, NMIS), (Context::Handler, TRAPS), (Context::InterruptLock, LOCKS), (Context::Pinned, PINS)];

/// The bits of the preempt word with which `act` is refused.
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
    /// The one in which the caller is.
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

/// Whether the caller may allocate. Where it must not, what it does has to go without.
pub(crate) fn may_allocate() -> bool {
    !percpu::is_any_set::<{ refusing(Act::Allocate) }>()
}

/// The bits of the preempt word with which an `InterruptMutex` must not be taken, for where the word has been read.
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
/// Always: `act` is refused where the caller is.
#[cold]
#[inline(never)]
#[track_caller]
pub(crate) fn refuse(act: Act) -> ! {
    panic!("{act} {}", Context::here())
}

// Where a context is inside of another, the check finds the bits of both: what the inner one allows the outer one does.
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
