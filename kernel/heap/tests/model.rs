//! Compares the heap's data structures with models, over random sequences of operations.

use std::alloc::{Layout, alloc_zeroed};
use std::collections::BTreeMap;

use kernel_heap::PAGE_SIZE;
use kernel_heap::classes::{self, SIZES, class_of, magazine_size};
use kernel_heap::idle::IdleRuns;
use kernel_heap::magazine::{Chain, Magazines, Object};
use kernel_heap::runs::{LEVELS, Refusal, Run, Runs, Size, Tables, arenas_of};
use kernel_heap::spans::{Class, Memory};

/// The number of arenas of each level.
const ARENAS: usize = 64;
/// The number of pages of the window of level 0.
const PAGES: usize = ARENAS * 32;

/// Returns zeroed memory that is never freed.
fn memory(bytes: usize, align: usize) -> *mut u8 {
    // SAFETY: the size is not zero.
    unsafe { alloc_zeroed(Layout::from_size_align(bytes, align).unwrap()) }
}

fn tables() -> ([Tables; LEVELS], *mut u8) {
    let (arenas, entries) = Tables::bytes(ARENAS);
    let all: [_; LEVELS] = std::array::from_fn(|_| (memory(arenas, 64), memory(entries, 4096)));
    // SAFETY: the memory is new, aligned, and large enough for this number of arenas.
    (all.map(|(arenas, entries)| unsafe { Tables::new(arenas.cast(), entries, ARENAS) }), all[0].1)
}

struct Model {
    runs: Runs,
    /// The allocated runs of each level, by their first page.
    taken: [BTreeMap<usize, Run>; LEVELS],
    /// How many arenas have been made on each level.
    arenas: [usize; LEVELS],
}

impl Model {
    fn new() -> Self {
        Self { runs: Runs::new(tables().0), taken: Default::default(), arenas: [0; LEVELS] }
    }

    /// Allocates a run, and checks that it overlaps with no other.
    fn allocate(&mut self, size: Size) -> Option<Run> {
        let mut tries = 0;
        let run = loop {
            match self.runs.allocate(size) {
                Ok(run) => break run,
                Err(Refusal::Retry) => tries += 1,
                Err(Refusal::Full) => return None,
                Err(Refusal::NeedsTables { arenas, parts }) => {
                    assert!(parts.iter().all(|part| !part.is_empty()));
                    self.arenas[size.level()] = arenas;
                    // SAFETY: the tables have memory from the start.
                    unsafe { self.runs.add_tables(size.level(), arenas) };
                }
            }
            // Each failed search lowers the bound of an arena.
            assert!(tries <= 2 * ARENAS, "the search does not end");
        };
        let (first, end) = (run.first_page(), run.first_page() + run.pages());
        let taken = &mut self.taken[size.level()];
        let before = taken.range(..end).next_back();
        assert!(before.is_none_or(|(start, other)| start + other.pages() <= first), "{run:?} overlaps with {before:?}");
        taken.insert(first, run);
        Some(run)
    }

    fn free_waiting(&mut self, has_passed: impl Fn(u64) -> bool) -> bool {
        let epoch = self.runs.first_epoch().filter(|&epoch| has_passed(epoch));
        // SAFETY: nothing uses the runs of this test.
        epoch.is_some_and(|epoch| unsafe { self.runs.free_waiting(epoch) })
    }

    fn take_random(&mut self) -> Option<Run> {
        let level = fastrand::usize(..LEVELS);
        let nth = fastrand::usize(..self.taken[level].len().max(1));
        let first = *self.taken[level].keys().nth(nth)?;
        self.taken[level].remove(&first)
    }
}

fn random_size() -> Size {
    let bytes = match fastrand::usize(..10) {
        0..5 => fastrand::usize(1..=16) * PAGE_SIZE,
        _ => fastrand::usize(..1 << fastrand::u32(12..34)),
    };
    Size::of(bytes, 1 << fastrand::u32(..=24)).expect("there is a level for every size and alignment of these")
}

#[test]
fn runs_do_not_overlap_and_all_become_free() {
    for seed in 0..6 {
        fastrand::seed(seed);
        let mut model = Model::new();
        for step in 0..20_000u64 {
            if fastrand::usize(..1000) < 520 {
                model.allocate(random_size());
            } else if let Some(run) = model.take_random() {
                if fastrand::bool() {
                    // SAFETY: the run was allocated, and nothing uses it.
                    unsafe { model.runs.free(run) };
                } else {
                    // SAFETY: the run was allocated, and nothing uses it.
                    unsafe { model.runs.free_after(run, step) };
                }
            }
            // Some of the epochs have passed.
            let passed = step.saturating_sub(fastrand::u64(..100));
            while fastrand::bool() && model.free_waiting(|epoch| epoch <= passed) {}
        }
        while let Some(run) = model.taken.iter_mut().find_map(|taken| taken.pop_first()) {
            // SAFETY: the run was allocated, and nothing uses it.
            unsafe { model.runs.free(run.1) };
        }
        while model.free_waiting(|_| true) {}
        // All arenas are free again, so two of the largest runs fit into each, and no new arena is needed.
        let before = model.arenas;
        for (level, size) in [(0, 16 << 12), (1, 1 << 20), (2, 16 << 20), (3, 256 << 20), (4, 4 << 30)] {
            let size = Size::of(size, 1).unwrap();
            assert_eq!(size.level(), level);
            for _ in 0..2 * before[level] {
                model.allocate(size).expect("free arenas");
            }
        }
        assert_eq!(model.arenas[..5], before[..5]);
    }
}

