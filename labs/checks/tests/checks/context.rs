//! Lab 1: the context switch. A wrong switch may do anything, so each test is a process of its own.
#![expect(unsafe_code, reason = "switches between stacks")]

use core::arch::naked_asm;
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};

use gmp_sched::context::{SavedContext, Start, Transfer, Word, prepare, switch};

/// Makes a stack, and returns its end, which is a multiple of 16.
fn stack() -> usize {
    vec![0_u128; 4096].leak().as_mut_ptr_range().end.expose_provenance()
}

fn transfer(function: usize, subject: usize, argument: usize) -> Transfer {
    Transfer { function, subject, argument: MaybeUninit::new(ptr::without_provenance(argument)) }
}

/// The three words of a transfer.
fn words(Transfer { function, subject, argument }: Transfer) -> [usize; 3] {
    // SAFETY: all transfers of these tests have an argument that is initialised.
    [function, subject, unsafe { argument.assume_init() }.addr()]
}

static HERE: SavedContext = SavedContext::new();
static THERE: SavedContext = SavedContext::new();

/// Switches to the other context, and returns what comes back.
fn go_there(transfer: Transfer) -> Transfer {
    // SAFETY: `THERE` was prepared or saved, and only this function resumes it.
    unsafe { switch(&raw const HERE, &raw const THERE, transfer) }
}

/// Switches back, and returns what arrives next.
fn go_back(transfer: Transfer) -> Transfer {
    // SAFETY: `go_there` has saved `HERE`, and only this function resumes it.
    unsafe { switch(&raw const THERE, &raw const HERE, transfer) }
}

/// Makes `THERE` a new context.
fn prepare_there<S: Start>() {
    // SAFETY: nothing else uses the stack or the context.
    unsafe { prepare::<S>(&THERE, stack()) };
}

/// The words that have arrived at the beginning of a context.
static ARRIVED: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

fn set_arrived(words: [usize; 3]) {
    ARRIVED.iter().zip(words).for_each(|(arrived, word)| arrived.store(word, Ordering::Relaxed));
}

fn arrived() -> [usize; 3] {
    [0, 1, 2].map(|index| ARRIVED[index].load(Ordering::Relaxed))
}

/// A context that adds one to each of the words that it gets, and sends them back.
struct AddOne;

impl Start for AddOne {
    extern "sysv64" fn arrive(subject: usize, argument: Word, function: usize) {
        set_arrived(words(Transfer { function, subject, argument }));
    }

    extern "sysv64" fn run(_: usize) -> ! {
        let mut got = arrived();
        loop {
            let [function, subject, argument] = got.map(|word| word + 1);
            got = words(go_back(transfer(function, subject, argument)));
        }
    }
}

#[test]
fn words_arrive_there_and_back() {
    prepare_there::<AddOne>();
    for round in 0..100 {
        let sent = [100, 200, 300].map(|word| word + round);
        let got = words(go_there(transfer(sent[0], sent[1], sent[2])));
        // The words are not shown, because a wrong switch may have put anything there.
        assert!(
            got == sent.map(|word| word + 1),
            "in round {round}, the words that came back are not those that were sent"
        );
    }
}

/// The registers that a function preserves, in the order in which [`with_patterns`] returns them.
const PRESERVED: [&str; 6] = ["RBX", "RBP", "R12", "R13", "R14", "R15"];

/// Puts `first`, `first` + 1 and so on into the preserved registers, calls `switch`, and writes the registers to `after`.
#[unsafe(naked)]
extern "sysv64" fn with_patterns(after: &mut [usize; 6], first: usize, switch: extern "sysv64" fn()) {
    naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "push rdi",
        "mov rbx, rsi",
        "lea rbp, [rsi + 1]",
        "lea r12, [rsi + 2]",
        "lea r13, [rsi + 3]",
        "lea r14, [rsi + 4]",
        "lea r15, [rsi + 5]",
        "call rdx",
        "pop rdi",
        "mov [rdi], rbx",
        "mov [rdi + 8], rbp",
        "mov [rdi + 16], r12",
        "mov [rdi + 24], r13",
        "mov [rdi + 32], r14",
        "mov [rdi + 40], r15",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
    )
}

extern "sysv64" fn switch_there() {
    go_there(transfer(0, 0, 0));
}

extern "sysv64" fn switch_back() {
    go_back(transfer(0, 0, 0));
}

/// Compares the registers after a switch with the patterns that [`with_patterns`] put there.
fn check_registers(side: &str, after: [usize; 6], first: usize) {
    for (index, name) in PRESERVED.iter().enumerate() {
        let is = match after[index].wrapping_sub(first) {
            offset if offset == index => continue,
            offset if offset < PRESERVED.len() => format!("what {} was", PRESERVED[offset]),
            // The value is not shown, because it may be an address, which differs from run to run.
            _ => "another value".to_string(),
        };
        panic!("after the switch, {name} of {side} is {is}");
    }
}

