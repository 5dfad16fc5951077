//! Compares the model of a switch (lab 1) with the switch of the scheduler.
#![expect(unsafe_code, reason = "switches between stacks")]

use core::arch::naked_asm;
use core::cell::{Cell, RefCell};
use core::mem::MaybeUninit;
use core::ptr;

use gmp_sched::context::{SavedContext, Start, Transfer, Word, prepare, switch};
use lab_puzzles::switches::{ADDRESSES, Register, Seen, Step};
use lab_puzzles::trial::{Trial, missed, sequences};

/// The size of a stack, in units of 16 bytes, to which it is aligned.
const STACK: usize = 4096;

/// The steps that two contexts take, and what they see.
struct Script {
    steps: RefCell<Vec<Step>>,
    seen: RefCell<Vec<Seen>>,
    /// Whether the second context runs.
    is_second: Cell<bool>,
    contexts: [SavedContext; 2],
}

thread_local! {
    static SCRIPT: &'static Script = Box::leak(Box::new(Script {
        steps: RefCell::default(),
        seen: RefCell::default(),
        is_second: Cell::new(false),
        contexts: [SavedContext::new(), SavedContext::new()],
    }));
    static STACK_TOP: usize = vec![0_u128; STACK].leak().as_mut_ptr_range().end.expose_provenance();
}

fn script() -> &'static Script {
    SCRIPT.with(|script| *script)
}

impl Script {
    fn see(&self, seen: Seen) {
        self.seen.borrow_mut().push(seen);
    }

    /// Takes steps in the context that runs. Returns when a step pops the word that was pushed last, or at the end of
    /// the steps. `registers` are RBX and RBP as they are at the next switch.
    fn follow(&self, registers: &mut [usize; 2], pushed: Option<usize>) {
        loop {
            let number = self.seen.borrow().len();
            let Some(step) = self.steps.borrow().get(number).copied() else { return };
            match step {
                Step::Set(register) => {
                    registers[usize::from(register == Register::Rbp)] = 1 + number;
                    self.see(Seen::Nothing);
                }
                Step::Look(register) => self.see(Seen::Number(registers[usize::from(register == Register::Rbp)])),
                Step::Push => {
                    self.see(Seen::Nothing);
                    self.follow(registers, Some(1 + number));
                }
                Step::Pop => return self.see(Seen::Number(pushed.expect("a word was pushed"))),
                Step::Switch => with_registers(registers, leave),
            }
        }
    }
}

/// Switches to the other context. When the caller is resumed, records what has arrived, unless the steps are over.
extern "sysv64" fn leave() {
    let script = script();
    let number = script.seen.borrow().len();
    let from = usize::from(script.is_second.replace(!script.is_second.get()));
    let sent = Transfer { function: 0, subject: 1 + number, argument: MaybeUninit::new(ptr::null_mut()) };
    let [left, resumed] = [from, 1 - from].map(|context| &raw const script.contexts[context]);
    // SAFETY: the other context was prepared, or saved by this function, and only this function resumes it.
    let arrived = unsafe { switch(left, resumed, sent) };
    if script.seen.borrow().len() < script.steps.borrow().len() {
        script.see(Seen::Arrived(arrived.subject));
    }
}

/// Puts `registers` into RBX and RBP, calls `function`, and stores what is in these registers afterwards.
#[unsafe(naked)]
extern "sysv64" fn with_registers(registers: &mut [usize; 2], function: extern "sysv64" fn()) {
    naked_asm!(
        "push rbx",
        "push rbp",
        "push rdi",
        "mov rbx, [rdi]",
        "mov rbp, [rdi + 8]",
        "call rsi",
        "pop rdi",
        "mov [rdi], rbx",
        "mov [rdi + 8], rbp",
        "pop rbp",
        "pop rbx",
        "ret",
    )
}

/// The second context.
struct Second;

impl Start for Second {
    extern "sysv64" fn arrive(number: usize, _: Word, _: usize) {
        script().see(Seen::Entered { arrived: number, was_called: false, frame: 0, argument: 0 });
    }

    #[unsafe(naked)]
    extern "sysv64" fn run(_: usize) -> ! {
        naked_asm!("mov rsi, rsp", "mov rdx, rbp", "jmp {begin}", begin = sym begin)
    }
}

/// The first function of the second context. Notes what it finds in its registers, then does what the script says.
extern "sysv64" fn begin(context: usize, stack_pointer: usize, frame: usize) -> ! {
    let script = script();
    if let Some(Seen::Entered { was_called, frame: found, argument, .. }) = script.seen.borrow_mut().last_mut() {
        let is_right = context == ptr::from_ref(&script.contexts[1]).addr();
        (*was_called, *found) = ((stack_pointer + 8).is_multiple_of(16), frame);
        *argument = if is_right { ADDRESSES[1] } else { context };
    }
    let mut registers = [0, frame];
    loop {
        script.follow(&mut registers, None);
        // The steps are over.
        leave();
    }
}

/// What the contexts see in these steps.
fn seen(steps: &[Step]) -> Vec<Seen> {
    let script = script();
    *script.steps.borrow_mut() = steps.to_vec();
    script.seen.borrow_mut().clear();
    script.is_second.set(false);
    let stack = STACK_TOP.with(|top| *top);
    // SAFETY: the stack belongs to this thread, and the context that was on it before is never resumed.
    unsafe { prepare::<Second>(&script.contexts[1], stack) };
    script.follow(&mut [0, 0], None);
    script.seen.take()
}

/// Whether each register that is looked at was set, and each word that is popped was pushed. Otherwise the switch leaves
/// undefined what one sees, and the number that the model returns is arbitrary. (RBP is 0 in a new context.)
fn can_be_compared(steps: &[Step]) -> bool {
    let (mut context, mut depths, mut is_set) = (0, [0, 0], [true, false]);
    steps.iter().all(|step| {
        match step {
            Step::Set(Register::Rbx) => is_set[context] = true,
            Step::Push => depths[context] += 1,
            Step::Pop if depths[context] == 0 => return false,
            Step::Pop => depths[context] -= 1,
            Step::Look(Register::Rbx) if !is_set[context] => return false,
            Step::Switch => context = 1 - context,
            Step::Set(_) | Step::Look(_) => {}
        }
        true
    })
}

#[test]
fn switches_are_those_of_the_scheduler() {
    let kinds = [
        Step::Set(Register::Rbx),
        Step::Look(Register::Rbx),
        Step::Set(Register::Rbp),
        Step::Look(Register::Rbp),
        Step::Push,
        Step::Pop,
        Step::Switch,
    ];
    let mut compared: Vec<Vec<Step>> = Vec::new();
    for steps in sequences(&kinds, 1..=6).filter(|steps| can_be_compared(steps)) {
        assert_eq!(seen(&steps), (&steps[..]).run(None), "by the switch and by the model: {steps:?}");
        compared.push(steps);
    }
    // The compared sequences find each flaw. So a model with a flaw would fail this test.
    let compared: Vec<&[Step]> = compared.iter().map(|steps| &steps[..]).collect();
    let flaws = <&[Step]>::FLAWS.concat();
    assert!(missed(&compared, &flaws).is_empty(), "{:?} of {}", missed(&compared, &flaws), compared.len());
}
