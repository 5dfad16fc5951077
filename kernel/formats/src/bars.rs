//! The base address registers (BARs) of a PCI device: where its registers are, and how many bytes they have (PCI Local
//! Bus 3.0, 6.2.5.1).
//!
//! The size of a BAR can be read only while all ones are written to it, and meanwhile the device must not answer
//! accesses, because the ones would be its address. So the device has to be disconnected from the bus and connected
//! again. Under QEMU, each of these two steps rebuilds the memory map of every CPU. So [`Bars::size`] sizes all BARs
//! between one pair of these steps. It returns a copy of the BARs.

use core::array;

/// The number of BARs of a device.
const COUNT: usize = 6;
/// The offset of the first BAR in the configuration space.
const FIRST: u8 = 0x10;
/// The offset of the word whose lower half is the command register. The upper half is the status, whose bits are
/// cleared by writing ones.
const COMMAND: u8 = 4;
const COMMAND_BITS: u32 = 0xffff;
/// The bits of the command register that make the device answer accesses to its ports and to its memory.
const DECODE: u32 = 0b11;

/// Set in the BAR of a range of ports, and clear in that of a range of memory.
const IS_PORTS: u32 = 1;
/// The bits of a memory BAR that contain its type, and the two types whose address has 32 bits. (The second one is for
/// addresses below 1 MiB.)
const TYPE: u32 = 0b110;
const TYPES_32: [u32; 2] = [0b000, 0b010];
/// The type of a memory BAR whose address has 64 bits. The upper half of the address is in the next BAR.
const TYPE_64: u32 = 0b100;
/// The bits of a memory BAR that are not part of its address.
const FLAGS: u64 = 0b1111;

/// Access to the configuration space of one device, by 32-bit words.
pub trait ConfigurationSpace {
    /// Returns the word at `offset`.
    fn read(&self, offset: u8) -> u32;

    /// Writes the word at `offset`.
    fn write(&mut self, offset: u8, word: u32);
}

/// What a BAR describes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bar {
    /// The device has no such BAR. Also if its type is unknown, or if it is the upper half of another one's address.
    Missing,
    /// A range of I/O ports.
    Ports,
    /// A range of physical memory. The address is 0 if the firmware has assigned none.
    Memory {
        /// The address of the first byte.
        address: u64,
        /// The number of bytes.
        bytes: u64,
    },
}

/// A copy of the BARs of a device. The default is that of a device without BARs.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Bars {
    /// The contents.
    words: [u32; COUNT],
    /// What can be read after all ones were written. A bit of an address is set here if it can be set.
    ones: [u32; COUNT],
}

impl Bars {
    /// Sizes all BARs of a device, and then sets the bits `set` of its command register. From the first of these writes
    /// to the last, the device does not answer accesses to its registers. So no other CPU may access them, and no
    /// request may be in flight.
    pub fn size(space: &mut impl ConfigurationSpace, set: u16) -> Self {
        let command = space.read(COMMAND) & COMMAND_BITS;
        space.write(COMMAND, command & !DECODE);
        let mut words = [0; COUNT];
        let ones = array::from_fn(|index| {
            let offset = FIRST + 4 * index as u8;
            let word = space.read(offset);
            space.write(offset, u32::MAX);
            let ones = space.read(offset);
            space.write(offset, word);
            words[index] = word & ones;
            ones
        });
        space.write(COMMAND, command | u32::from(set));
        Self { words, ones }
    }

    /// Returns what the BAR with this number describes. A device may report any number as that of a BAR.
    #[must_use]
    pub fn get(&self, number: u8) -> Bar {
        let index = usize::from(number);
        if index >= COUNT || self.ones[index] == 0 || self.is_upper_half(index) {
            return Bar::Missing;
        }
        let word = self.words[index];
        if word & IS_PORTS != 0 {
            return Bar::Ports;
        }
        let (upper, upper_ones) = match word & TYPE {
            TYPE_64 if index + 1 < COUNT => (self.words[index + 1], self.ones[index + 1]),
            kind if TYPES_32.contains(&kind) => (0, u32::MAX),
            _ => return Bar::Missing,
        };
        let join = |upper: u32, lower: u32| (u64::from(upper) << 32 | u64::from(lower)) & !FLAGS;
        let bytes = (!join(upper_ones, self.ones[index])).wrapping_add(1);
        Bar::Memory { address: join(upper, word), bytes }
    }

