//! Page runs: address ranges of whole pages. Whether their pages have frames is the business of the caller.
//!
//! Runs are kept on levels. On level *l* the unit is 16^*l* pages, and a run has between 1 and 16 units (on the last
//! level up to 32). Each level has a window of addresses of its own, which is divided into *arenas* of 32 units. So an
//! arena never has more than 16 free ranges.
//!
//! The free ranges of an arena are kept by a [`linked_list_allocator::Heap`], which allocates by first fit. It keeps
//! its list in the free memory. A free page need not have a frame, so the list is not in the pages, but in a table with
//! an [entry](ENTRY_BYTES) for each unit: the heap manages the table, and a run is the part of the window that
//! corresponds to an allocated part of the table. While a unit is allocated, its entry can be used for something else:
//! it is the [header of a span](crate::spans::Header), or that of a run that waits.
//!
//! Each arena has an upper bound for the size of its largest free range, and the arenas with the same bound are in a
//! list. The bound is lowered when a search fails, and raised when a run is freed. So each search is in an arena that
//! probably has room, and passes at most 16 free ranges.

use core::alloc::Layout;
use core::ops::Range;
use core::ptr::NonNull;

use linked_list_allocator::Heap;

use crate::PAGE_SIZE;

/// The number of levels.
pub const LEVELS: usize = 6;
/// How many units of a level one unit of the next level has.
const RATIO: usize = 16;
/// The number of units of an arena.
const ARENA_UNITS: usize = 32;
/// The size of the entry for a unit. It is the smallest size that [`Heap`] can manage.
pub const ENTRY_BYTES: usize = 16;
const ARENA_ENTRY_BYTES: usize = ARENA_UNITS * ENTRY_BYTES;
/// The largest alignment of a run, in bytes.
const MAX_ALIGN: usize = 1 << 30;

/// Returns the number of pages in a unit of a level.
const fn unit_pages(level: usize) -> usize {
    RATIO.pow(level as u32)
}

/// The size of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    level: u8,
    pages: usize,
}

impl Size {
    /// Returns the size of a run of `bytes` bytes that is aligned to `align` bytes, or `None` if there is no such run.
    #[must_use]
    pub fn of(bytes: usize, align: usize) -> Option<Self> {
        if align > MAX_ALIGN {
            return None;
        }
        let pages = bytes.div_ceil(PAGE_SIZE).max(1);
        let fits = |level: usize| {
            let most = if level + 1 < LEVELS { RATIO } else { ARENA_UNITS };
            unit_pages(level) * PAGE_SIZE >= align && pages.div_ceil(unit_pages(level)) <= most
        };
        (0..LEVELS).find(|&level| fits(level)).map(|level| Self { level: level as u8, pages })
    }

    /// Returns the size of a run of level 0.
    #[must_use]
    pub fn of_span(pages: usize) -> Self {
        Self { level: 0, pages }
    }

    /// Returns the level.
    #[must_use]
    pub fn level(self) -> usize {
        usize::from(self.level)
    }

    /// Returns the number of pages.
    #[must_use]
    pub fn pages(self) -> usize {
        self.pages
    }

    fn units(self) -> usize {
        self.pages.div_ceil(unit_pages(self.level()))
    }
}

/// A page run that is allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    size: Size,
    /// The first unit, counted from the beginning of the level's window.
    first: usize,
}

impl Run {
    /// Returns the run that begins in the page `page` of its level's window.
    #[must_use]
    pub fn at(size: Size, page: usize) -> Self {
        Self { size, first: page / unit_pages(size.level()) }
    }

    /// Returns the level.
    #[must_use]
    pub fn level(self) -> usize {
        self.size.level()
    }

    /// Returns the number of pages.
    #[must_use]
    pub fn pages(self) -> usize {
        self.size.pages
    }

    /// Returns the number of the first page, counted from the beginning of the level's window.
    #[must_use]
    pub fn first_page(self) -> usize {
        self.first * unit_pages(self.level())
    }
}

/// An arena. `bound` is not less than the number of units of the largest free range.
#[derive(Debug)]
pub struct Arena {
    heap: HeapOfEntries,
    bound: u8,
    /// The neighbours in the list of the arenas with this bound: the number of an arena plus one, or 0 at the ends.
    previous: u32,
    next: u32,
}

