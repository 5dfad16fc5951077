//! A [`Bus`] that records every write and fence, for the tests of [`LocalApic`].

extern crate std;

use core::cell::RefCell;
use std::collections::HashMap;
use std::vec::Vec;

use super::LocalApic;
use super::registers::{Bus, Mode};

/// A recorded write or fence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Access {
    Memory(u16, u32),
    Msr(u32, u64),
    Fence,
}

/// A [`Bus`] for tests: records writes and fences, and serves reads from `memory` and `msrs`.
#[derive(Default, Debug)]
pub(super) struct Recorder {
    pub(super) accesses: RefCell<Vec<Access>>,
    pub(super) memory: HashMap<u16, u32>,
    pub(super) msrs: HashMap<u32, u64>,
}

impl Bus for &Recorder {
    fn read_memory(&self, offset: u16) -> u32 {
        self.memory[&offset]
    }

    fn write_memory(&self, offset: u16, value: u32) {
        self.accesses.borrow_mut().push(Access::Memory(offset, value));
    }

    fn read_msr(&self, number: u32) -> u64 {
        self.msrs[&number]
    }

    fn write_msr(&self, number: u32, value: u64) {
        self.accesses.borrow_mut().push(Access::Msr(number, value));
    }

    fn fence(&self) {
        self.accesses.borrow_mut().push(Access::Fence);
    }
}

/// Calls `body` with an APIC in this mode, and returns the writes and fences that `body` has made.
pub(super) fn accesses(mode: Mode, body: impl Fn(LocalApic<&Recorder>)) -> Vec<Access> {
    let recorder = Recorder::default();
    body(LocalApic::new(&recorder, mode));
    recorder.accesses.into_inner()
}
