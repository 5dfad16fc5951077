//! The entries of the MADT (multiple APIC description table, ACPI 6.5, 5.2.12). They list the CPUs and the I/O APICs,
//! and say how the interrupts of the ISA bus are wired.
//!
//! Each entry contains its own length, and some firmware reports a wrong length. A length of zero would keep a parser
//! in an endless loop, and a length beyond the end of the table would make the parser read other memory. So [`entries`]
//! ends at the first entry with an impossible length, and reports that entry.

use core::fmt;

/// The length in bytes of the part of the table before the first entry: the header that all ACPI tables have, the
/// address of the local APICs, and flags.
pub const ENTRIES_OFFSET: usize = 44;

/// The types of the entries that the kernel uses (ACPI 6.5, table 5.21).
const LOCAL_APIC: u8 = 0;
const IO_APIC: u8 = 1;
const SOURCE_OVERRIDE: u8 = 2;
const LOCAL_X2APIC: u8 = 9;

/// The flag of a CPU that can be used.
const CPU_ENABLED: u32 = 1;

/// One entry of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// A CPU that can be used.
    Cpu {
        /// The id of its local APIC.
        apic_id: u32,
    },
    /// An I/O APIC, which routes the interrupts of devices to CPUs.
    IoApic {
        /// The physical address of its registers.
        address: u32,
        /// The number of its first input. The other inputs follow. The numbers are unique across all I/O APICs (ACPI:
        /// global system interrupts).
        first_interrupt: u32,
    },
    /// An interrupt of the ISA bus that differs from the default of this bus.
    SourceOverride {
        /// The number of the interrupt on the ISA bus.
        irq: u8,
        /// The I/O APIC's input for the interrupt.
        interrupt: Interrupt,
    },
}

/// An input of an I/O APIC, and the signal that a device sends to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interrupt {
    /// The number of the input, which is unique across all I/O APICs (ACPI: global system interrupt).
    pub number: u32,
    /// The polarity of the signal.
    pub polarity: Polarity,
    /// The trigger mode of the signal.
    pub trigger: Trigger,
}

impl Interrupt {
    /// Returns the I/O APIC's input for an interrupt of the ISA bus that no [`Entry::SourceOverride`] names.
    pub const fn of_isa_bus(irq: u8) -> Self {
        Self { number: irq as u32, polarity: Polarity::ActiveHigh, trigger: Trigger::Edge }
    }
}

/// Which level of an interrupt line is the active one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Polarity {
    /// The high level. If the interrupt is edge-triggered, the rising edge.
    ActiveHigh,
    /// The low level. If the interrupt is edge-triggered, the falling edge.
    ActiveLow,
}

/// What part of a device's signal raises the interrupt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trigger {
    /// The edge at the beginning of the signal.
    Edge,
    /// The level of the signal, as long as it is active.
    Level,
}

/// The error that an entry has an impossible length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed {
    /// The position of the entry in the table, in bytes.
    pub offset: usize,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the entry of the MADT at byte {} has an impossible length", self.offset)
    }
}

impl core::error::Error for Malformed {}

/// Returns the entries that the kernel uses, in the order of the table. Entries of other types and CPUs that cannot be
/// used are skipped. `table` is the whole table with its header.
///
/// The last item is an error if an entry's length is impossible. The entries after that entry cannot be found.
///
/// ```
/// use kernel_formats::madt::{ENTRIES_OFFSET, Entry, entries};
///
/// let mut table = vec![0; ENTRIES_OFFSET];
/// // A local APIC entry: type, length, number of the CPU, APIC id, and four bytes of flags.
/// table.extend([0, 8, 0, 3, 1, 0, 0, 0]);
/// assert!(entries(&table).eq([Ok(Entry::Cpu { apic_id: 3 })]));
/// ```
pub fn entries(table: &[u8]) -> impl Iterator<Item = Result<Entry, Malformed>> {
    let mut rest = table.get(ENTRIES_OFFSET..).unwrap_or_default();
    core::iter::from_fn(move || {
        loop {
            let offset = table.len() - rest.len();
            // The first byte of an entry is its type, and the second byte is its length, which includes these two
            // bytes.
            let (&kind, &length) = (rest.first()?, rest.get(1).unwrap_or(&0));
            let Some((entry, behind)) = rest.split_at_checked(length.into()).filter(|_| length >= 2) else {
                rest = &[];
                return Some(Err(Malformed { offset }));
            };
            rest = behind;
            match parse(kind, entry) {
                Ok(Some(entry)) => return Some(Ok(entry)),
                Ok(None) => {}
                Err(TooShort) => {
                    rest = &[];
                    return Some(Err(Malformed { offset }));
                }
            }
        }
    })
}

/// An entry is shorter than its type requires.
struct TooShort;