struct HeapOfEntries(Heap);

impl core::fmt::Debug for HeapOfEntries {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Heap").field("used", &self.0.used()).finish_non_exhaustive()
    }
}

/// The tables of one level, and how many arenas they describe.
#[derive(Clone, Copy, Debug)]
pub struct Tables {
    arenas: *mut Arena,
    entries: *mut u8,
    capacity: usize,
}

impl Tables {
    /// Describes the tables of a level with `capacity` arenas.
    ///
    /// # Safety
    /// `arenas` must have the alignment of [`Arena`], and `entries` that of [`ENTRY_BYTES`]. Both tables must belong to
    /// this level. Their parts need no memory before [`Runs::add_tables`].
    #[must_use]
    pub const unsafe fn new(arenas: *mut Arena, entries: *mut u8, capacity: usize) -> Self {
        Self { arenas, entries, capacity }
    }

    /// Returns the size of both tables for `capacity` arenas, in bytes: that of the arenas and that of the entries.
    #[must_use]
    pub const fn bytes(capacity: usize) -> (usize, usize) {
        (capacity * size_of::<Arena>(), capacity * ARENA_ENTRY_BYTES)
    }
}

/// Returns how many arenas a window of `pages` pages has on a level.
#[must_use]
pub const fn arenas_of(level: usize, pages: usize) -> usize {
    pages / (unit_pages(level) * ARENA_UNITS)
}

/// Why no run was allocated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The arena that was searched had no room, or an arena had to be made first. The caller has to try again.
    Retry,
    /// The caller has to provide memory for these parts of the tables, call [`Runs::add_tables`] with the number, and
    /// try again.
    NeedsTables {
        /// The addresses of the parts.
        parts: [Range<usize>; 2],
        /// The number of arenas that the tables then describe.
        arenas: usize,
    },
    /// The window of the level is full.
    Full,
}

/// One level.
#[derive(Debug)]
struct Level {
    tables: Tables,
    /// How many arenas have been made.
    made: usize,
    /// How many arenas the parts of the tables that have memory describe.
    ready: usize,
    /// For each bound, the first arena with this bound: its number plus one, or 0.
    lists: [u32; ARENA_UNITS + 1],
    /// Bit *n* is set if the list for the bound *n* is not empty.
    nonempty: u64,
}

// SAFETY: the tables belong to no particular CPU.
unsafe impl Send for Level {}

impl Level {
    const fn new(tables: Tables) -> Self {
        Self { tables, made: 0, ready: 0, lists: [0; ARENA_UNITS + 1], nonempty: 0 }
    }

    /// # Safety
    /// The arena must have been made, and there must be no other reference to it.
    unsafe fn arena<'a>(&self, number: usize) -> &'a mut Arena {
        // SAFETY: the caller promises that the arena exists and is not borrowed otherwise.
        unsafe { &mut *self.tables.arenas.wrapping_add(number) }
    }

    fn entries(&self, arena: usize) -> *mut u8 {
        self.tables.entries.wrapping_add(arena * ARENA_ENTRY_BYTES)
    }

    fn allocate(&mut self, units: usize) -> Result<usize, Refusal> {
        let candidates = self.nonempty & u64::MAX << units;
        if candidates == 0 {
            self.make_arena()?;
            return Err(Refusal::Retry);
        }
        let number = self.lists[candidates.trailing_zeros() as usize] as usize - 1;
        // SAFETY: arenas on the lists have been made. The reference ends before `set_bound`.
        let arena = unsafe { self.arena(number) };
        let bound = usize::from(arena.bound);
        match arena.heap.0.allocate_first_fit(entries(units)) {
            Ok(entry) => {
                let free = arena.heap.0.free() / ENTRY_BYTES;
                self.set_bound(number, bound.min(free));
                Ok((entry.addr().get() - self.tables.entries.addr()) / ENTRY_BYTES)
            }
            Err(()) => {
                self.set_bound(number, units - 1);
                Err(Refusal::Retry)
            }
        }
    }

