//! The name of a G: a few bytes that any thread may read at any time.

use core::fmt;

use crate::base::atomic::{AtomicU64, Ordering};

/// The maximum length of a stored name, in bytes. The rest of a longer name is cut off.
pub const NAME_LIMIT: usize = WORDS * 8;

const WORDS: usize = 3;

/// Stores a name in atomic words, because a report on a running program may read the name while the name changes. At
/// worst the report shows a mixture of two names.
#[derive(Debug)]
pub(crate) struct NameCell([AtomicU64; WORDS]);

impl NameCell {
    pub(crate) fn new() -> Self {
        Self(core::array::from_fn(|_| AtomicU64::new(0)))
    }

    /// Stores as much of `name` as fits.
    pub(crate) fn set(&self, name: &str) {
        let mut bytes = [0; NAME_LIMIT];
        let end = name.floor_char_boundary(NAME_LIMIT);
        bytes[..end].copy_from_slice(&name.as_bytes()[..end]);
        for (cell, word) in self.0.iter().zip(bytes.as_chunks::<8>().0) {
            cell.store(u64::from_le_bytes(*word), Ordering::Relaxed);
        }
    }

    pub(crate) fn get(&self) -> Option<Name> {
        let mut bytes = [0; NAME_LIMIT];
        for (cell, word) in self.0.iter().zip(bytes.as_chunks_mut::<8>().0) {
            *word = cell.load(Ordering::Relaxed).to_le_bytes();
        }
        (bytes[..8] != [0; 8]).then_some(Name(bytes))
    }
}

/// A copy of a G's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name([u8; NAME_LIMIT]);

impl Name {
    /// The text of the name. If the bytes are a mixture of two names, the text ends before the first invalid UTF-8
    /// sequence.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let end = self.0.iter().position(|&byte| byte == 0).unwrap_or(NAME_LIMIT);
        let bytes = &self.0[..end];
        match core::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => core::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::{NAME_LIMIT, NameCell};

    #[test]
    fn long_name_is_cut_at_a_character() {
        let cell = NameCell::new();
        assert_eq!(cell.get(), None);
        for (name, kept) in [
            ("producer", "producer"),
            ("exactly twenty-four byte", "exactly twenty-four byte"),
            ("one that is much longer than that", "one that is much longer "),
            ("its last letter is cut ö", "its last letter is cut "),
        ] {
            cell.set(name);
            assert!(kept.len() <= NAME_LIMIT);
            assert_eq!(cell.get().unwrap().as_str(), kept);
        }
        cell.set("");
        assert_eq!(cell.get(), None);
    }
}
