//! Small objects by size class: a cache of free objects on each CPU, and spans that the CPUs share.
//!
//! A span is 32 KiB of the large heap, aligned to its size, with a header and objects of one class. So the span of an object is
//! found by masking the object's address. A CPU takes and returns objects in batches (Go: `mcache.refill`, runtime/mcache.go).
//! The shared list of each class has the spans with free objects (Go: `mcentral`). A span whose objects are all free is
//! returned to the large heap, unless it is the last of its class.

use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::fmt;
use core::ptr::{self, NonNull};

use super::error::OutOfMemory;
use super::large_heap;
use crate::cpu::local::cpu_local;
use crate::cpu::percpu::PreemptGuard;
use crate::cpu::sync::PreemptMutex;

/// Sizes of objects: powers of two, the steps half-way between them, and the size of a G, of which there may be a million.
const SIZES: [usize; 15] = [16, 32, 48, 64, 96, 128, 192, 256, 384, 448, 512, 768, 1024, 1536, 2048];
const CLASSES: usize = SIZES.len();
const LARGEST: usize = SIZES[CLASSES - 1];
/// The unit of [`CLASS_OF`].
const UNIT: usize = 16;
/// The class of a size, by size / [`UNIT`], rounded up.
const CLASS_OF: [u8; LARGEST / UNIT + 1] = class_table();

/// Bytes of a span, and its alignment.
const SPAN_BYTES: usize = 32 * 1024;
const SPAN_LAYOUT: Layout = match Layout::from_size_align(SPAN_BYTES, SPAN_BYTES) {
    Ok(layout) => layout,
    Err(_) => panic!("a span has a layout"),
};

/// Whether there is a class of exactly that size.
pub(crate) const fn is_size(bytes: usize) -> bool {
    let mut class = 0;
    while class < CLASSES {
        if SIZES[class] == bytes {
            return true;
        }
        class += 1;
    }
    false
}

static SHARED: [PreemptMutex<SharedClass>; CLASSES] =
    [const { PreemptMutex::new(SharedClass { partial: ptr::null_mut() }) }; CLASSES];

const fn class_table() -> [u8; LARGEST / UNIT + 1] {
    let mut table = [0; LARGEST / UNIT + 1];
    let (mut units, mut class) = (0, 0);
    while units < table.len() {
        if units * UNIT > SIZES[class as usize] {
            class += 1;
        }
        table[units] = class;
        units += 1;
    }
    table
}

/// The size class for a request, or `None` if it is for the large heap.
pub(super) fn class_of(layout: Layout) -> Option<usize> {
    // Objects whose size is a power of two are aligned to it.
    let size =
        if layout.align() > UNIT { layout.size().max(layout.align()).next_power_of_two() } else { layout.size() };
    (size <= LARGEST).then(|| usize::from(CLASS_OF[size.div_ceil(UNIT)]))
}

/// How many objects of each class move between a CPU and the shared spans at a time: as many as fit into a page, but at least 2
/// and at most 32.
const BATCHES: [usize; CLASSES] = {
    let mut batches = [0; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        batches[class] = match 4096 / SIZES[class] {
            count @ 2..=32 => count,
            0 | 1 => 2,
            _ => 32,
        };
        class += 1;
    }
    batches
};

/// A free object.
struct Object {
    next: *mut Object,
}

/// A list of free objects, last in, first out.
struct Objects {
    head: *mut Object,
    count: usize,
}

impl Objects {
    const fn new() -> Self {
        Self { head: ptr::null_mut(), count: 0 }
    }

    fn pop(&mut self) -> Option<NonNull<Object>> {
        let object = NonNull::new(self.head)?;
        // SAFETY: objects on a list are free and belong to the list's owner, and `push` has written the link.
        self.head = unsafe { object.read() }.next;
        self.count -= 1;
        Some(object)
    }

    /// # Safety
    /// `object` must be memory of this class that is not in use.
    unsafe fn push(&mut self, object: NonNull<Object>) {
        // SAFETY: the caller's promise; every class has room for the link.
        unsafe { object.write(Object { next: self.head }) };
        self.head = object.as_ptr();
        self.count += 1;
    }
}

/// Header of a span.
struct Span {
    previous: *mut Span,
    next: *mut Span,
    free: Objects,
    capacity: usize,
}

impl Span {
    /// The span of an object.
    fn of(object: NonNull<Object>) -> *mut Span {
        object.as_ptr().map_addr(|address| address & !(SPAN_BYTES - 1)).cast()
    }

    /// Cuts a new span into objects.
    fn make(class: usize) -> Result<NonNull<Span>, OutOfMemory> {
        let size = SIZES[class];
        let span = large_heap::allocate_large(SPAN_LAYOUT)?.cast::<Span>();
        // Objects of a power of two start at a multiple of it.
        let first = size_of::<Span>().next_multiple_of(1 << size.trailing_zeros());
        let mut free = Objects::new();
        let capacity = (SPAN_BYTES - first) / size;
        // The first object is pushed last, so that a new span is used from its beginning.
        for index in (0..capacity).rev() {
            // SAFETY: inside the span, which was just allocated.
            let object = unsafe { span.byte_add(first + index * size) }.cast();
            // SAFETY: as above; objects do not overlap.
            unsafe { free.push(object) };
        }
        let header = Span { previous: ptr::null_mut(), next: ptr::null_mut(), free, capacity };
        // SAFETY: the header is before the first object.
        unsafe { span.write(header) };
        Ok(span)
    }
}

