//! Wrong switches, on which the tests of students are tried: a model of two contexts, and what may be wrong with the switch
//! between them. A sequence of steps finds a flaw if, with the flaw, one sees something else.
//!
//! The first context runs at the start, the second one is new. A stack consists of words of eight bytes, so it is
//! aligned if it has an even number of them.

use alloc::vec::Vec;

use crate::trial::Trial;

/// A register that a context keeps for itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Register {
    /// RBX.
    Rbx,
    /// RBP, the frame pointer.
    Rbp,
}

/// What the context that runs does. The numbers that it stores are those of the steps, from 1 on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// Stores a number in a register.
    Set(Register),
    /// Looks at a register.
    Look(Register),
    /// Pushes a number on the stack.
    Push,
    /// Pops a number from the stack, and looks at it.
    Pop,
    /// Switches to the other context, and sends a number along in RDI. One sees what arrives there, and, in a new
    /// context, what its first function finds.
    Switch,
}

/// What may be wrong with the switch, or with the start of a new context.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Flaw {
    /// RBX is neither pushed nor popped.
    ForgetsRbx,
    /// RBP is neither pushed nor popped.
    ForgetsRbp,
    /// The registers are popped in the order in which they were pushed.
    PopsInTheOrderOfThePushes,
    /// The stack pointer is stored before the pushes.
    StoresTheStackTooEarly,
    /// The stack pointer is stored after that of the other context was loaded.
    StoresTheStackTooLate,
    /// The stack pointer of the other context is not loaded.
    KeepsTheStack,
    /// RDI is used to compute the address of the label. But it has the argument for the other context, which is lost.
    UsesRdi,
    /// The first function of a new context finds no return address on its stack.
    EntersWithoutAReturnAddress,
    /// In a new context, RBP still has its value of the context that has left.
    KeepsTheFramePointer,
    /// The address of the new context is taken from RCX after a call, which may change RCX.
    TrustsRcx,
}

/// What one sees in a step.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Seen {
    /// Nothing.
    Nothing,
    /// The number in a register, or on the stack.
    Number(usize),
    /// The number that has arrived at a context that goes on after an earlier switch.
    Arrived(usize),
    /// The number that has arrived at a new context, and what its first function finds.
    Entered {
        /// What has arrived.
        arrived: usize,
        /// Whether the stack is that of a function that was called: aligned, with a return address pushed on it.
        was_called: bool,
        /// RBP: the frame of its caller, which a walk of the stack would follow.
        frame: usize,
        /// Its first argument, the address of its context.
        argument: usize,
    },
}

/// In this model: a return address, the address of the label, and what a call leaves in RCX.
const RETURN_ADDRESS: usize = 1001;
const LABEL: usize = 1002;
const SCRATCH: usize = 1003;

/// The addresses of the contexts in this model.
pub const ADDRESSES: [usize; 2] = [2001, 2002];

#[derive(Debug, Default)]
struct Model {
    flaw: Option<Flaw>,
    rbx: usize,
    rbp: usize,
    /// Which context runs, and on which stack.
    context: usize,
    stack: usize,
    stacks: [Vec<usize>; 2],
    /// On which stack each context goes on.
    saved: [usize; 2],
    /// The registers that were pushed on each stack.
    pushed: [[usize; 2]; 2],
    has_begun: bool,
}

impl Model {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    fn take(&mut self, step: Step, number: usize) -> Seen {
        match step {
            Step::Set(Register::Rbx) => self.rbx = number,
            Step::Set(Register::Rbp) => self.rbp = number,
            Step::Look(Register::Rbx) => return Seen::Number(self.rbx),
            Step::Look(Register::Rbp) => return Seen::Number(self.rbp),
            Step::Push => self.stacks[self.stack].push(number),
            Step::Pop => return Seen::Number(self.pop()),
            Step::Switch => return self.switch(number),
        }
        Seen::Nothing
    }

    /// Pops a word. Returns 0 if the stack is empty.
    fn pop(&mut self) -> usize {
        self.stacks[self.stack].pop().unwrap_or_default()
    }

    fn switch(&mut self, number: usize) -> Seen {
        let (left, resumed) = (self.context, 1 - self.context);
        let arrived = if self.has(Flaw::UsesRdi) { LABEL } else { number };
        self.pushed[self.stack] = [self.rbx, self.rbp];
        self.saved[left] = self.stack;
        self.context = resumed;
        if !self.has(Flaw::KeepsTheStack) {
            self.stack = self.saved[resumed];
        }
        if self.has(Flaw::StoresTheStackTooLate) {
            self.saved[left] = self.stack;
        }
        if !core::mem::replace(&mut self.has_begun, true) {
            return self.start(arrived);
        }
        let [rbx, rbp] = match self.flaw {
            Some(Flaw::StoresTheStackTooEarly) => [self.pop(), self.pop()],
            _ => self.pushed[self.stack],
        };
        match self.flaw {
            Some(Flaw::ForgetsRbx) => self.rbp = rbp,
            Some(Flaw::ForgetsRbp) => self.rbx = rbx,
            Some(Flaw::PopsInTheOrderOfThePushes) => (self.rbp, self.rbx) = (rbx, rbp),
            _ => (self.rbx, self.rbp) = (rbx, rbp),
        }
        Seen::Arrived(arrived)
    }

    /// Starts the new context. Returns what its first function finds.
    fn start(&mut self, arrived: usize) -> Seen {
        self.rbx = 0;
        if !self.has(Flaw::KeepsTheFramePointer) {
            self.rbp = 0;
        }
        let stack = &mut self.stacks[self.stack];
        if self.flaw != Some(Flaw::EntersWithoutAReturnAddress) {
            stack.push(RETURN_ADDRESS);
        }
        Seen::Entered {
            arrived,
            was_called: stack.len() % 2 == 1 && stack.last() == Some(&RETURN_ADDRESS),
            frame: self.rbp,
            argument: if self.has(Flaw::TrustsRcx) { SCRATCH } else { ADDRESSES[self.context] },
        }
    }
}

impl Trial for &[Step] {
    type Flaw = Flaw;
    /// What one sees in each step.
    type Seen = Vec<Seen>;

    const FLAWS: &'static [&'static [Flaw]] = &[
        &[
            Flaw::ForgetsRbx,
            Flaw::ForgetsRbp,
            Flaw::PopsInTheOrderOfThePushes,
            Flaw::StoresTheStackTooEarly,
            Flaw::StoresTheStackTooLate,
            Flaw::KeepsTheStack,
        ],
        &[Flaw::UsesRdi, Flaw::EntersWithoutAReturnAddress, Flaw::KeepsTheFramePointer, Flaw::TrustsRcx],
    ];
    const LIMIT: &'static str = "at most six steps";

    fn is_small(&self) -> bool {
        self.len() <= 6
    }

    fn run(&self, flaw: Option<Flaw>) -> Self::Seen {
        let mut model = Model { flaw, saved: [0, 1], ..Model::default() };
        self.iter().enumerate().map(|(number, step)| model.take(*step, 1 + number)).collect()
    }
}