/// A context that has patterns of its own in the registers while it switches.
struct Patterns;

impl Start for Patterns {
    extern "sysv64" fn arrive(_: usize, _: Word, _: usize) {}

    extern "sysv64" fn run(_: usize) -> ! {
        loop {
            let mut after = [0; 6];
            with_patterns(&mut after, 0x7000, switch_back);
            check_registers("the second context", after, 0x7000);
        }
    }
}

#[test]
fn registers_are_those_of_before_the_switch() {
    prepare_there::<Patterns>();
    for round in 0..3 {
        let (mut after, first) = ([0; 6], 0x1000 * (round + 1));
        with_patterns(&mut after, first, switch_there);
        check_registers("the first context", after, first);
    }
}

/// A context whose first instruction records the stack pointer, the frame pointer and the argument. `arrive` records its
/// stack pointer, too.
struct Entry;

impl Start for Entry {
    #[unsafe(naked)]
    extern "sysv64" fn arrive(_: usize, _: Word, _: usize) {
        naked_asm!("mov rsi, rsp", "jmp {arrived_at}", arrived_at = sym arrived_at)
    }

    #[unsafe(naked)]
    extern "sysv64" fn run(_: usize) -> ! {
        naked_asm!("mov rsi, rsp", "mov rdx, rbp", "jmp {entered}", entered = sym entered)
    }
}

extern "sysv64" fn arrived_at(subject: usize, stack_pointer: usize) {
    set_arrived([subject, stack_pointer, 0]);
    clobber();
}

/// Changes the registers that a function need not preserve.
#[unsafe(naked)]
extern "sysv64" fn clobber() {
    naked_asm!("xor ecx, ecx", "xor eax, eax", "xor edx, edx", "xor esi, esi", "xor edi, edi", "ret")
}

/// What [`Entry`] saw at its first instruction.
static ENTERED: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

extern "sysv64" fn entered(context: usize, stack_pointer: usize, frame_pointer: usize) -> ! {
    for (entered, word) in ENTERED.iter().zip([context, stack_pointer, frame_pointer]) {
        entered.store(word, Ordering::Relaxed);
    }
    loop {
        go_back(transfer(0, 0, 0));
    }
}

#[test]
fn new_context_begins_as_a_called_function() {
    prepare_there::<Entry>();
    go_there(transfer(0, 0x77, 0));
    let [context, stack_pointer, frame_pointer] = [0, 1, 2].map(|index| ENTERED[index].load(Ordering::Relaxed));
    assert!(arrived()[0] == 0x77, "`arrive` was not called with the words of the transfer");
    assert!(context == ptr::from_ref(&THERE).addr(), "the argument of `run` is not the address of the context");
    for (function, stack_pointer) in [("arrive", arrived()[1]), ("run", stack_pointer)] {
        assert!(
            (stack_pointer + 8).is_multiple_of(16),
            "RSP + 8 is not a multiple of 16 at the first instruction of `{function}`"
        );
    }
    assert!(frame_pointer == 0, "RBP is not 0 in `run`, so a walk of the stack does not end there");
}

/// The contexts that take turns.
static RING: [SavedContext; 100] = [const { SavedContext::new() }; 100];

/// Switches to the next context of the ring, from the context at `index`. The last one switches to `HERE`.
fn pass_on(index: usize) {
    let next = RING.get(index + 1).unwrap_or(&HERE);
    // SAFETY: the next context was prepared or saved, and only its predecessor in the ring resumes it.
    unsafe { switch(&raw const RING[index], next, transfer(0, index + 1, 0)) };
}

struct Turn;

impl Start for Turn {
    extern "sysv64" fn arrive(index: usize, _: Word, _: usize) {
        set_arrived([index, 0, 0]);
    }

    extern "sysv64" fn run(_: usize) -> ! {
        let index = arrived()[0];
        let mut turns = [index; 16];
        loop {
            turns.iter_mut().for_each(|turn| *turn += 1);
            TURNS[index].store(turns.iter().sum(), Ordering::Relaxed);
            pass_on(index);
        }
    }
}

/// For each context of the ring, the sum of the numbers that it has counted on its stack.
static TURNS: [AtomicUsize; 100] = [const { AtomicUsize::new(0) }; 100];

#[test]
fn hundred_contexts_take_turns() {
    // SAFETY: nothing else uses the stacks or the contexts.
    RING.iter().for_each(|context| unsafe { prepare::<Turn>(context, stack()) });
    for round in 1..=50 {
        // SAFETY: the first context was prepared, or saved by its last switch.
        unsafe { switch(&raw const HERE, &raw const RING[0], transfer(0, 0, 0)) };
        for (index, turns) in TURNS.iter().enumerate() {
            let (counted, expected) = (turns.load(Ordering::Relaxed), 16 * (index + round));
            assert_eq!(
                counted, expected,
                "what context {index} has counted after {round} rounds, and what it should have"
            );
        }
    }
}
