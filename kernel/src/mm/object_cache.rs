//! Allocates small objects by size class: each CPU has a cache of free objects, and the CPUs share spans of objects.
//!
//! A *span* is a block of 32 KiB from the large heap, aligned to its size. It contains a header and objects of one
//! class. So the span of an object is found by masking the object's address. Each class has a shared list of the spans
//! that have free objects (Go: `mcentral`). A CPU takes objects from these spans and returns them in batches (Go:
//! `mcache.refill`, runtime/mcache.go). When all objects of a span are free, the span is returned to the large heap,
//! unless it is the only span on the list of its class.

use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::fmt;
use core::ptr::{self, NonNull};

use super::error::OutOfMemory;
use super::large_heap;
use crate::cpu::local::cpu_local;
use crate::cpu::percpu::PreemptGuard;
use crate::cpu::sync::PreemptMutex;

/// The sizes of objects: powers of two, the sizes half-way between them, and the size of a G (448), because there may
/// be a million Gs.
const SIZES: [usize; 15] = [16, 32, 48, 64, 96, 128, 192, 256, 384, 448, 512, 768, 1024, 1536, 2048];
const CLASSES: usize = SIZES.len();
const LARGEST: usize = SIZES[CLASSES - 1];
/// Every size of objects is a multiple of this unit, and every object is aligned to it.
const UNIT: usize = 16;
/// The class for each size. The index is the size divided by [`UNIT`], rounded up.
const CLASS_OF: [u8; LARGEST / UNIT + 1] = class_table();

/// The size of a span, in bytes, and its alignment.
const SPAN_BYTES: usize = 32 * 1024;
const SPAN_LAYOUT: Layout = match Layout::from_size_align(SPAN_BYTES, SPAN_BYTES) {
    Ok(layout) => layout,
    Err(_) => panic!("a span has a layout"),
};

/// Whether there is a class whose objects have exactly this size.
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

/// Returns the size class for a request, or `None` if the request must be met by the large heap.
pub(super) fn class_of(layout: Layout) -> Option<usize> {
    // For an alignment above `UNIT`, choose a class whose size is a power of two, because the objects of such a class
    // are aligned to their size.
    let size =
        if layout.align() > UNIT { layout.size().max(layout.align()).next_power_of_two() } else { layout.size() };
    (size <= LARGEST).then(|| usize::from(CLASS_OF[size.div_ceil(UNIT)]))
}

/// The batch size of each class: how many objects move between a CPU's cache and the shared spans at a time. It is the
/// number that fits into a page, but at least 2 and at most 32.
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

/// A free object. Its first word is the link to the next free object.
struct Object {
    next: *mut Object,
}

/// A list of free objects of one class. It is a stack (LIFO).
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
        // SAFETY: objects on a list are free memory that only the owner of the list accesses, and `push` has written
        // the link.
        self.head = unsafe { object.read() }.next;
        self.count -= 1;
        Some(object)
    }

    /// # Safety
    /// `object` must be the memory of an object of this list's class, and must not be in use.
    unsafe fn push(&mut self, object: NonNull<Object>) {
        // SAFETY: the caller promises that the memory is not in use, and objects of every class are large enough for
        // the link.
        unsafe { object.write(Object { next: self.head }) };
        self.head = object.as_ptr();
        self.count += 1;
    }
}

/// The header at the beginning of a span.
struct Span {
    previous: *mut Span,
    next: *mut Span,
    free: Objects,
    capacity: usize,
}

impl Span {
    /// Returns the span that contains an object.
    fn of(object: NonNull<Object>) -> *mut Span {
        object.as_ptr().map_addr(|address| address & !(SPAN_BYTES - 1)).cast()
    }

    /// Allocates a span and divides it into free objects.
    fn make(class: usize) -> Result<NonNull<Span>, OutOfMemory> {
        let size = SIZES[class];
        let span = large_heap::allocate_large(SPAN_LAYOUT)?.cast::<Span>();
        // If the size is a power of two, objects must be aligned to their size. To ensure this, the first object is at
        // a multiple of the largest power of two that divides the size.
        let first = size_of::<Span>().next_multiple_of(1 << size.trailing_zeros());
        let mut free = Objects::new();
        let capacity = (SPAN_BYTES - first) / size;
        // The first object is pushed last, so that a new span is used from its beginning.
        for index in (0..capacity).rev() {
            // SAFETY: the object is inside the span, which was just allocated.
            let object = unsafe { span.byte_add(first + index * size) }.cast();
            // SAFETY: the object is new memory of this class, since objects do not overlap with each other or with the
            // header.
            unsafe { free.push(object) };
        }
        let header = Span { previous: ptr::null_mut(), next: ptr::null_mut(), free, capacity };
        // SAFETY: the span was just allocated, and its first object begins after the header.
        unsafe { span.write(header) };
        Ok(span)
    }
}

/// The list of the spans of one class that have free objects.
struct SharedClass {
    partial: *mut Span,
}

