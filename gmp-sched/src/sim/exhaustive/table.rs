//! The table of the states that have been visited.

use alloc::vec;
use alloc::vec::Vec;
use core::mem;

/// The number of slots of an empty table.
const INITIAL: usize = 1 << 12;

/// A hash table from hashes of states to their numbers. States are numbered from 1 in the order of insertion.
///
/// A slot has 16 bytes, because explorations are limited by memory: 96 bits of the state's hash and the state's number.
pub(super) struct Table {
    /// The low 64 bits of the hash, the next 32 bits, and the number; a number of 0 marks a free slot.
    slots: Vec<(u64, u32, u32)>,
    length: u32,
}

impl Table {
    pub(super) fn new() -> Self {
        Self { slots: vec![(0, 0, 0); INITIAL], length: 0 }
    }

    /// Number of states.
    pub(super) fn len(&self) -> usize {
        self.length as usize
    }

    /// Returns the number of the state with this hash, and whether the state was inserted by this call.
    pub(super) fn insert(&mut self, hash: u128) -> (u32, bool) {
        let (low, high) = (hash as u64, (hash >> 64) as u32);
        let slot = self.find(low, high);
        if self.slots[slot].2 != 0 {
            return (self.slots[slot].2, false);
        }
        self.length = self.length.checked_add(1).expect("fewer than 2^32 states");
        self.slots[slot] = (low, high, self.length);
        if self.len() > self.slots.len() / 8 * 7 {
            self.grow();
        }
        (self.length, true)
    }

    /// The slot that has this hash, or the free slot in which it belongs.
    fn find(&self, low: u64, high: u32) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = low as usize & mask;
        while self.slots[slot].2 != 0 && (self.slots[slot].0, self.slots[slot].1) != (low, high) {
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn grow(&mut self) {
        let larger = vec![(0, 0, 0); self.slots.len() * 2];
        for entry in mem::replace(&mut self.slots, larger) {
            if entry.2 != 0 {
                let slot = self.find(entry.0, entry.1);
                self.slots[slot] = entry;
            }
        }
    }
}