    /// # Safety
    /// The units must have been allocated together, and their entries must not be in use.
    unsafe fn free(&mut self, first: usize, units: usize) {
        let number = first / ARENA_UNITS;
        // SAFETY: the caller promises that the units are allocated, so their arena has been made.
        let arena = unsafe { self.arena(number) };
        let bound = usize::from(arena.bound);
        let entry = self.tables.entries.wrapping_add(first * ENTRY_BYTES);
        if let Some(entry) = NonNull::new(entry) {
            // SAFETY: the caller promises that the entries were allocated together and are not in use.
            unsafe { arena.heap.0.deallocate(entry, entries(units)) };
        }
        // The freed units may have joined two free ranges.
        let bound = (2 * bound + units).min(arena.heap.0.free() / ENTRY_BYTES);
        self.set_bound(number, bound);
    }

    fn make_arena(&mut self) -> Result<(), Refusal> {
        let number = self.made;
        if number == self.tables.capacity {
            return Err(Refusal::Full);
        }
        if number == self.ready {
            let part = |start: usize, bytes: usize| start + number * bytes..start + (number + 1) * bytes;
            let arena = part(self.tables.arenas.addr(), size_of::<Arena>());
            let entries = part(self.tables.entries.addr(), ARENA_ENTRY_BYTES);
            return Err(Refusal::NeedsTables { parts: [arena, entries], arenas: number + 1 });
        }
        let mut heap = Heap::empty();
        // SAFETY: the entries have memory, since the tables are ready for this arena, and nothing uses them yet.
        unsafe { heap.init(self.entries(number), ARENA_ENTRY_BYTES) };
        let arena = Arena { heap: HeapOfEntries(heap), bound: ARENA_UNITS as u8, previous: 0, next: 0 };
        // SAFETY: the tables are ready for this arena.
        unsafe { self.tables.arenas.wrapping_add(number).write(arena) };
        self.made += 1;
        self.link(number);
        Ok(())
    }

    fn set_bound(&mut self, number: usize, bound: usize) {
        // SAFETY: the callers have found the arena on a list or by a run in it.
        if usize::from(unsafe { self.arena(number) }.bound) != bound {
            self.unlink(number);
            // SAFETY: the arena is the one whose bound was just read.
            unsafe { self.arena(number) }.bound = bound as u8;
            self.link(number);
        }
    }

    fn link(&mut self, number: usize) {
        // SAFETY: the arena was just made or unlinked, and is not on a list.
        let arena = unsafe { self.arena(number) };
        let list = usize::from(arena.bound);
        let next = self.lists[list];
        (arena.previous, arena.next) = (0, next);
        self.lists[list] = number as u32 + 1;
        self.nonempty |= 1 << list;
        if let Some(next) = next.checked_sub(1) {
            // SAFETY: the arena is on the list, and is another one.
            unsafe { self.arena(next as usize) }.previous = number as u32 + 1;
        }
    }

    fn unlink(&mut self, number: usize) {
        // SAFETY: the caller promises that the arena is on a list.
        let &mut Arena { bound, previous, next, .. } = unsafe { self.arena(number) };
        let list = usize::from(bound);
        match previous.checked_sub(1) {
            // SAFETY: the neighbours are on the list, too.
            Some(previous) => unsafe { self.arena(previous as usize) }.next = next,
            None => self.lists[list] = next,
        }
        if let Some(next) = next.checked_sub(1) {
            // SAFETY: the neighbours are on the list, too.
            unsafe { self.arena(next as usize) }.previous = previous;
        }
        if self.lists[list] == 0 {
            self.nonempty &= !(1 << list);
        }
    }
}

/// Returns the layout of the entries for `units` units.
fn entries(units: usize) -> Layout {
    Layout::from_size_align(units * ENTRY_BYTES, ENTRY_BYTES).expect("at most 32 entries")
}

/// The entry of the first unit of a run that waits.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Waiting {
    epoch: u64,
    units: u32,
    /// The next run of the queue: its [`Place`], or 0.
    next: u32,
}

const _: () = assert!(size_of::<Waiting>() == ENTRY_BYTES);