/// The spans of one class that have free objects.
struct SharedClass {
    partial: *mut Span,
}

// SAFETY: the spans belong to the holder of the lock.
unsafe impl Send for SharedClass {}

impl SharedClass {
    /// Moves up to `count` objects to `to`.
    fn take(&mut self, to: &mut Objects, count: usize) {
        for _ in 0..count {
            // SAFETY: spans on the list are valid, and only the holder of the lock accesses them.
            let Some(span) = (unsafe { self.partial.as_mut() }) else { return };
            if let Some(object) = span.free.pop() {
                // SAFETY: a free object of this class.
                unsafe { to.push(object) };
            }
            if span.free.head.is_null() {
                self.unlink(span);
            }
        }
    }

    /// Frees one object. Returns its span if that is unused now and is to be freed.
    fn give(&mut self, object: NonNull<Object>) -> Option<NonNull<u8>> {
        // SAFETY: the object is in a span of this class, whose header is valid and belongs to the holder of the lock.
        let span = unsafe { &mut *Span::of(object) };
        let was_full = span.free.head.is_null();
        // SAFETY: the caller does not use the object any more.
        unsafe { span.free.push(object) };
        if was_full {
            self.link(span);
        }
        let is_only = self.partial == ptr::from_mut(span) && span.next.is_null();
        if span.free.count < span.capacity || is_only {
            return None;
        }
        self.unlink(span);
        Some(NonNull::from_mut(span).cast())
    }

    fn link(&mut self, span: &mut Span) {
        span.previous = ptr::null_mut();
        span.next = self.partial;
        // SAFETY: as in `take`.
        if let Some(next) = unsafe { self.partial.as_mut() } {
            next.previous = span;
        }
        self.partial = span;
    }

    fn unlink(&mut self, span: &mut Span) {
        // SAFETY: as in `take`; a neighbour is another span.
        match unsafe { span.previous.as_mut() } {
            Some(previous) => previous.next = span.next,
            None => self.partial = span.next,
        }
        // SAFETY: as above.
        if let Some(next) = unsafe { span.next.as_mut() } {
            next.previous = span.previous;
        }
        (span.previous, span.next) = (ptr::null_mut(), ptr::null_mut());
    }
}

cpu_local! {
    static CACHE: CpuCache = CpuCache::new();
}

/// The free objects of one CPU. Touched only by that CPU, with preemption off, and never by an interrupt handler.
struct CpuCache(UnsafeCell<[Objects; CLASSES]>);

// SAFETY: `with_cache`, the only access, ensures that.
unsafe impl Sync for CpuCache {}

impl CpuCache {
    const fn new() -> Self {
        Self(UnsafeCell::new([const { Objects::new() }; CLASSES]))
    }
}

impl fmt::Debug for CpuCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CpuCache")
    }
}

/// Calls `work` with this CPU's free objects of a class, with preemption off. `work` must not use the global allocator.
#[inline(always)]
fn with_cache<R>(class: usize, work: impl FnOnce(&mut Objects) -> R) -> R {
    let _preempt = PreemptGuard::new();
    let objects = CACHE.here().0.get();
    // SAFETY: preemption is off, handlers do not allocate, and no `work` below calls this function: this is the only reference.
    work(&mut unsafe { &mut *objects }[class])
}

/// Takes an object of a class.
#[inline(always)]
pub(super) fn allocate(class: usize) -> Result<NonNull<u8>, OutOfMemory> {
    match with_cache(class, Objects::pop) {
        Some(object) => Ok(object.cast()),
        None => refill(class),
    }
}

/// Takes an object of a class, and a batch for this CPU, from the shared spans, or from a new one.
#[cold]
#[inline(never)]
fn refill(class: usize) -> Result<NonNull<u8>, OutOfMemory> {
    loop {
        let object = with_cache(class, |objects| {
            SHARED[class].lock().take(objects, BATCHES[class]);
            objects.pop()
        });
        if let Some(object) = object {
            return Ok(object.cast());
        }
        let mut span = Span::make(class)?;
        // SAFETY: just made, and not accessible to others before it is linked.
        SHARED[class].lock().link(unsafe { span.as_mut() });
    }
}

/// Frees an object.
///
/// # Safety
/// It must have come from [`allocate`] with the same class and not be in use.
#[inline(always)]
pub(super) unsafe fn free(object: NonNull<u8>, class: usize) {
    let count = with_cache(class, |objects| {
        // SAFETY: the caller's promise.
        unsafe { objects.push(object.cast()) };
        objects.count
    });
    if count > 2 * BATCHES[class] {
        give_back(class);
    }
}

/// Returns a batch of this CPU's free objects of a class, one span's lock at a time.
#[cold]
#[inline(never)]
fn give_back(class: usize) {
    for _ in 0..BATCHES[class] {
        let unused = with_cache(class, |objects| objects.pop().and_then(|object| SHARED[class].lock().give(object)));
        if let Some(span) = unused {
            // SAFETY: the span is off its list and all its objects are free, so nothing refers to it.
            unsafe { large_heap::free_large(span, SPAN_LAYOUT) };
        }
    }
}