/// Parses the bytes of an entry of type `kind`. Returns `None` if the kernel does not use such an entry.
fn parse(kind: u8, entry: &[u8]) -> Result<Option<Entry>, TooShort> {
    let byte = |offset| entry.get(offset).copied().ok_or(TooShort);
    let word = |offset: usize| {
        let bytes = entry.get(offset..offset + 4).ok_or(TooShort)?;
        Ok(u32::from_le_bytes(bytes.try_into().expect("four bytes")))
    };
    let cpu = |apic_id, flags| (flags & CPU_ENABLED != 0).then_some(Entry::Cpu { apic_id });
    Ok(match kind {
        LOCAL_APIC => cpu(byte(3)?.into(), word(4)?),
        LOCAL_X2APIC => cpu(word(4)?, word(8)?),
        IO_APIC => Some(Entry::IoApic { address: word(4)?, first_interrupt: word(8)? }),
        SOURCE_OVERRIDE => {
            // Polarity and trigger mode have two bits each. Zero means the default of the bus, which for ISA is active
            // high and edge-triggered (ACPI 6.5, table 5.26).
            let flags = byte(8)?;
            let polarity = if flags & 0b11 == 0b11 { Polarity::ActiveLow } else { Polarity::ActiveHigh };
            let trigger = if flags & 0b1100 == 0b1100 { Trigger::Level } else { Trigger::Edge };
            Some(Entry::SourceOverride { irq: byte(3)?, interrupt: Interrupt { number: word(4)?, polarity, trigger } })
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    fn table(entries: &[&[u8]]) -> Vec<u8> {
        [&[0; ENTRIES_OFFSET][..], &entries.concat()].concat()
    }

    /// A MADT like that of QEMU's machine `q35` with two CPUs, without its header.
    const QEMU: [&[u8]; 7] = [
        &[0, 8, 0, 0, 1, 0, 0, 0],
        &[0, 8, 1, 1, 1, 0, 0, 0],
        &[1, 12, 0, 0, 0, 0, 0xc0, 0xfe, 0, 0, 0, 0],
        &[2, 10, 0, 0, 2, 0, 0, 0, 0, 0],
        &[2, 10, 0, 5, 5, 0, 0, 0, 0xd, 0],
        &[2, 10, 0, 11, 11, 0, 0, 0, 0xf, 0],
        &[4, 6, 0xff, 0, 0, 1],
    ];

    #[test]
    fn entries_of_a_real_table_are_found() {
        let of_isa_bus = |irq, number, polarity, trigger| Entry::SourceOverride {
            irq,
            interrupt: Interrupt { number, polarity, trigger },
        };
        let expected = [
            Entry::Cpu { apic_id: 0 },
            Entry::Cpu { apic_id: 1 },
            Entry::IoApic { address: 0xfec0_0000, first_interrupt: 0 },
            of_isa_bus(0, 2, Polarity::ActiveHigh, Trigger::Edge),
            of_isa_bus(5, 5, Polarity::ActiveHigh, Trigger::Level),
            of_isa_bus(11, 11, Polarity::ActiveLow, Trigger::Level),
        ];
        assert!(entries(&table(&QEMU)).eq(expected.map(Ok)));
    }

    #[test]
    fn x2apic_ids_have_32_bits_and_cpus_that_cannot_be_used_are_skipped() {
        let table = table(&[
            &[9, 16, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0],
            &[9, 16, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0],
            &[0, 8, 2, 2, 2, 0, 0, 0],
        ]);
        assert!(entries(&table).eq([Ok(Entry::Cpu { apic_id: 0x100 })]));
    }

    #[test]
    fn entry_with_an_impossible_length_is_the_last_item() {
        let cpu: &[u8] = &[0, 8, 0, 3, 1, 0, 0, 0];
        // The faults of these entries, in order: the length is zero; it covers only the type; it extends past the end
        // of the table; it is missing; it is less than the length of an entry of this type.
        let impossible: [&[u8]; 5] =
            [&[0, 0], &[0, 1, 0, 0], &[0, 200, 0, 0, 0, 0, 0, 0], &[0], &[1, 8, 0, 0, 0, 0, 0, 0]];
        for entry in impossible {
            let table = [&table(&[cpu])[..], entry].concat();
            let expected = [Ok(Entry::Cpu { apic_id: 3 }), Err(Malformed { offset: ENTRIES_OFFSET + 8 })];
            assert!(entries(&table).eq(expected), "{entry:?}");
        }
    }

    #[test]
    fn table_without_entries_has_none() {
        assert_eq!(entries(&table(&[])).count(), 0);
        assert_eq!(entries(&[0; ENTRIES_OFFSET - 1]).count(), 0);
    }

    #[test]
    fn random_bytes_are_parsed_in_bounded_time() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..100_000 {
            let mut table: Vec<u8> = table(&QEMU);
            for _ in 0..random.usize(1..8) {
                let position = random.usize(ENTRIES_OFFSET..table.len());
                table[position] = random.u8(..);
            }
            table.truncate(random.usize(..=table.len()));
            // Each entry has at least two bytes.
            let most = table.len() / 2;
            let items: Vec<_> = entries(&table).take(most + 1).collect();
            assert!(items.len() <= most, "{table:?}");
            let errors = items.iter().filter(|item| item.is_err()).count();
            assert!(errors == 0 || errors == 1 && items.last().is_some_and(Result::is_err), "{table:?}");
        }
    }
}