/// A level and the number of a unit plus one, in one word. A level has fewer than 2^[`UNIT_BITS`] units.
type Place = core::num::NonZeroU32;
const UNIT_BITS: u32 = 28;

/// All page runs.
#[derive(Debug)]
pub struct Runs {
    levels: [Level; LEVELS],
    /// The first and the last run of the queue of those that wait.
    waiting: Option<(Place, Place)>,
}

impl Runs {
    /// Makes the levels. `tables` describes the tables of each of them. All units are free.
    #[must_use]
    pub const fn new(tables: [Tables; LEVELS]) -> Self {
        let [a, b, c, d, e, f] = tables;
        let levels = [Level::new(a), Level::new(b), Level::new(c), Level::new(d), Level::new(e), Level::new(f)];
        Self { levels, waiting: None }
    }

    /// Allocates a run. Searches at most one arena, so the time is bounded.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn allocate(&mut self, size: Size) -> Result<Run, Refusal> {
        let first = self.levels[size.level()].allocate(size.units())?;
        Ok(Run { size, first })
    }

    /// Records that the tables of a level have memory for this number of arenas.
    ///
    /// # Safety
    /// The caller has provided memory for the parts of the tables that [`Refusal::NeedsTables`] has named.
    pub unsafe fn add_tables(&mut self, level: usize, arenas: usize) {
        let ready = &mut self.levels[level].ready;
        *ready = (*ready).max(arenas);
    }

    /// Frees a run.
    ///
    /// # Safety
    /// The run must be allocated, and neither its pages nor their entries may be in use.
    pub unsafe fn free(&mut self, run: Run) {
        // SAFETY: the caller promises that the run is allocated and not in use.
        unsafe { self.levels[run.level()].free(run.first, run.size.units()) };
    }

    /// Adds a run to the queue of those that wait for an epoch: see [`free_waiting`](Self::free_waiting).
    ///
    /// # Safety
    /// The run must be allocated, and its entries must not be in use.
    pub unsafe fn free_after(&mut self, run: Run, epoch: u64) {
        let place = Place::new((run.level() as u32) << UNIT_BITS | (run.first as u32 + 1)).expect("not zero");
        let first = match self.waiting {
            Some((first, last)) => {
                // SAFETY: the last run of the queue waits, so its entry contains this value.
                unsafe { (*self.entry(last)).next = place.get() };
                first
            }
            None => place,
        };
        // SAFETY: the caller promises that the entries of the run are not in use.
        unsafe { self.entry(place).write(Waiting { epoch, units: run.size.units() as u32, next: 0 }) };
        self.waiting = Some((first, place));
    }

    /// Returns the epoch of the run that has waited longest.
    #[must_use]
    pub fn first_epoch(&self) -> Option<u64> {
        let (first, _) = self.waiting?;
        // SAFETY: the run waits, so its entry contains this value.
        Some(unsafe { *self.entry(first) }.epoch)
    }

    /// Frees the run that has waited longest, if it waits for `epoch`. Returns whether a run was freed.
    ///
    /// # Safety
    /// The epoch has passed: nothing can access the pages of a run that waits for it any more.
    pub unsafe fn free_waiting(&mut self, epoch: u64) -> bool {
        let Some((first, last)) = self.waiting.filter(|_| self.first_epoch() == Some(epoch)) else { return false };
        // SAFETY: the run waits, so its entry contains this value.
        let Waiting { units, next, .. } = unsafe { *self.entry(first) };
        self.waiting = Place::new(next).map(|next| (next, last));
        let (level, unit) = parts(first);
        // SAFETY: the run is allocated, and is no longer in the queue, so its entries are not in use.
        unsafe { self.levels[level].free(unit, units as usize) };
        true
    }

    fn entry(&self, place: Place) -> *mut Waiting {
        let (level, unit) = parts(place);
        self.levels[level].tables.entries.wrapping_add(unit * ENTRY_BYTES).cast()
    }
}

/// Returns the level and the unit.
fn parts(place: Place) -> (usize, usize) {
    ((place.get() >> UNIT_BITS) as usize, (place.get() & ((1 << UNIT_BITS) - 1)) as usize - 1)
}