#[test]
fn run_waits_until_its_epoch_has_passed() {
    let mut model = Model::new();
    let size = Size::of(16 * PAGE_SIZE, 1).unwrap();
    let runs: Vec<_> = (0..4).map(|_| model.allocate(size).unwrap()).collect();
    // SAFETY: the runs were allocated, and nothing uses them.
    (0..3).for_each(|index| unsafe { model.runs.free_after(runs[index], 10 + index as u64) });
    assert!(!model.free_waiting(|epoch| epoch < 10));
    assert!(model.free_waiting(|epoch| epoch < 12));
    assert!(model.free_waiting(|epoch| epoch < 12));
    assert!(!model.free_waiting(|epoch| epoch < 12));
    model.taken[0].clear();
    assert_eq!(model.allocate(size), Some(runs[0]));
    assert_eq!(model.allocate(size), Some(runs[1]));
    let next = model.allocate(size);
    assert!(next.is_some() && next != Some(runs[2]), "a run that waits was allocated: {next:?}");
}

#[test]
fn full_window_and_impossible_alignment_are_refused() {
    assert_eq!(Size::of(1 << 20, 1 << 31), None);
    assert_eq!(Size::of(1 << 50, 1), None);
    assert_eq!(arenas_of(0, 1 << 27), 1 << 22);
    let mut model = Model::new();
    let size = Size::of(9 * PAGE_SIZE, 1).unwrap();
    // Only three of these runs fit into an arena.
    assert_eq!((0..).take_while(|_| model.allocate(size).is_some()).count(), 3 * ARENAS);
    assert!(model.allocate(Size::of(5 * PAGE_SIZE, 1).unwrap()).is_some());
}

/// A heap that is made of the data structures, for two CPUs.
struct Heap {
    model: Model,
    memory: Memory,
    classes: Vec<Class>,
    magazines: [Vec<Magazines>; 2],
}

impl Heap {
    fn new() -> Self {
        let (tables, entries) = tables();
        let model = Model { runs: Runs::new(tables), ..Model::new() };
        // SAFETY: the pages and their headers belong to this heap.
        let memory = unsafe { Memory::new(memory(PAGES * PAGE_SIZE, PAGE_SIZE), entries.cast()) };
        let magazines = [(); 2].map(|()| (0..classes::COUNT).map(|_| Magazines::new()).collect());
        Self { model, memory, classes: (0..classes::COUNT).map(|_| Class::new()).collect(), magazines }
    }

    fn allocate(&mut self, cpu: usize, class: usize) -> Option<*mut u8> {
        if let Some(object) = self.magazines[cpu][class].pop() {
            return Some(object.as_ptr().cast());
        }
        let mut chain = match self.classes[class].take(self.memory) {
            Some(chain) => chain,
            None => {
                let pages = self.classes[class].begin_span(class);
                let Some(run) = self.model.allocate(Size::of_span(pages)) else {
                    self.classes[class].cancel_span();
                    return None;
                };
                // SAFETY: the run is new, and its memory was allocated with the window.
                unsafe { self.memory.divide(class, run.first_page(), pages) }
            }
        };
        let object = chain.pop().unwrap();
        if !chain.is_empty()
            && let Some(chain) = self.magazines[cpu][class].fill(chain)
        {
            // SAFETY: the objects are of this class.
            unsafe { self.classes[class].put(self.memory, chain) };
        }
        Some(object.as_ptr().cast())
    }

    fn free(&mut self, cpu: usize, class: usize, object: *mut u8) {
        let object = std::ptr::NonNull::new(object.cast::<Object>()).unwrap();
        // SAFETY: the object is of this class, and not in use.
        let surplus = unsafe { self.magazines[cpu][class].push(object, magazine_size(class)) };
        if let Some(chain) = surplus {
            // SAFETY: the objects are of this class.
            unsafe { self.classes[class].put(self.memory, chain) };
        }
    }

    fn give_back(&mut self, class: usize, mut chain: Chain) {
        while let Some(object) = chain.pop() {
            // SAFETY: the object is of this class, and free.
            if let Some(unused) = unsafe { self.classes[class].give_back(self.memory, object) } {
                let run = self.model.taken[0].remove(&unused.first).expect("a run of a span");
                assert_eq!(run, Run::at(Size::of_span(unused.pages), unused.first));
                // SAFETY: no object of the span is in use.
                unsafe { self.model.runs.free(run) };
            }
        }
    }

