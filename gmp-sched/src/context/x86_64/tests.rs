//! Tests of the control words, and of detours.

use core::arch::asm;
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::{Start, Transfer, Visit, prepare_with, switch_with_control_words, switch_without_control_words};
use crate::context::{SavedContext, Word};

const NOTHING: Transfer = Transfer { function: 0, subject: 0, argument: Word::uninit() };
/// MXCSR and the x87 control word, both set to rounding toward zero.
const OTHERS: (u32, u16) = (0x7f80, 0x0f7f);
const DEFAULTS: (u32, u16) = (0x1f80, 0x037f);

type Switch = unsafe fn(*const SavedContext, *const SavedContext, Transfer) -> Transfer;

fn control_words() -> (u32, u16) {
    let (mut mxcsr, mut x87) = (0, 0);
    // SAFETY: the instructions only store two registers into local variables.
    unsafe { asm!("stmxcsr [{}]", "fnstcw [{}]", in(reg) &raw mut mxcsr, in(reg) &raw mut x87) };
    // Masks out the exception flags.
    (mxcsr & !0x3f, x87)
}

fn set_control_words((mxcsr, x87): (u32, u16)) {
    // SAFETY: no floating-point computation takes place before the default values are restored.
    unsafe { asm!("ldmxcsr [{}]", "fldcw [{}]", in(reg) &raw const mxcsr, in(reg) &raw const x87) };
}

/// What the test shares with the context to which it switches.
struct Pair {
    test: SavedContext,
    other: SavedContext,
    switch: Switch,
    seen: (u32, u16),
}

/// What the context in the field `other` of a [`Pair`] runs: it repeatedly records the control words that it finds,
/// changes them, and switches back.
struct Other;

impl Start for Other {
    extern "sysv64" fn arrive(_: usize, _: Word, _: usize) {}

    extern "sysv64" fn run(context: usize) -> ! {
        let pair = ptr::with_exposed_provenance_mut::<Pair>(context - offset_of!(Pair, other));
        loop {
            // SAFETY: the context is in a pair, which the test does not access until this context switches back.
            let pair = unsafe { &mut *pair };
            pair.seen = control_words();
            set_control_words(OTHERS);
            // SAFETY: the switch to this context has saved `test`, which only this context resumes.
            unsafe { (pair.switch)(&raw const pair.other, &raw const pair.test, NOTHING) };
        }
    }
}

/// Returns the control words at three moments: when the other context begins to run, when the other context is
/// resumed, and when the test is resumed for the last time.
fn words_seen(switch: Switch) -> [(u32, u16); 3] {
    let mut stack = alloc::vec![0_usize; 8192];
    let mut pair = Pair { test: SavedContext::new(), other: SavedContext::new(), switch, seen: DEFAULTS };
    let top = stack.as_mut_ptr_range().end as usize & !15;
    // SAFETY: the stack is a local variable that nothing else uses, and it has more than 64 bytes.
    unsafe { prepare_with::<Other, true>(&pair.other, top) };
    let mut seen = [DEFAULTS; 3];
    for seen in &mut seen[..2] {
        // `Other` makes its reference to the pair from this address.
        (&raw mut pair).expose_provenance();
        // SAFETY: `prepare_with` has prepared the other context for the first switch. For later switches, the other
        // context has been saved by its own switch.
        unsafe { switch(&raw const pair.test, &raw const pair.other, NOTHING) };
        *seen = pair.seen;
    }
    seen[2] = control_words();
    set_control_words(DEFAULTS);
    seen
}

#[test]
fn contexts_have_their_own_control_words_when_the_switch_saves_them() {
    assert_eq!(words_seen(switch_with_control_words), [DEFAULTS, OTHERS, DEFAULTS]);
}

/// Contains the function that a context with a detour calls first. Each call adds the address of the context to
/// [`VISITS`].
struct Visits;

static VISITS: AtomicUsize = AtomicUsize::new(0);

impl Visit for Visits {
    extern "sysv64" fn visit(context: usize) {
        VISITS.fetch_add(context, Ordering::Relaxed);
    }
}

#[test]
fn context_with_a_detour_makes_its_detour_once_and_then_receives_its_transfer() {
    let mut stack = alloc::vec![0_usize; 8192];
    let switch = switch_without_control_words;
    let mut pair = Pair { test: SavedContext::new(), other: SavedContext::new(), switch, seen: DEFAULTS };
    let top = stack.as_mut_ptr_range().end as usize & !15;
    // SAFETY: the stack is a local variable that nothing else uses, and it has more than 64 bytes.
    unsafe { prepare_with::<Other, false>(&pair.other, top) };
    let address = (&raw const pair.other).addr();
    // The context is first fresh with a detour, then saved with a detour, then saved without one.
    for (has_detour, visits) in [(true, 1), (true, 2), (false, 2)] {
        if has_detour {
            pair.other.add_detour::<Visits>();
            pair.other.add_detour::<Visits>();
        }
        pair.seen = (0, 0);
        // `Other` makes its reference to the pair from this address.
        (&raw mut pair).expose_provenance();
        // SAFETY: `prepare_with` has prepared the other context for the first switch. For later switches, the other
        // context has been saved by its own switch.
        unsafe { switch(&raw const pair.test, &raw const pair.other, NOTHING) };
        assert_eq!(VISITS.load(Ordering::Relaxed), visits * address);
        assert_ne!(pair.seen, (0, 0));
    }
    set_control_words(DEFAULTS);
}

/// With the switch that does not save the control words, the other context changes those of the test. This is why
/// the feature `control-words` exists.
#[test]
fn contexts_share_control_words_when_the_switch_does_not_save_them() {
    assert_eq!(words_seen(switch_without_control_words), [DEFAULTS, OTHERS, OTHERS]);
}
