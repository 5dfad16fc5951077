//! The capabilities of a PCI device, which are a list in its configuration space (PCI Local Bus 3.0, 6.7), and what
//! virtio devices and MSI-X describe in them.
//!
//! The device itself reports all these offsets and lengths, and it may report wrong ones. So this module adds and
//! multiplies them with checks, and its results are always inside of the configuration space or of the BAR.
//!
//! The functions read the configuration space through a closure, which returns the 32-bit word at an offset.

use core::ops::Range;

/// The length in bytes of the configuration space.
const SPACE_BYTES: usize = 256;
/// The length in bytes of the header of the configuration space. The capabilities follow it.
const HEADER_BYTES: usize = 64;
/// The largest number of capabilities in a configuration space. Each takes at least four bytes.
const MOST: usize = (SPACE_BYTES - HEADER_BYTES) / 4;

/// The offset of the word whose upper half is the status.
const STATUS: u8 = 4;
/// The bit of the word at [`STATUS`] that is set if there are capabilities.
const HAS_CAPABILITIES: u32 = 1 << 20;
/// The offset of the word whose lowest byte is the offset of the first capability.
const FIRST: u8 = 0x34;

/// The number of a capability that the vendor defines. Virtio devices describe their registers in such capabilities.
const VENDOR: u8 = 0x09;
/// The number of the capability that describes the table of MSI-X vectors (PCI Local Bus 3.0, 6.8.2).
const MSIX: u8 = 0x11;
/// The length in bytes of the longest virtio capability that is read: the one for notifications (virtio 1.2, 4.1.4.4).
const VIRTIO_BYTES: u8 = 20;
/// The length in bytes of the virtio capabilities for the other structures.
const VIRTIO_BYTES_AT_LEAST: u8 = 16;

/// A capability: its offset, and its first four bytes except the second one, which is the offset of the next
/// capability.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Capability {
    offset: u8,
    id: u8,
    /// The third byte. A virtio capability contains its length here.
    length: u8,
    /// The fourth byte. A virtio capability contains the type of its structure here.
    kind: u8,
}

/// Returns the first capabilities of the list, at most [`MOST`], so that a list which is a cycle ends, too. The list ends
/// at a capability whose offset of the next capability is in the header or is not a multiple of 4.
fn capabilities(read: &impl Fn(u8) -> u32) -> impl Iterator<Item = Capability> {
    let has_any = read(STATUS) & HAS_CAPABILITIES != 0;
    let mut next = has_any.then(|| read(FIRST).to_le_bytes()[0] & !0b11);
    core::iter::from_fn(move || {
        let offset = next?;
        let [id, behind, length, kind] = read(offset).to_le_bytes();
        next = (usize::from(behind) >= HEADER_BYTES && behind.is_multiple_of(4)).then_some(behind);
        Some(Capability { offset, id, length, kind })
    })
    .take(MOST)
}

/// Returns the offset of a word in the configuration space: the word at the offset `at` in the capability that begins
/// at `capability`. Returns `None` if the word is not inside of the space.
fn word(capability: u8, at: u8) -> Option<u8> {
    let offset = capability.checked_add(at)?;
    (usize::from(offset) + size_of::<u32>() <= SPACE_BYTES).then_some(offset)
}

/// The type of a structure of registers that a virtio device describes in a capability (virtio 1.2, 4.1.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The common configuration.
    Common = 1,
    /// The registers by which a driver notifies the device.
    Notify = 2,
    /// The configuration that depends on the type of the device.
    Device = 4,
}

impl Kind {
    /// All types.
    pub const ALL: [Self; 3] = [Self::Common, Self::Notify, Self::Device];
}

/// Where a structure of a virtio device's registers is, as the device reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Structure {
    /// The number of the BAR.
    pub bar: u8,
    /// The offset in the BAR.
    offset: u32,
    bytes: u32,
    /// The word that follows in the capability. For [`Kind::Notify`], this is the multiplier of [`Self::doorbell`].
    more: u32,
}

impl Structure {
    /// Reads the capability that describes a structure of type `kind`. Skips capabilities that are too short for this
    /// type. If there are several, reads the first. Returns `None` if there is none, or if it extends past the end of
    /// the configuration space.
    pub fn find(read: impl Fn(u8) -> u32, kind: Kind) -> Option<Self> {
        let least = if kind == Kind::Notify { VIRTIO_BYTES } else { VIRTIO_BYTES_AT_LEAST };
        let is_wanted = |found: &Capability| found.id == VENDOR && found.kind == kind as u8 && found.length >= least;
        let capability = capabilities(&read).find(is_wanted)?;
        let field = |at| Some(read(word(capability.offset, at)?));
        Some(Self {
            bar: field(4)?.to_le_bytes()[0],
            offset: field(8)?,
            bytes: field(12)?,
            more: if kind == Kind::Notify { field(16)? } else { 0 },
        })
    }

