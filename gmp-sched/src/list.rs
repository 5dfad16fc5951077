//! Intrusive singly linked FIFO, whose links lie in the elements: pushing allocates nothing.

use core::fmt;

use crate::primitives::Ordering;
use crate::reference::AtomicRef;

/// An element that can be on one [`List`] at a time for each `LINK` it has. Go: `schedlink`.
pub(crate) trait Linked<const LINK: usize = 0>: Sized + 'static {
    /// The link to the next element of the list it is on.
    fn link(&self) -> &AtomicRef<Self>;
}

/// A FIFO of `T` linked through the elements themselves. Go: `gQueue`.
///
/// Whoever has `&mut List` owns the links of all its elements; `Relaxed` is enough for them, because the lock that
/// guards the list, or the queue that handed the elements over, orders them.
pub(crate) struct List<T: Linked<LINK>, const LINK: usize = 0> {
    head: Option<&'static T>,
    tail: Option<&'static T>,
    length: usize,
}

impl<T: Linked<LINK>, const LINK: usize> List<T, LINK> {
    /// The empty list.
    pub(crate) const fn new() -> Self {
        Self { head: None, tail: None, length: 0 }
    }

    /// Number of elements.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Whether there is no element.
    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    /// The last element.
    pub(crate) fn back(&self) -> Option<&'static T> {
        self.tail
    }

    /// Appends an element that is on no list.
    pub(crate) fn push_back(&mut self, item: &'static T) {
        item.link().store(None, Ordering::Relaxed);
        match self.tail {
            Some(tail) => tail.link().store(Some(item), Ordering::Relaxed),
            None => self.head = Some(item),
        }
        self.tail = Some(item);
        self.length += 1;
    }

    /// Puts an element that is on no list in front of all others.
    pub(crate) fn push_front(&mut self, item: &'static T) {
        item.link().store(self.head, Ordering::Relaxed);
        if self.head.is_none() {
            self.tail = Some(item);
        }
        self.head = Some(item);
        self.length += 1;
    }

    /// Takes the first element.
    pub(crate) fn pop_front(&mut self) -> Option<&'static T> {
        let item = self.head?;
        self.head = item.link().load(Ordering::Relaxed);
        if self.head.is_none() {
            self.tail = None;
        }
        self.length -= 1;
        Some(item)
    }

    /// Appends all of `other`, which is empty afterwards. Go: `pushBackAll`.
    pub(crate) fn append(&mut self, other: &mut Self) {
        let Some(first) = other.head.take() else { return };
        match self.tail {
            Some(tail) => tail.link().store(Some(first), Ordering::Relaxed),
            None => self.head = Some(first),
        }
        self.tail = other.tail.take();
        self.length += core::mem::take(&mut other.length);
    }

    /// Takes `item` out wherever it stands; tells whether it was there. Linear in the length.
    pub(crate) fn remove(&mut self, item: &'static T) -> bool {
        let mut kept = Self::new();
        let mut found = false;
        while let Some(candidate) = self.pop_front() {
            if core::ptr::eq(candidate, item) {
                found = true;
            } else {
                kept.push_back(candidate);
            }
        }
        *self = kept;
        found
    }
}

impl<T: Linked<LINK>, const LINK: usize> fmt::Debug for List<T, LINK> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "List({})", self.length)
    }
}