    /// Whether this BAR is the upper half of the address of the BAR before.
    fn is_upper_half(&self, index: usize) -> bool {
        let is_64 = |index: usize| self.words[index] & (TYPE | IS_PORTS) == TYPE_64;
        // A BAR of the type of 64 bits that is itself an upper half has no upper half.
        index > 0 && is_64(index - 1) && !self.is_upper_half(index - 1)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use core::cell::RefCell;
    use std::vec::Vec;

    use super::*;

    /// Returns the number of the BAR at an offset of the configuration space.
    fn index(offset: u8) -> Option<usize> {
        offset.checked_sub(FIRST).map(|bytes| usize::from(bytes / 4)).filter(|&index| index < COUNT)
    }

    /// A device with six BARs that works like hardware, and records what is written.
    struct Device {
        command: u32,
        words: [u32; COUNT],
        /// Which bits of each BAR can be changed.
        changeable: [u32; COUNT],
        writes: RefCell<Vec<(u8, u32)>>,
        /// The contents that the BARs had while the device answered at their addresses.
        connected: RefCell<Vec<[u32; COUNT]>>,
    }

    impl Device {
        /// A virtio disk of QEMU as SeaBIOS leaves it: ports in BAR 0, a table of interrupts in BAR 1, and registers in
        /// BARs 4 and 5.
        fn disk() -> Self {
            Self::new([0xc001, 0xfebd_1000, 0, 0, 0xfe00_000c, 0x80], [!0x7f, !0xfff, 0, 0, !0x3fff, !0])
        }

        fn new(words: [u32; COUNT], changeable: [u32; COUNT]) -> Self {
            Self { command: 0x0010_0103, words, changeable, writes: RefCell::default(), connected: RefCell::default() }
        }
    }

    impl ConfigurationSpace for Device {
        fn read(&self, offset: u8) -> u32 {
            index(offset).map_or(self.command, |index| self.words[index])
        }

        fn write(&mut self, offset: u8, word: u32) {
            self.writes.borrow_mut().push((offset, word));
            match index(offset) {
                Some(index) => {
                    let kept = self.words[index] & !self.changeable[index];
                    self.words[index] = word & self.changeable[index] | kept;
                }
                None => self.command = self.command & !COMMAND_BITS | word,
            }
            if self.command & DECODE != 0 {
                self.connected.borrow_mut().push(self.words);
            }
        }
    }

    const ENABLED: u16 = 0x406;

    #[test]
    fn bars_of_a_real_device_are_found() {
        let bars = Bars::size(&mut Device::disk(), ENABLED);
        assert_eq!(bars.get(0), Bar::Ports);
        assert_eq!(bars.get(1), Bar::Memory { address: 0xfebd_1000, bytes: 0x1000 });
        assert_eq!([bars.get(2), bars.get(3)], [Bar::Missing; 2]);
        assert_eq!(bars.get(4), Bar::Memory { address: 0x80_fe00_0000, bytes: 0x4000 });
        assert_eq!(bars.get(5), Bar::Missing, "the upper half of the address in BAR 4");
        assert_eq!([bars.get(6), bars.get(u8::MAX)], [Bar::Missing; 2]);
    }

    #[test]
    fn device_is_disconnected_and_connected_once_and_keeps_its_addresses() {
        let mut device = Device::disk();
        let words = device.words;
        let _ = Bars::size(&mut device, ENABLED);
        assert_eq!(device.command, 0x0010_0507, "the former bits and the new ones; no bit of the status is cleared");
        assert_eq!(device.words, words);
        // The device was connected only once, by the last write, and has its own addresses then.
        assert_eq!(device.connected.into_inner(), [words]);
        let writes = device.writes.into_inner();
        let commands = writes.iter().filter(|&&(offset, _)| offset == COMMAND).count();
        assert_eq!((commands, writes.len()), (2, 2 + 2 * COUNT), "{writes:x?}");
    }

    #[test]
    fn nonsense_is_no_bar() {
        // Each BAR says that its upper half is in the next one. The last one has no next one.
        let bars = Bars::size(&mut Device::new([0x1004; COUNT], [!0xfff; COUNT]), ENABLED);
        let is_memory = |number| matches!(bars.get(number), Bar::Memory { address: 0x1004_0000_1000, .. });
        assert_eq!([0, 1, 2, 3, 4, 5].map(is_memory), [true, false, true, false, true, false]);
        // Type 0b110 is reserved.
        let bars = Bars::size(&mut Device::new([0x1006; COUNT], [!0xfff; COUNT]), ENABLED);
        assert_eq!(bars.get(0), Bar::Missing);
        let mut words = [0; COUNT];
        words[COUNT - 1] = 0x1004;
        let bars = Bars::size(&mut Device::new(words, [!0xfff; COUNT]), ENABLED);
        assert_eq!(bars.get(5), Bar::Missing);
        assert_eq!(bars.get(0), Bar::Memory { address: 0, bytes: 0x1000 });
    }
}
