//! The copy of a machine's memory, its hash, and the changes by which earlier states are restored.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use core::{mem, ptr, slice};

pub(super) const WORD: usize = size_of::<u64>();

/// The part of the hash of a state that one word contributes. A word that is 0 contributes nothing.
fn hash(address: usize, word: u64) -> u128 {
    if word == 0 {
        return 0;
    }
    let address = address as u64;
    let low = mix(mix(word, address ^ 0x9E37_79B9_7F4A_7C15), 0xD6E8_FEB8_6659_FD93);
    let high = mix(mix(word, address ^ 0xA076_1D64_78BD_642F), 0xE703_7ED1_A0B4_28DB);
    u128::from(high) << 64 | u128::from(low)
}

/// Multiplies to 128 bits and folds the halves, so that each bit of `word` changes about half of the bits of the
/// result.
fn mix(word: u64, factor: u64) -> u64 {
    let product = u128::from(word ^ factor.rotate_left(32)) * u128::from(factor);
    (product >> 64) as u64 ^ product as u64 ^ word.rotate_left(23)
}

/// A point in the history of the image of a machine's memory.
#[derive(Clone, Copy)]
pub(in super::super) struct Mark {
    changes: usize,
    hash: u128,
}

/// A copy of the machine's memory at the time of the last [`save`](super::MachineMemory::save), and the changes by which
/// earlier states can be restored.
#[derive(Default)]
pub(super) struct Image {
    /// The copies of the heap and of each stack.
    pub(super) parts: Vec<Part>,
    /// The sum of the hashes of all words.
    pub(super) hash: u128,
    log: Vec<Change>,
}

/// The copy of the heap or of a stack.
pub(super) struct Part {
    /// The address of the first word.
    start: usize,
    words: Box<[u64]>,
    /// The indices of the words that may differ from 0.
    used: Range<usize>,
}

impl Part {
    /// The addresses of the words that may differ from 0.
    pub(super) fn used(&self) -> Range<usize> {
        self.start + self.used.start * WORD..self.start + self.used.end * WORD
    }
}

/// A change of a word.
struct Change {
    part: u32,
    index: u32,
    before: u64,
}

/// Number of words that are compared at once. Most words do not change, so this is faster than word by word.
const SECTION: usize = 512;
/// Number of words that are compared at once in a section that has changed.
const LINE: usize = 8;

impl Image {
    /// Copies the words of a part that have changed. The memory at the addresses `used` may be in use. Other memory
    /// that has been in use is 0.
    pub(super) fn update(&mut self, number: usize, part: &Range<usize>, used: Range<usize>) {
        if self.parts.len() <= number {
            let words = part.len() / WORD;
            self.parts.push(Part { start: part.start, words: vec![0; words].into_boxed_slice(), used: words..words });
        }
        let Self { parts, hash: sum, log } = self;
        let Part { start, words: copy, used: before } = &mut parts[number];
        let used = (used.start - part.start) / WORD..(used.end - part.start) / WORD;
        let all = if before.start == before.end {
            used.clone()
        } else {
            used.start.min(before.start)..used.end.max(before.end)
        };
        *before = used;
        let memory = read(*start + all.start * WORD, all.len());
        for (section, now) in memory.chunks(SECTION).enumerate() {
            let first = all.start + section * SECTION;
            if copy[first..first + now.len()] == *now {
                continue;
            }
            for (line, now) in now.chunks(LINE).enumerate() {
                let first = first + line * LINE;
                let copy = &mut copy[first..first + now.len()];
                if copy == now {
                    continue;
                }
                for (offset, (copy, &now)) in
                    copy.iter_mut().zip(now).enumerate().filter(|(_, (copy, now))| copy != now)
                {
                    let (index, address) = (first + offset, *start + (first + offset) * WORD);
                    *sum = sum.wrapping_sub(hash(address, *copy)).wrapping_add(hash(address, now));
                    log.push(Change { part: number as u32, index: index as u32, before: mem::replace(copy, now) });
                }
            }
        }
    }

    /// Makes a mark for [`go_back`](Self::go_back).
    pub(super) fn mark(&self) -> Mark {
        Mark { changes: self.log.len(), hash: self.hash }
    }

    /// Restores the memory of the time of `mark`, and its copy.
    pub(super) fn go_back(&mut self, mark: Mark) {
        for Change { part, index, before } in self.log.drain(mark.changes..).rev() {
            let part = &mut self.parts[part as usize];
            let index = index as usize;
            part.words[index] = before;
            part.used = part.used.start.min(index)..part.used.end.max(index + 1);
            write(part.start + index * WORD, before);
        }
        self.hash = mark.hash;
    }
}

/// Returns `count` words of an explored machine. The caller does not use them after the machine's memory is written.
fn read(address: usize, count: usize) -> &'static [u64] {
    #[expect(unsafe_code, reason = "reads the machine's memory")]
    // SAFETY: the words are mapped memory of an arena, which was zero at first, so they are initialised. The callers
    // pass multiples of 8 as addresses. The machine does not run, and nothing writes the words while the caller uses
    // them.
    unsafe {
        slice::from_raw_parts(ptr::with_exposed_provenance(address), count)
    }
}

/// Writes a word of an explored machine.
fn write(address: usize, word: u64) {
    #[expect(unsafe_code, reason = "writes the machine's memory")]
    // SAFETY: the word is aligned mapped memory of an arena whose machine does not run, and no slice of `read` is in
    // use. The contract of `MachineMemory::new` excludes references to the word from outside of the exploration.
    unsafe {
        ptr::with_exposed_provenance_mut::<u64>(address).write(word);
    }
}

/// Whether memory of an explored machine is 0.
pub(super) fn is_zero(memory: Range<usize>) -> bool {
    read(memory.start, memory.len() / WORD).iter().fold(0, |all, word| all | word) == 0
}
