//! Chains of free objects, and the two chains that each CPU keeps for each class.

use core::mem;
use core::ptr::{self, NonNull};

/// A free object. `next` is the next free object of the same list. `chain` is in use only while the object is the first
/// of a chain that CPUs share: see [`Class`](crate::spans::Class).
#[derive(Debug)]
#[repr(C)]
pub struct Object {
    pub(crate) next: *mut Object,
    pub(crate) chain: usize,
}

/// A list of free objects of one class. It is a stack (LIFO).
#[derive(Debug)]
pub struct Chain {
    pub(crate) head: *mut Object,
    pub(crate) count: usize,
}

impl Chain {
    /// Makes a chain without objects.
    #[must_use]
    pub const fn new() -> Self {
        Self { head: ptr::null_mut(), count: 0 }
    }

    /// Whether the chain has no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.head.is_null()
    }

    /// Returns the number of objects.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Takes the object that was added last.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<NonNull<Object>> {
        let object = NonNull::new(self.head)?;
        // SAFETY: objects of a chain are free memory that only the owner of the chain accesses, and `push` has written
        // the link.
        self.head = unsafe { (*object.as_ptr()).next };
        self.count -= 1;
        Some(object)
    }

    /// Adds an object.
    ///
    /// # Safety
    /// `object` must be the memory of an object of this chain's class, and must not be in use.
    #[inline(always)]
    pub unsafe fn push(&mut self, object: NonNull<Object>) {
        // SAFETY: the caller promises that the memory is not in use, and objects of every class are large enough for
        // the link.
        unsafe { (*object.as_ptr()).next = self.head };
        self.head = object.as_ptr();
        self.count += 1;
    }
}

impl Default for Chain {
    fn default() -> Self {
        Self::new()
    }
}

/// The free objects of one class that one CPU keeps, in two chains. A CPU exchanges chains with the other CPUs only
/// when both are empty or both are full. So a CPU that frees and allocates in turn rarely needs an exchange.
#[derive(Debug, Default)]
pub struct Magazines {
    loaded: Chain,
    previous: Chain,
}

impl Magazines {
    /// Makes magazines without objects.
    #[must_use]
    pub const fn new() -> Self {
        Self { loaded: Chain::new(), previous: Chain::new() }
    }

    /// Takes an object.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<NonNull<Object>> {
        if self.loaded.is_empty() {
            mem::swap(&mut self.loaded, &mut self.previous);
        }
        self.loaded.pop()
    }

    /// Adds an object. If both magazines have at least `size` objects already, returns one of the two chains.
    ///
    /// # Safety
    /// `object` must be the memory of an object of this class, and must not be in use.
    #[inline(always)]
    pub unsafe fn push(&mut self, object: NonNull<Object>, size: usize) -> Option<Chain> {
        let mut surplus = None;
        if self.loaded.count >= size {
            let previous = mem::replace(&mut self.previous, mem::take(&mut self.loaded));
            if previous.count >= size {
                surplus = Some(previous);
            } else {
                self.loaded = previous;
            }
        }
        // SAFETY: the caller promises that the object is of this class and not in use.
        unsafe { self.loaded.push(object) };
        surplus
    }

    /// Adds a chain, or returns it if neither magazine is empty.
    pub fn fill(&mut self, chain: Chain) -> Option<Chain> {
        let empty = [&mut self.loaded, &mut self.previous].into_iter().find(|magazine| magazine.is_empty());
        match empty {
            Some(empty) => *empty = chain,
            None => return Some(chain),
        }
        None
    }

    /// Takes all objects.
    pub fn take_all(&mut self) -> [Chain; 2] {
        [mem::take(&mut self.loaded), mem::take(&mut self.previous)]
    }
}
