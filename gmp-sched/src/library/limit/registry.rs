//! A table of values under a lock, which grows without allocating under that lock.

use alloc::vec::Vec;
use core::mem;

use crate::base::error::OutOfResources;

/// Values, each with a key. The table never allocates: the owner of the lock moves the values into [`Room`] that was
/// allocated without the lock. Keys of removed values are reused.
pub(super) struct Registry<T> {
    entries: Vec<Entry<T>>,
    /// The first vacant entry, or [`END`].
    vacant: usize,
}

enum Entry<T> {
    Value(T),
    /// No value, and the key of the next vacant entry, or [`END`].
    Vacant(usize),
}

/// The end of the list of vacant entries.
const END: usize = usize::MAX;

/// Memory for the values of a registry.
pub(super) struct Room<T>(Vec<Entry<T>>);

impl<T> Registry<T> {
    pub(super) const fn new() -> Self {
        Self { entries: Vec::new(), vacant: END }
    }

    /// Adds a value and returns its key. If the table is full, the error is the value.
    pub(super) fn insert(&mut self, value: T) -> Result<usize, T> {
        if let Some(entry @ &mut Entry::Vacant(next)) = self.entries.get_mut(self.vacant) {
            *entry = Entry::Value(value);
            return Ok(mem::replace(&mut self.vacant, next));
        }
        if self.entries.len() == self.entries.capacity() {
            return Err(value);
        }
        self.entries.push(Entry::Value(value));
        Ok(self.entries.len() - 1)
    }

    /// Removes the value with this key, and returns it. Returns `None` if no value has this key.
    pub(super) fn remove(&mut self, key: usize) -> Option<T> {
        let entry = self.entries.get_mut(key).filter(|entry| matches!(entry, Entry::Value(_)))?;
        let removed = mem::replace(entry, Entry::Vacant(self.vacant));
        self.vacant = key;
        removed.into_value()
    }

    /// For how many entries the next larger table has room.
    pub(super) fn larger(&self) -> usize {
        (self.entries.capacity() * 2).max(4)
    }

    /// Moves the values into `room`, if that is larger. Afterwards `room` has the former memory, which the caller must
    /// not free under the lock.
    pub(super) fn move_into(&mut self, room: &mut Room<T>) {
        if room.0.capacity() > self.entries.capacity() {
            room.0.append(&mut self.entries);
            mem::swap(&mut room.0, &mut self.entries);
        }
    }

    /// Returns all values, without their keys.
    pub(super) fn into_values(self) -> impl Iterator<Item = T> {
        self.entries.into_iter().filter_map(Entry::into_value)
    }

    #[cfg(all(test, feature = "std"))]
    pub(super) fn len(&self) -> usize {
        self.entries.iter().filter(|entry| matches!(entry, Entry::Value(_))).count()
    }
}

impl<T> Entry<T> {
    fn into_value(self) -> Option<T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Vacant(_) => None,
        }
    }
}

impl<T> Room<T> {
    pub(super) const fn none() -> Self {
        Self(Vec::new())
    }

    /// Allocates room for `count` values.
    pub(super) fn of(count: usize) -> Result<Self, OutOfResources> {
        let mut room = Vec::new();
        room.try_reserve_exact(count).map_err(|_| OutOfResources)?;
        Ok(Self(room))
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use alloc::vec::Vec;

    use super::{Registry, Room};

    #[test]
    fn full_registry_refuses_a_value_until_it_has_more_room() {
        let mut registry = Registry::new();
        assert_eq!(registry.insert(10), Err(10));
        registry.move_into(&mut Room::of(2).unwrap());
        assert_eq!((registry.insert(10), registry.insert(11), registry.insert(12)), (Ok(0), Ok(1), Err(12)));
        registry.move_into(&mut Room::of(registry.larger()).unwrap());
        assert_eq!((registry.insert(12), registry.remove(1)), (Ok(2), Some(11)));
        // Less room than before changes nothing.
        registry.move_into(&mut Room::of(1).unwrap());
        assert_eq!((registry.remove(1), registry.remove(7), registry.len()), (None, None, 2));
        assert_eq!((registry.insert(13), registry.insert(14)), (Ok(1), Ok(3)));
        assert_eq!(registry.into_values().collect::<Vec<_>>(), [10, 13, 12, 14]);
    }
}