// SAFETY: only the holder of the class's lock accesses the list and the headers of its spans. The holder may be on any
// CPU, because this memory belongs to no particular CPU.
unsafe impl Send for SharedClass {}

impl SharedClass {
    /// Moves at most `count` objects from the spans to `to`.
    fn take(&mut self, to: &mut Objects, count: usize) {
        for _ in 0..count {
            // SAFETY: spans on the list are valid, and only the holder of the lock accesses them.
            let Some(span) = (unsafe { self.partial.as_mut() }) else { return };
            if let Some(object) = span.free.pop() {
                // SAFETY: the object is of this class, and free, since it comes from a list of free objects.
                unsafe { to.push(object) };
            }
            if span.free.head.is_null() {
                self.unlink(span);
            }
        }
    }

    /// Returns one object to its span. If all objects of that span are then free, and the span is not the only one on
    /// the list, unlinks the span and returns it. The caller must free the returned span.
    fn give(&mut self, object: NonNull<Object>) -> Option<NonNull<u8>> {
        // SAFETY: the object is in a span of this class, so the header of the span is valid. The caller holds the lock
        // of the class, so nothing else accesses the header.
        let span = unsafe { &mut *Span::of(object) };
        let was_full = span.free.head.is_null();
        // SAFETY: the object is of this class, and the caller does not use it any more.
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
        // SAFETY: spans on the list are valid, and only the holder of the lock accesses them.
        if let Some(next) = unsafe { self.partial.as_mut() } {
            next.previous = span;
        }
        self.partial = span;
    }

    fn unlink(&mut self, span: &mut Span) {
        // SAFETY: spans on the list are valid, and only the holder of the lock accesses them. The previous span is not
        // `span` itself, so there are no two mutable references to one span.
        match unsafe { span.previous.as_mut() } {
            Some(previous) => previous.next = span.next,
            None => self.partial = span.next,
        }
        // SAFETY: spans on the list are valid, and only the holder of the lock accesses them.
        if let Some(next) = unsafe { span.next.as_mut() } {
            next.previous = span.previous;
        }
        (span.previous, span.next) = (ptr::null_mut(), ptr::null_mut());
    }
}

cpu_local! {
    static CACHE: CpuCache = CpuCache::new();
}

/// The free objects of one CPU, in one list for each class. Only that CPU accesses them, with preemption off, and never
/// in a handler.
struct CpuCache(UnsafeCell<[Objects; CLASSES]>);

// SAFETY: only `with_cache` accesses the cell. This function accesses only the copy of the calling CPU, with preemption
// off, so no two CPUs access a copy at the same time.
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

/// Calls `work` with this CPU's free objects of a class, with preemption off. `work` must not allocate or free memory
/// on the heap.
#[inline(always)]
fn with_cache<R>(class: usize, work: impl FnOnce(&mut Objects) -> R) -> R {
    let _preempt = PreemptGuard::of_kernel();
    let objects = CACHE.here().0.get();
    // SAFETY: this is the only reference to this CPU's cache. No other thread or G runs on this CPU now, because
    // preemption is off. Handlers do not use the heap, which the module `cpu::contexts` checks. And `work` does not use
    // the heap.
    work(&mut unsafe { &mut *objects }[class])
}

/// Takes an object of a class from this CPU's cache, or else from the shared spans.
#[inline(always)]
pub(super) fn allocate(class: usize) -> Result<NonNull<u8>, OutOfMemory> {
    match with_cache(class, Objects::pop) {
        Some(object) => Ok(object.cast()),
        None => refill(class),
    }
}

/// Moves a batch of objects from the shared spans to this CPU's cache, and takes one of them. If the shared spans have
/// no free object, makes a new span first.
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
        // SAFETY: the span was just made, and no other code can access it before it is linked.
        SHARED[class].lock().link(unsafe { span.as_mut() });
    }
}

/// Frees an object to this CPU's cache. If the cache has too many objects of the class, returns a batch to the shared
/// spans.
///
/// # Safety
/// The object must have come from [`allocate`] with the same class, and must not be in use.
#[inline(always)]
pub(super) unsafe fn free(object: NonNull<u8>, class: usize) {
    let count = with_cache(class, |objects| {
        // SAFETY: the caller promises that the object is of this class and not in use.
        unsafe { objects.push(object.cast()) };
        objects.count
    });
    if count > 2 * BATCHES[class] {
        give_back(class);
    }
}

/// Returns a batch of this CPU's free objects of a class to their spans. Takes the lock of the class for each object,
/// so that preemption is off only for a short time.
#[cold]
#[inline(never)]
fn give_back(class: usize) {
    for _ in 0..BATCHES[class] {
        let unused = with_cache(class, |objects| objects.pop().and_then(|object| SHARED[class].lock().give(object)));
        if let Some(span) = unused {
            // SAFETY: the span was unlinked from its list and all its objects are free, so nothing refers to the span.
            unsafe { large_heap::free_large(span, SPAN_LAYOUT) };
        }
    }
}
