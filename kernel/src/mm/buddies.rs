//! The buddy system: free memory, as blocks of 2^k frames, aligned to their size, for k up to 10 (4 MiB).
//!
//! A request takes the smallest block that is large enough, and returns the halves that it does not need. A freed
//! block is merged with its buddy, the neighbour with which it forms a block of twice the size, if the buddy is free
//! too. The merged block is then merged with its own buddy, and so on. (Knuth, The Art of Computer Programming 1, 2.5,
//! algorithms R and S.)

use core::mem;
use core::num::NonZeroU32;

/// The number of block sizes: 1, 2, 4 and so on to 1024 frames.
pub(super) const ORDERS: usize = 11;

/// The state of every frame that is not the first frame of a free block. The state of the first frame of a free block
/// is the order of that block.
pub(super) const NOT_FREE: u8 = 0x7f;
/// Set in addition to the state of a frame that may contain code of the firmware, as the module
/// [`former_use`](super::former_use) explains.
pub(super) const STALE: u8 = 0x80;

/// The links of a free block in the list of free blocks of its order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    previous: Option<FrameNumber>,
    next: Option<FrameNumber>,
}

/// The number of a frame: its physical address divided by the page size. It is never 0, since the first MiB is not
/// allocated. 32 bits are enough for 16 TiB.
pub(super) type FrameNumber = NonZeroU32;

/// The free blocks, in one list for each order.
#[derive(Debug)]
pub(super) struct Buddies {
    heads: [Option<FrameNumber>; ORDERS],
    tables: Tables,
    free_frames: usize,
}

/// The state and the links of each frame, from frame 0 on.
#[derive(Debug)]
pub(super) struct Tables {
    /// For each frame, the order of the free block that begins with it, or [`NOT_FREE`] if no free block begins with
    /// the frame. In addition, the bit [`STALE`].
    pub(super) states: &'static mut [u8],
    /// For each frame, the links of the free block that begins with it. Meaningless if no free block begins with the
    /// frame.
    pub(super) links: &'static mut [Links],
}

impl Buddies {
    pub(super) const fn new() -> Self {
        Self { heads: [None; ORDERS], tables: Tables { states: &mut [], links: &mut [] }, free_frames: 0 }
    }

    /// Replaces the tables by larger ones, in which no block is free, and copies the content of the old ones. Returns
    /// the old ones, which are not used any more.
    pub(super) fn replace_tables(&mut self, new: Tables) -> Tables {
        let old = mem::replace(&mut self.tables, new);
        self.tables.states[..old.states.len()].copy_from_slice(old.states);
        self.tables.links[..old.links.len()].copy_from_slice(old.links);
        old
    }

    /// Returns the number of frames that the tables describe.
    pub(super) fn table_len(&self) -> usize {
        self.tables.states.len()
    }

    pub(super) fn free_frames(&self) -> usize {
        self.free_frames
    }

    /// Takes a free block of 2^`order` frames, if there is one.
    pub(super) fn allocate(&mut self, order: usize) -> Option<FrameNumber> {
        let found = (order..ORDERS).find(|&order| self.heads[order].is_some())?;
        let block = self.heads[found]?;
        self.unlink(block, found);
        for half in (order..found).rev() {
            let upper = FrameNumber::new(block.get() + (1 << half))?;
            self.link(upper, half);
        }
        self.free_frames -= 1 << order;
        Some(block)
    }

    /// Frees a block of 2^`order` frames.
    fn free(&mut self, block: FrameNumber, order: usize) {
        assert!(self.state(block) == Some(NOT_FREE), "frame {block:#x} was freed twice, or is no memory");
        self.free_frames += 1 << order;
        let (mut block, mut order) = (block, order);
        while order + 1 < ORDERS {
            // The numbers of a block and of its buddy differ in one bit, which is bit `order`.
            let Some(buddy) = FrameNumber::new(block.get() ^ (1 << order)) else { break };
            if self.state(buddy).map(usize::from) != Some(order) {
                break;
            }
            self.unlink(buddy, order);
            block = block.min(buddy);
            order += 1;
        }
        self.link(block, order);
    }

    /// Frees `count` frames from `first` on, as the largest aligned blocks into which they can be divided.
    pub(super) fn free_range(&mut self, first: u64, count: u64) {
        let (mut first, end) = (first, first + count);
        while let Some(block) = u32::try_from(first).ok().and_then(FrameNumber::new).filter(|_| first < end) {
            let order = (first.trailing_zeros() as usize).min((end - first).ilog2() as usize).min(ORDERS - 1);
            self.free(block, order);
            first += 1 << order;
        }
    }

    /// Returns the state of a frame, or `None` if the tables have no such frame.
    fn state(&self, frame: FrameNumber) -> Option<u8> {
        self.tables.states.get(index(frame)).map(|state| state & !STALE)
    }

    fn set_state(&mut self, frame: FrameNumber, new: u8) {
        let state = &mut self.tables.states[index(frame)];
        *state = *state & STALE | new;
    }

    /// Returns whether any of `count` frames from `first` on is stale, and marks all of them as not stale.
    pub(super) fn take_stale(&mut self, first: FrameNumber, count: usize) -> bool {
        let states = &mut self.tables.states[index(first)..][..count];
        let is_any_stale = states.iter().any(|state| state & STALE != 0);
        if is_any_stale {
            states.iter_mut().for_each(|state| *state &= !STALE);
        }
        is_any_stale
    }

    fn link(&mut self, block: FrameNumber, order: usize) {
        let next = self.heads[order].replace(block);
        if let Some(next) = next {
            self.tables.links[index(next)].previous = Some(block);
        }
        self.tables.links[index(block)] = Links { previous: None, next };
        self.set_state(block, u8::try_from(order).expect("few orders"));
    }

    fn unlink(&mut self, block: FrameNumber, order: usize) {
        let Links { previous, next } = self.tables.links[index(block)];
        match previous {
            Some(previous) => self.tables.links[index(previous)].next = next,
            None => self.heads[order] = next,
        }
        if let Some(next) = next {
            self.tables.links[index(next)].previous = previous;
        }
        self.set_state(block, NOT_FREE);
    }
}

/// Returns the number of a frame, as an index of the tables.
fn index(frame: FrameNumber) -> usize {
    frame.get() as usize
}