    /// Returns all free objects to their spans.
    fn drain(&mut self) {
        for class in 0..classes::COUNT {
            for cpu in 0..2 {
                self.magazines[cpu][class].take_all().into_iter().for_each(|chain| self.give_back(class, chain));
            }
            while let Some(chain) = self.classes[class].take_chain(self.memory) {
                self.give_back(class, chain);
            }
        }
    }
}

#[test]
fn objects_keep_their_contents_and_empty_spans_become_free() {
    for seed in 0..6 {
        fastrand::seed(seed);
        let mut heap = Heap::new();
        let mut live: Vec<(*mut u8, usize, u8)> = Vec::new();
        // Some rounds use few classes, so that these have many objects.
        let classes = fastrand::usize(1..=classes::COUNT);
        for step in 0..60_000usize {
            let cpu = fastrand::usize(..2);
            let grows = step / 7_000 % 2 == 0;
            if fastrand::usize(..10) < if grows { 6 } else { 3 } {
                let class = fastrand::usize(..classes);
                let Some(object) = heap.allocate(cpu, class) else { continue };
                let (size, mark) = (SIZES[class], step as u8);
                assert_eq!(object.addr() % if size.is_power_of_two() { size.min(PAGE_SIZE) } else { 16 }, 0);
                // SAFETY: the object has this size.
                unsafe { object.write_bytes(mark, size) };
                live.push((object, class, mark));
            } else if !live.is_empty() {
                let (object, class, mark) = live.swap_remove(fastrand::usize(..live.len()));
                // SAFETY: the object has this size, and was written.
                let contents = unsafe { std::slice::from_raw_parts(object, SIZES[class]) };
                assert!(contents.iter().all(|&byte| byte == mark), "an object of {} bytes changed", SIZES[class]);
                heap.free(cpu, class, object);
            }
            if fastrand::usize(..5_000) == 0 {
                heap.drain();
            }
        }
        for (object, class, _) in live {
            heap.free(0, class, object);
        }
        heap.drain();
        assert!(heap.model.taken[0].is_empty(), "{} runs are still in use", heap.model.taken[0].len());
    }
}

#[test]
fn cpu_that_alternates_around_a_full_magazine_exchanges_no_chain() {
    let mut heap = Heap::new();
    let class = class_of(Layout::new::<[u64; 8]>()).unwrap();
    let size = magazine_size(class);
    let objects: Vec<_> = (0..4 * size).map(|_| heap.allocate(0, class).unwrap()).collect();
    objects.iter().for_each(|&object| heap.free(0, class, object));
    let mut exchanged = 0;
    for _ in 0..100 {
        // The magazines have room for the objects that were taken from them.
        let taken: Vec<_> = (0..size / 2).map(|_| heap.magazines[0][class].pop().unwrap()).collect();
        for object in taken {
            // SAFETY: the object is of this class, and not in use.
            exchanged += usize::from(unsafe { heap.magazines[0][class].push(object, size) }.is_some());
        }
    }
    assert_eq!(exchanged, 0);
}

#[test]
fn layout_gets_the_smallest_class_that_fits() {
    for size in 1..70_000 {
        let class = class_of(Layout::from_size_align(size, 8).unwrap());
        assert_eq!(class, SIZES.iter().position(|&other| other >= size), "{size}");
    }
    for shift in 0..=12 {
        for size in [1, 17, 100, 513, 2000, 2049, 4096, 5000, 9000, 40_000, 65_536] {
            let align = 1 << shift;
            let class = class_of(Layout::from_size_align(size, align).unwrap()).unwrap();
            // Objects are at multiples of their size from the beginning of a page.
            assert!(SIZES[class] >= size && SIZES[class].is_multiple_of(align), "{size}, {align}");
        }
    }
    assert_eq!(class_of(Layout::from_size_align(1, 8192).unwrap()), None);
}

#[test]
fn idle_run_serves_a_request_of_its_size() {
    let mut idle = IdleRuns::new();
    let run = |pages: usize, page| Run::at(Size::of(pages * PAGE_SIZE, 1).unwrap(), page);
    for pages in 20..30 {
        // SAFETY: the memory is new.
        unsafe { idle.put(memory(PAGE_SIZE, PAGE_SIZE), run(pages, pages * 16)) };
    }
    let mut take = |pages| idle.take(1, pages).map(|(_, run)| run);
    assert_eq!(take(25), Some(run(25, 25 * 16)));
    assert_eq!(take(25), None);
    assert_eq!(take(29), Some(run(29, 29 * 16)));
    assert_eq!(std::iter::from_fn(|| idle.take_any()).count(), 8);
}