    /// Returns the position of the structure in its BAR of `bar_bytes` bytes. Returns `None` if a part of the structure
    /// is outside of the BAR.
    #[must_use]
    pub fn range(self, bar_bytes: usize) -> Option<Range<usize>> {
        part(bar_bytes, usize::try_from(self.offset).ok()?, usize::try_from(self.bytes).ok()?)
    }

    /// Returns the position, in this structure for notifications, of the 16-bit register that notifies the device of
    /// new requests in a queue (virtio 1.2, 4.1.4.4). `notify_off` is the number that the device reports for the queue.
    /// Returns `None` if the register is not inside of the structure or is not aligned.
    #[must_use]
    pub fn doorbell(self, notify_off: u16) -> Option<Range<usize>> {
        let offset = usize::from(notify_off).checked_mul(usize::try_from(self.more).ok()?)?;
        let register = part(usize::try_from(self.bytes).ok()?, offset, size_of::<u16>())?;
        (self.offset.is_multiple_of(2) && offset.is_multiple_of(2)).then_some(register)
    }
}

/// The table of a device's MSI-X vectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageTable {
    /// The offset in the configuration space of the word whose upper half is the register that controls MSI-X.
    pub control: u8,
    /// The number of the BAR with the table.
    pub bar: u8,
    /// The number of entries.
    pub entries: u16,
    /// The offset of the table in the BAR.
    offset: u32,
}

impl MessageTable {
    /// The position of the bits of the capability's first word that contain the number of entries minus one.
    const SIZE_SHIFT: u32 = 16;
    /// The mask of these bits, after the word has been shifted by `SIZE_SHIFT`.
    const SIZE: u32 = 0x7ff;
    /// The bits of the second word of the capability that contain the number of the BAR. The other bits contain the
    /// offset of the table.
    const BAR: u32 = 0b111;
    /// The length of an entry in bytes.
    const ENTRY_BYTES: usize = 16;

    /// Reads the capability that describes the table. Returns `None` if there is none, or if it extends past the end of
    /// the configuration space.
    pub fn find(read: impl Fn(u8) -> u32) -> Option<Self> {
        let control = capabilities(&read).find(|capability| capability.id == MSIX)?.offset;
        let table = read(word(control, 4)?);
        Some(Self {
            control,
            bar: (table & Self::BAR) as u8,
            entries: (read(control) >> Self::SIZE_SHIFT & Self::SIZE) as u16 + 1,
            offset: table & !Self::BAR,
        })
    }

    /// Returns the position of an entry in the BAR of `bar_bytes` bytes. Returns `None` if there is no such entry, or
    /// if the entry is not inside of the BAR.
    #[must_use]
    pub fn entry(self, number: u16, bar_bytes: usize) -> Option<Range<usize>> {
        let offset = usize::try_from(self.offset).ok()?.checked_add(usize::from(number) * Self::ENTRY_BYTES)?;
        if number < self.entries { part(bar_bytes, offset, Self::ENTRY_BYTES) } else { None }
    }
}

