//! An intrusive, singly linked FIFO: the links are in the elements, so pushing does not allocate.

use core::fmt;

use crate::base::atomic::Ordering;
use crate::base::reference::AtomicRef;

/// An element of a list. An element has one link for each value of `LINK`, so at any time it can be on one [`List`] per
/// value. Go: `schedlink`.
pub(crate) trait Linked<const LINK: usize = 0>: Sized + 'static {
    /// The element's link, which refers to the next element of its list.
    fn link(&self) -> &AtomicRef<Self>;
}

/// A FIFO of `T` linked through the elements themselves. Go: `gQueue`.
///
/// A `&mut List` owns the links of all its elements. `Relaxed` accesses to the links are enough, because other
/// synchronisation orders them: the lock that guards the list, or the queue through which an element came from another
/// thread.
pub(crate) struct List<T: Linked<LINK>, const LINK: usize = 0> {
    head: Option<&'static T>,
    tail: Option<&'static T>,
    length: usize,
}

impl<T: Linked<LINK>, const LINK: usize> List<T, LINK> {
    pub(crate) const fn new() -> Self {
        Self { head: None, tail: None, length: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    pub(crate) fn front(&self) -> Option<&'static T> {
        self.head
    }

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

    /// Prepends an element that is on no list.
    pub(crate) fn push_front(&mut self, item: &'static T) {
        item.link().store(self.head, Ordering::Relaxed);
        if self.head.is_none() {
            self.tail = Some(item);
        }
        self.head = Some(item);
        self.length += 1;
    }

    pub(crate) fn pop_front(&mut self) -> Option<&'static T> {
        let item = self.head?;
        self.head = item.link().load(Ordering::Relaxed);
        if self.head.is_none() {
            self.tail = None;
        }
        self.length -= 1;
        Some(item)
    }

    /// Appends all elements of `other`, which is empty afterwards. Go: `pushBackAll`.
    #[cfg(any(feature = "synctest", test))]
    pub(crate) fn append(&mut self, other: &mut Self) {
        let Some(first) = other.head.take() else { return };
        match self.tail {
            Some(tail) => tail.link().store(Some(first), Ordering::Relaxed),
            None => self.head = Some(first),
        }
        self.tail = other.tail.take();
        self.length += core::mem::take(&mut other.length);
    }

    /// Shuffles the elements. Each element gets a random number, and a radix sort orders the elements by these numbers,
    /// one bit per pass. `bit` returns a random bit.
    #[cfg(feature = "synctest")]
    pub(crate) fn shuffle(&mut self, mut bit: impl FnMut() -> bool) {
        let Some(log) = self.length.checked_ilog2().filter(|&log| log > 0) else { return };
        // The sort does not change the order of elements with equal numbers, so this order is not random. The numbers
        // have so many bits that equal numbers are unlikely.
        for _ in 0..2 * log + 8 {
            let mut ones = Self::new();
            for _ in 0..self.length {
                let Some(item) = self.pop_front() else { return };
                let list = if bit() { &mut ones } else { &mut *self };
                list.push_back(item);
            }
            self.append(&mut ones);
        }
    }

    /// Removes `item`; returns whether it was on the list. Takes time linear in the length of the list.
    pub(crate) fn remove(&mut self, item: &'static T) -> bool {
        self.take_first(|candidate| core::ptr::eq(candidate, item)).is_some()
    }

    /// Takes the first element that `is_wanted`. Takes time linear in the length of the list.
    pub(crate) fn take_first(&mut self, is_wanted: impl Fn(&'static T) -> bool) -> Option<&'static T> {
        let (mut found, mut kept) = (None, Self::new());
        while let Some(candidate) = self.pop_front() {
            if found.is_none() && is_wanted(candidate) {
                found = Some(candidate);
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

#[cfg(all(test, feature = "std"))]
mod tests {
    use alloc::boxed::Box;
    use alloc::collections::VecDeque;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::{Linked, List};
    use crate::base::reference::AtomicRef;

    struct Element {
        number: usize,
        link: AtomicRef<Self>,
    }

    impl Linked for Element {
        fn link(&self) -> &AtomicRef<Self> {
            &self.link
        }
    }

    /// An operation of the test on one of two lists.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        PushBack,
        PushFront,
        PopFront,
        Remove(usize),
        /// Appends the other list.
        Append,
    }

    fn steps() -> impl Strategy<Value = Vec<(bool, Step)>> {
        let step = prop_oneof![
            4 => Just(Step::PushBack),
            2 => Just(Step::PushFront),
            3 => Just(Step::PopFront),
            2 => (0..40usize).prop_map(Step::Remove),
            1 => Just(Step::Append),
        ];
        prop::collection::vec((any::<bool>(), step), 0..400)
    }

    fn new_element(number: usize) -> &'static Element {
        Box::leak(Box::new(Element { number, link: AtomicRef::none() }))
    }

    proptest! {
        /// Two lists behave like two `VecDeque`s, also when an element that has left a list is pushed again.
        #[test]
        fn behaves_like_a_deque(steps in steps()) {
            let mut lists = [List::new(), List::new()];
            let mut models = [VecDeque::new(), VecDeque::new()];
            let elements: Vec<_> = (0..40).map(new_element).collect();
            let mut free: Vec<usize> = (0..40).collect();
            for (second, step) in steps {
                let (this, other) = if second { (1, 0) } else { (0, 1) };
                match step {
                    Step::PushBack | Step::PushFront => {
                        let Some(number) = free.pop() else { continue };
                        if matches!(step, Step::PushBack) {
                            lists[this].push_back(elements[number]);
                            models[this].push_back(number);
                        } else {
                            lists[this].push_front(elements[number]);
                            models[this].push_front(number);
                        }
                    }
                    Step::PopFront => {
                        let popped = lists[this].pop_front().map(|element| element.number);
                        prop_assert_eq!(popped, models[this].pop_front());
                        free.extend(popped);
                    }
                    Step::Remove(number) => {
                        let index = models[this].iter().position(|&candidate| candidate == number);
                        prop_assert_eq!(lists[this].remove(elements[number]), index.is_some());
                        if let Some(index) = index {
                            models[this].remove(index);
                            free.push(number);
                        }
                    }
                    Step::Append => {
                        let mut appended = core::mem::replace(&mut lists[other], List::new());
                        lists[this].append(&mut appended);
                        prop_assert_eq!((appended.is_empty(), appended.len()), (true, 0));
                        let appended = core::mem::take(&mut models[other]);
                        models[this].extend(appended);
                    }
                }
                for (list, model) in lists.iter().zip(&models) {
                    prop_assert_eq!(list.len(), model.len());
                    prop_assert_eq!(list.is_empty(), model.is_empty());
                    prop_assert_eq!(list.back().map(|element| element.number), model.back().copied());
                }
            }
        }
    }
}