/// Returns the range of `bytes` bytes from `offset` on. Returns `None` if this range is not inside of `0..whole`.
#[must_use]
pub fn part(whole: usize, offset: usize, bytes: usize) -> Option<Range<usize>> {
    let end = offset.checked_add(bytes)?;
    (end <= whole).then_some(offset..end)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    /// A configuration space.
    type Space = [u8; SPACE_BYTES];

    /// Returns a closure that reads a configuration space like the hardware: the lowest two bits of the offset are
    /// ignored.
    fn reader(space: Space) -> impl Fn(u8) -> u32 {
        move |offset| {
            let offset = usize::from(offset & !0b11);
            u32::from_le_bytes(space[offset..offset + 4].try_into().unwrap())
        }
    }

    fn put(space: &mut Space, offset: usize, bytes: &[u8]) {
        space[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    fn put_word(space: &mut Space, offset: usize, word: u32) {
        put(space, offset, &word.to_le_bytes());
    }

    fn space_with_list(first: u8) -> Space {
        let mut space = [0; SPACE_BYTES];
        put_word(&mut space, STATUS.into(), HAS_CAPABILITIES);
        space[usize::from(FIRST)] = first;
        space
    }

    /// The capabilities of QEMU's modern virtio disk, in the order of its list.
    fn qemu() -> Space {
        let mut space = space_with_list(0x98);
        put(&mut space, 0x98, &[MSIX, 0x84, 3, 0x80, 1, 0, 0, 0, 1, 8, 0, 0]);
        // By this capability a driver can access registers through the configuration space (virtio 1.2, 4.1.4.9).
        put(&mut space, 0x84, &[VENDOR, 0x70, 20, 5]);
        put(&mut space, 0x70, &[VENDOR, 0x60, 20, 2, 4, 0, 0, 0, 0, 0x30, 0, 0, 0, 0x10, 0, 0, 4, 0, 0, 0]);
        put(&mut space, 0x60, &[VENDOR, 0x50, 16, 4, 4, 0, 0, 0, 0, 0x20, 0, 0, 0, 0x10, 0, 0]);
        put(&mut space, 0x50, &[VENDOR, 0x40, 16, 3, 4, 0, 0, 0, 0, 0x10, 0, 0, 0, 0x10, 0, 0]);
        put(&mut space, 0x40, &[VENDOR, 0, 16, 1, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0]);
        space
    }

    /// Returns a closure that reads the space of [`qemu`], in which the word at `offset` is replaced by `word`.
    fn qemu_but(offset: usize, word: u32) -> impl Fn(u8) -> u32 {
        let mut space = qemu();
        put_word(&mut space, offset, word);
        reader(space)
    }

    const BAR_BYTES: usize = 0x4000;

    #[test]
    fn structures_and_table_of_a_real_device_are_found() {
        let read = reader(qemu());
        for (kind, start) in Kind::ALL.into_iter().zip([0, 0x3000, 0x2000]) {
            let found = Structure::find(&read, kind).unwrap();
            assert_eq!((found.bar, found.range(BAR_BYTES)), (4, Some(start..start + 0x1000)), "{kind:?}");
        }
        let notify = Structure::find(&read, Kind::Notify).unwrap();
        assert_eq!(notify.doorbell(3), Some(12..14));
        let table = MessageTable::find(&read).unwrap();
        assert_eq!((table.control, table.bar, table.entries), (0x98, 1, 4));
        assert_eq!(table.entry(1, 0x1000), Some(0x10..0x20));
    }

    #[test]
    fn device_without_capabilities_has_none() {
        let mut space = qemu();
        put_word(&mut space, STATUS.into(), !HAS_CAPABILITIES);
        let read = reader(space);
        assert_eq!((Structure::find(&read, Kind::Common), MessageTable::find(&read)), (None, None));
    }

    #[test]
    fn list_that_is_a_cycle_ends_after_the_longest_list() {
        let mut space = space_with_list(0x40);
        for offset in (HEADER_BYTES..SPACE_BYTES).step_by(4) {
            put(&mut space, offset, &[1, (offset + 4) as u8]);
        }
        for behind_the_last in [0, 0x40] {
            space[0xfd] = behind_the_last;
            assert_eq!(capabilities(&reader(space)).count(), MOST);
        }
    }

    #[test]
    fn msix_capability_past_the_end_of_the_space_is_not_found() {
        for (offset, is_found) in [(0xf8, true), (0xfc, false)] {
            let mut space = space_with_list(offset);
            space[usize::from(offset)] = MSIX;
            assert_eq!(MessageTable::find(reader(space)).is_some(), is_found, "{offset:#x}");
        }
    }

    #[test]
    fn capability_that_is_too_short_for_its_structure_is_skipped() {
        // The lengths of the capabilities for notifications and for the common configuration are their third bytes.
        let short_notify = qemu_but(0x70, u32::from_le_bytes([VENDOR, 0x60, 19, 2]));
        assert_eq!(Structure::find(short_notify, Kind::Notify), None);
        let short_common = qemu_but(0x40, u32::from_le_bytes([VENDOR, 0, 15, 1]));
        assert_eq!(Structure::find(short_common, Kind::Common), None);
    }

    #[test]
    fn structure_past_the_end_of_its_bar_has_no_range() {
        let range = |offset: u32, bytes: u32, bar_bytes| {
            let mut space = qemu();
            put_word(&mut space, 0x48, offset);
            put_word(&mut space, 0x4c, bytes);
            Structure::find(reader(space), Kind::Common).unwrap().range(bar_bytes)
        };
        assert_eq!(range(0x3fff, 1, BAR_BYTES), Some(0x3fff..0x4000));
        assert_eq!(range(0x3fff, 2, BAR_BYTES), None);
        assert_eq!(range(0x4000, 0, BAR_BYTES), Some(0x4000..0x4000));
        assert_eq!(range(0x4001, 0, BAR_BYTES), None);
        assert_eq!(range(0, 0, 0), Some(0..0));
        assert_eq!(range(0, 1, 0), None);
        // The sum of these two numbers is 0 if it is computed with 32 bits.
        assert_eq!(range(0xffff_f000, 0x1000, BAR_BYTES), None);
    }

    #[test]
    fn doorbell_outside_of_the_structure_or_not_aligned_is_refused() {
        let doorbell = |bytes: u32, multiplier: u32, notify_off| {
            let mut space = qemu();
            put_word(&mut space, 0x7c, bytes);
            put_word(&mut space, 0x80, multiplier);
            Structure::find(reader(space), Kind::Notify).unwrap().doorbell(notify_off)
        };
        assert_eq!(doorbell(0, 0, 0), None);
        assert_eq!(doorbell(1, 0, 0), None);
        assert_eq!(doorbell(2, 0, u16::MAX), Some(0..2));
        assert_eq!(doorbell(0x1000, 4, 0x3ff), Some(0xffc..0xffe));
        assert_eq!(doorbell(0x1000, 4, 0x400), None);
        assert_eq!(doorbell(0x1000, 2, 0x7ff), Some(0xffe..0x1000));
        assert_eq!(doorbell(0x1000, 3, 1), None);
        // The product of the multiplier and `notify_off` is 0 if it is computed with 32 bits.
        assert_eq!(doorbell(0x1000, 0x8000_0000, 2), None);
        assert_eq!(doorbell(u32::MAX, u32::MAX, u16::MAX), None);
        let odd = Structure::find(qemu_but(0x78, 1), Kind::Notify).unwrap();
        assert_eq!((odd.range(BAR_BYTES), odd.doorbell(0)), (Some(1..0x1001), None));
    }

    #[test]
    fn entry_outside_of_the_table_or_of_the_bar_is_refused() {
        let table = |size_word: u32, table_word: u32| {
            let mut space = qemu();
            put_word(&mut space, 0x98, u32::from(MSIX) | size_word << 16);
            put_word(&mut space, 0x9c, table_word);
            MessageTable::find(reader(space)).unwrap()
        };
        assert_eq!(table(0xffff, 0).entries, 2048);
        assert_eq!(table(0, 0).entry(1, BAR_BYTES), None);
        assert_eq!(table(0x7ff, 0).entry(0x3ff, BAR_BYTES), Some(0x3ff0..0x4000));
        assert_eq!(table(0x7ff, 0).entry(0x400, BAR_BYTES), None);
        assert_eq!(table(0, 0x3ff8).entry(0, BAR_BYTES), None);
        assert_eq!(table(0, 0).entry(0, 15), None);
        assert_eq!(table(0, 0).entry(0, 0), None);
        let last = table(0x7ff, u32::MAX);
        assert_eq!((last.bar, last.entry(0x7ff, u32::MAX as usize)), (7, None));
    }

    #[test]
    fn part_of_a_range_is_inside_of_it() {
        assert_eq!(part(10, 4, 6), Some(4..10));
        assert_eq!(part(10, 4, 7), None);
        assert_eq!(part(10, 10, 0), Some(10..10));
        assert_eq!(part(10, 11, 0), None);
        assert_eq!(part(usize::MAX, 1, usize::MAX), None);
    }

    /// In a random space, and in that of a real device with a few random bytes, every read is inside of the space, and
    /// every result is inside of its BAR.
    #[test]
    fn random_spaces_are_parsed_without_overflow() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut found = [0; 2];
        for round in 0..100_000 {
            let mut space = qemu();
            if round % 4 == 0 {
                space[HEADER_BYTES..].fill_with(|| random.u8(..));
                space[usize::from(FIRST)] = random.u8(..);
            }
            for _ in 0..random.usize(0..6) {
                space[random.usize(..SPACE_BYTES)] =
                    *random.choice(&[0, 1, 4, VENDOR, MSIX, 0x40, 0xec, 0xfc, 0xff]).unwrap();
            }
            let read = reader(space);
            let bar_bytes = if random.bool() { BAR_BYTES } else { random.usize(..) };
            assert!(capabilities(&read).count() <= MOST);
            for structure in Kind::ALL.into_iter().filter_map(|kind| Structure::find(&read, kind)) {
                let Some(range) = structure.range(bar_bytes) else { continue };
                assert!(range.start <= range.end && range.end <= bar_bytes, "{structure:?}");
                if let Some(doorbell) = structure.doorbell(random.u16(..)) {
                    found[0] += 1;
                    assert!(doorbell.len() == 2 && doorbell.end <= range.len(), "{structure:?}");
                }
            }
            let Some(table) = MessageTable::find(&read) else { continue };
            if let Some(entry) = table.entry(random.u16(..table.entries), bar_bytes) {
                found[1] += 1;
                assert!(entry.len() == 16 && entry.end <= bar_bytes && entry.start.is_multiple_of(8), "{table:?}");
            }
        }
        assert!(found.into_iter().all(|count| count > 1000), "too few spaces are valid: {found:?}");
    }
}
