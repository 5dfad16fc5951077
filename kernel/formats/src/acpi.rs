//! The firmware's tables (ACPI 6.5, 5.2): how they are found, and what the kernel reads from two of them, the FADT
//! (fixed ACPI description table) and the table of the HPET (high precision event timer).
//!
//! ```text
//! root pointer (RSDP) ─▶ root table (RSDT or XSDT) ─┬▶ MADT: see `madt`
//!                                                   ├▶ FADT ─▶ DSDT: see `soft_off`
//!                                                   └▶ HPET
//! ```
//!
//! Each table contains its own length and a checksum. All numbers come from the firmware, so they may be wrong. At each
//! address of a table, this module first reads a header of 36 bytes. It reads the rest of a table only if the table has
//! at most [`MAX_TABLE_BYTES`], and reads no byte behind the end. A search for a table tries at most [`MAX_TABLES`]
//! addresses of the root table.

use core::fmt;
use core::str;

/// The largest length of a table, in bytes. The largest tables of real computers are DSDTs, of less than a megabyte.
pub const MAX_TABLE_BYTES: usize = 16 << 20;
/// The largest number of addresses of the root table that a search for a table tries.
pub const MAX_TABLES: usize = 256;

/// The length of the header that all tables have.
const HEADER_BYTES: usize = 36;
/// The offsets of fields of this header.
const LENGTH: usize = 4;
const REVISION: usize = 8;

/// The first bytes of the root pointer.
const ROOT_POINTER: &[u8] = b"RSD PTR ";
/// The length of the root pointer in ACPI 1.0. The first checksum covers only these bytes, also in later versions.
const SHORT_ROOT_POINTER_BYTES: usize = 20;
/// The length of the root pointer in later versions.
const ROOT_POINTER_BYTES: usize = 36;
/// The first revision of the root pointer that has the longer form, and the first revision of the FADT that has fields
/// for addresses of 64 bits.
const ACPI_2: u8 = 2;

/// The name of a table, its first four bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signature(pub [u8; 4]);

impl Signature {
    /// The root table with addresses of 32 bits.
    pub const RSDT: Self = Self(*b"RSDT");
    /// The root table with addresses of 64 bits.
    pub const XSDT: Self = Self(*b"XSDT");
    /// The table of CPUs and interrupt controllers.
    pub const MADT: Self = Self(*b"APIC");
    /// The fixed ACPI description table.
    pub const FADT: Self = Self(*b"FACP");
    /// The table with the firmware's byte code.
    pub const DSDT: Self = Self(*b"DSDT");
    /// The table of the high precision event timer.
    pub const HPET: Self = Self(*b"HPET");
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The signatures of some tables are not the names by which the specification calls them.
        f.write_str(match *self {
            Self::MADT => "MADT",
            Self::FADT => "FADT",
            Self(ref bytes) => str::from_utf8(bytes).unwrap_or("table"),
        })
    }
}

/// Why a table cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableError {
    /// The root pointer is not where the boot loader says, or it is damaged.
    RootPointer,
    /// There is no such table. Addresses at which no header can be read do not count.
    Missing(Signature),
    /// The header of the table can be read, but not the whole table.
    Unreadable(Signature),
    /// The table is shorter than its header, or longer than [`MAX_TABLE_BYTES`].
    Length(Signature, u32),
    /// The checksum of the table is wrong.
    Checksum(Signature),
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RootPointer => f.write_str("the root pointer is damaged"),
            Self::Missing(table) => write!(f, "there is no {table}"),
            Self::Unreadable(table) => write!(f, "the address of the {table} makes no sense"),
            Self::Length(table, bytes) => write!(f, "the {table} has an impossible length, {bytes} bytes"),
            Self::Checksum(table) => write!(f, "the checksum of the {table} is wrong"),
        }
    }
}

impl core::error::Error for TableError {}

/// Physical memory.
pub trait PhysicalMemory {
    /// Returns the `length` bytes from the physical address `address` on. Returns `None` if there is no memory that can
    /// be read.
    fn physical_bytes(&self, address: u64, length: usize) -> Option<&[u8]>;
}

/// The firmware's tables.
#[derive(Debug)]
pub struct Tables<'m, M> {
    memory: &'m M,
    /// The content of the root table, after its header: the addresses of the tables.
    addresses: &'m [u8],
    /// The length of an address in the root table: 4 or 8.
    address_bytes: usize,
}

impl<'m, M: PhysicalMemory> Tables<'m, M> {
    /// Finds the tables by the root pointer, which is at the physical address `root_pointer`.
    ///
    /// # Errors
    /// If the root pointer is damaged, or if the root table is missing or damaged.
    pub fn find(memory: &'m M, root_pointer: u64) -> Result<Self, TableError> {
        let valid = |length| {
            let bytes = memory.physical_bytes(root_pointer, length)?;
            (bytes.starts_with(ROOT_POINTER) && sum(bytes) == 0).then_some(bytes)
        };
        let short = valid(SHORT_ROOT_POINTER_BYTES).ok_or(TableError::RootPointer)?;
        let (mut address, mut signature) = (word(short, 16).map(u64::from), Signature::RSDT);
        if short[15] >= ACPI_2 {
            let long = valid(ROOT_POINTER_BYTES).ok_or(TableError::RootPointer)?;
            if let Some(extended) = long_word(long, 24).filter(|&address| address != 0) {
                (address, signature) = (Some(extended), Signature::XSDT);
            }
        }
        let address = address.filter(|&address| address != 0).ok_or(TableError::Missing(signature))?;
        let table = table(memory, address, signature)?.ok_or(TableError::Missing(signature))?;
        let address_bytes = if signature == Signature::XSDT { 8 } else { 4 };
        Ok(Self { memory, addresses: &table[HEADER_BYTES..], address_bytes })
    }

    /// Returns the first table with this signature, with its header.
    ///
    /// # Errors
    /// If there is no such table, or it is damaged.
    pub fn table(&self, signature: Signature) -> Result<&'m [u8], TableError> {
        let addresses = self.addresses.chunks_exact(self.address_bytes).take(MAX_TABLES);
        let addresses = addresses.filter_map(|bytes| long_word(bytes, 0).or_else(|| word(bytes, 0).map(u64::from)));
        let mut found = addresses.filter_map(|address| table(self.memory, address, signature).transpose());
        found.next().unwrap_or(Err(TableError::Missing(signature)))
    }

    /// Returns the firmware's byte code: the content of the DSDT, after its header.
    ///
    /// # Errors
    /// If the FADT has no address of a DSDT, or if there is no DSDT at that address, or if it is damaged.
    pub fn byte_code(&self, fadt: &Fadt) -> Result<&'m [u8], TableError> {
        let missing = TableError::Missing(Signature::DSDT);
        let table = table(self.memory, fadt.dsdt.ok_or(missing)?, Signature::DSDT)?.ok_or(missing)?;
        Ok(&table[HEADER_BYTES..])
    }
}

/// Returns the table at `address`. Returns `None` if no header can be read there, or if the header has another
/// signature. Returns an error if the table is damaged.
fn table<M: PhysicalMemory>(memory: &M, address: u64, signature: Signature) -> Result<Option<&[u8]>, TableError> {
    let Some(header) = memory.physical_bytes(address, HEADER_BYTES).filter(|header| header.starts_with(&signature.0))
    else {
        return Ok(None);
    };
    let length = word(header, LENGTH).unwrap_or(0);
    let bytes = usize::try_from(length).ok().filter(|bytes| (HEADER_BYTES..=MAX_TABLE_BYTES).contains(bytes));
    let bytes = bytes.ok_or(TableError::Length(signature, length))?;
    let table = memory.physical_bytes(address, bytes).ok_or(TableError::Unreadable(signature))?;
    if sum(table) == 0 { Ok(Some(table)) } else { Err(TableError::Checksum(signature)) }
}

/// Returns the sum of all bytes, modulo 256. The sum of a table is 0 if its checksum, which is one of its bytes, is
/// right.
fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, &byte| sum.wrapping_add(byte))
}

/// Returns the number of 32 bits at `offset`, or `None` if the table ends before the end of the number.
fn word(table: &[u8], offset: usize) -> Option<u32> {
    table.get(offset..)?.first_chunk().map(|&bytes| u32::from_le_bytes(bytes))
}

/// Returns the number of 64 bits at `offset`, or `None` if the table ends before the end of the number.
fn long_word(table: &[u8], offset: usize) -> Option<u64> {
    table.get(offset..)?.first_chunk().map(|&bytes| u64::from_le_bytes(bytes))
}

/// What the kernel uses of the FADT (ACPI 6.5, table 5.9). Fields that the table does not have, or that make no sense,
/// are `None`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fadt {
    /// The address of the DSDT.
    dsdt: Option<u64>,
    /// The port of the power management timer.
    pub pm_timer: Option<u16>,
    /// The port of control register PM1a.
    pub control_a: Option<u16>,
    /// The port of control register PM1b.
    pub control_b: Option<u16>,
    /// The port by which the firmware is told to enable ACPI, and the value to write there.
    pub hand_over: Option<(u16, u8)>,
}

impl Fadt {
    /// Reads the table, which begins with its header.
    pub fn read(table: &[u8]) -> Self {
        let is_extended = table.get(REVISION).is_some_and(|&revision| revision >= ACPI_2);
        // Newer tables have a second field for each register and each table, with an address of 64 bits. If the second
        // field is not zero, it replaces the first one.
        let register = |extended: usize, port: usize| {
            let (space, address) = (table.get(extended), long_word(table, extended + GENERIC_ADDRESS));
            match space.zip(address).filter(|&(_, address)| is_extended && address != 0) {
                Some((&PORTS, address)) => u16::try_from(address).ok(),
                Some(_) => None,
                None => word(table, port).and_then(|port| u16::try_from(port).ok()).filter(|&port| port != 0),
            }
        };
        let command = word(table, 48).and_then(|port| u16::try_from(port).ok()).filter(|&port| port != 0);
        let dsdt = long_word(table, 140).filter(|&address| is_extended && address != 0);
        Self {
            dsdt: dsdt.or_else(|| word(table, 40).map(u64::from)).filter(|&address| address != 0),
            // The length of the timer's register must be 4.
            pm_timer: register(208, 76).filter(|_| table.get(91) == Some(&4)),
            control_a: register(172, 64),
            control_b: register(184, 68),
            hand_over: command.zip(table.get(52).copied()),
        }
    }
}

/// The offset of the address in a *generic address structure* (ACPI 6.5, 5.2.3.2). The first byte of the structure is
/// the address space.
const GENERIC_ADDRESS: usize = 4;
/// The address spaces: memory and I/O ports.
const MEMORY: u8 = 0;
const PORTS: u8 = 1;

/// Returns the physical address of the HPET's registers, from the table of the HPET with its header. Returns `None` if
/// the table has no address, or the registers are not in memory.
pub fn hpet(table: &[u8]) -> Option<u64> {
    let (space, address) = (*table.get(40)?, long_word(table, 40 + GENERIC_ADDRESS)?);
    (space == MEMORY && address != 0).then_some(address)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use core::cell::Cell;
    use std::string::ToString;
    use std::vec;
    use std::vec::Vec;

    use super::*;
    use crate::{madt, soft_off};

    /// The address of the first byte of the firmware's memory.
    const START: u64 = 0xf_0000;

    /// Memory with tables. There is no other memory.
    struct Firmware {
        bytes: Vec<u8>,
        /// The addresses and lengths of the tables, in the order in which they were added.
        tables: Vec<(u64, usize)>,
        /// How many bytes were read.
        read: Cell<usize>,
    }

    impl PhysicalMemory for Firmware {
        fn physical_bytes(&self, address: u64, length: usize) -> Option<&[u8]> {
            let start = usize::try_from(address.checked_sub(START)?).ok()?;
            let bytes = self.bytes.get(start..start.checked_add(length)?)?;
            self.read.set(self.read.get() + length);
            Some(bytes)
        }
    }

    impl Firmware {
        /// Adds bytes, and returns their address.
        fn add(&mut self, bytes: &[u8]) -> u64 {
            let address = START + self.bytes.len() as u64;
            self.tables.push((address, bytes.len()));
            self.bytes.extend(bytes);
            address
        }

        fn add_table(&mut self, signature: Signature, revision: u8, content: &[u8]) -> u64 {
            let length = HEADER_BYTES + content.len();
            let mut table = vec![0; HEADER_BYTES];
            table[..4].copy_from_slice(&signature.0);
            table[LENGTH..8].copy_from_slice(&(length as u32).to_le_bytes());
            table[REVISION] = revision;
            table.extend(content);
            table[CHECKSUM] = 0_u8.wrapping_sub(sum(&table));
            self.add(&table)
        }

        fn range(&self, table: usize) -> (usize, usize) {
            let (address, length) = self.tables[table];
            ((address - START) as usize, length)
        }

        fn table_mut(&mut self, table: usize) -> &mut [u8] {
            let (start, length) = self.range(table);
            &mut self.bytes[start..start + length]
        }

        /// Makes the checksum of a table, or both checksums of the root pointer, right again.
        fn correct(&mut self, table: usize) {
            let bytes = self.table_mut(table);
            let (part, at) = if table == POINTER { (SHORT_ROOT_POINTER_BYTES, 8) } else { (bytes.len(), CHECKSUM) };
            bytes[at] = bytes[at].wrapping_sub(sum(&bytes[..part]));
            if table == POINTER {
                bytes[32] = bytes[32].wrapping_sub(sum(bytes));
            }
        }

        fn find(&self) -> Result<Tables<'_, Self>, TableError> {
            Tables::find(self, self.tables[POINTER].0)
        }

        fn table(&self, signature: Signature) -> Result<&[u8], TableError> {
            self.find()?.table(signature)
        }
    }

    const CHECKSUM: usize = 9;
    /// The indices of some tables in [`firmware`].
    const FADT: usize = 1;
    const HPET: usize = 2;
    const MADT: usize = 3;
    const XSDT: usize = 5;
    const POINTER: usize = 6;

    /// Puts `value` at `offset` of a table without its header.
    fn put(content: &mut [u8], offset: usize, value: &[u8]) {
        content[offset - HEADER_BYTES..][..value.len()].copy_from_slice(value);
    }

    /// Returns the tables of a computer like QEMU's `q35`. The RSDT lists all tables but the HPET, so that tests see
    /// which root table is used.
    fn firmware() -> Firmware {
        let mut firmware = Firmware { bytes: vec![], tables: vec![], read: Cell::new(0) };
        let dsdt = firmware.add_table(Signature::DSDT, 1, b"\x08_S5_\x12\x06\x04\x00\x00\x00\x00") as u32;
        let mut fadt = [0; 244 - HEADER_BYTES];
        put(&mut fadt, 40, &dsdt.to_le_bytes());
        put(&mut fadt, 48, &[0xb2, 0, 0, 0, 2]);
        put(&mut fadt, 64, &[0x04, 0x06]);
        put(&mut fadt, 76, &[0x08, 0x06]);
        put(&mut fadt, 91, &[4]);
        put(&mut fadt, 140, &u64::from(dsdt).to_le_bytes());
        put(&mut fadt, 172, &[PORTS, 16, 0, 0, 0x44, 0x06]);
        let fadt = firmware.add_table(Signature::FADT, 3, &fadt) as u32;
        let hpet = [&[1, 0xa2, 0x86, 0x80, MEMORY, 0, 0, 0][..], &0xfed0_0000_u64.to_le_bytes(), &[0; 4]].concat();
        let hpet = firmware.add_table(Signature::HPET, 1, &hpet);
        let madt = firmware.add_table(Signature::MADT, 1, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 3, 1, 0, 0, 0]) as u32;
        let rsdt = [fadt, madt].map(u32::to_le_bytes).concat();
        let rsdt = firmware.add_table(Signature::RSDT, 1, &rsdt) as u32;
        let xsdt = [fadt.into(), hpet, madt.into()].map(u64::to_le_bytes).concat();
        let xsdt = firmware.add_table(Signature::XSDT, 1, &xsdt);
        let pointer =
            [ROOT_POINTER, b"\0vendor\x02", &rsdt.to_le_bytes(), &[36, 0, 0, 0], &xsdt.to_le_bytes(), &[0; 4]];
        firmware.add(&pointer.concat());
        firmware.correct(POINTER);
        firmware
    }

    #[test]
    fn all_fields_are_found() {
        let firmware = firmware();
        let tables = firmware.find().unwrap();
        let fadt = Fadt::read(tables.table(Signature::FADT).unwrap());
        assert_eq!((fadt.pm_timer, fadt.control_a, fadt.control_b), (Some(0x608), Some(0x644), None));
        assert_eq!(fadt.hand_over, Some((0xb2, 2)));
        let byte_code = tables.byte_code(&fadt).unwrap();
        assert_eq!(soft_off::find(byte_code), Some(soft_off::SleepTypes { a: 0, b: 0 }));
        assert_eq!(hpet(tables.table(Signature::HPET).unwrap()), Some(0xfed0_0000));
        let entries = madt::entries(tables.table(Signature::MADT).unwrap());
        assert!(entries.eq([Ok(madt::Entry::Cpu { apic_id: 3 })]));
    }

    #[test]
    fn root_table_of_32_bits_is_used_if_there_is_no_other() {
        let mut firmware = firmware();
        firmware.table_mut(POINTER)[24..32].fill(0);
        firmware.correct(POINTER);
        assert!(firmware.table(Signature::FADT).is_ok());
        assert_eq!(firmware.table(Signature::HPET).unwrap_err(), TableError::Missing(Signature::HPET));
        // In ACPI 1.0 the root pointer has only 20 bytes.
        firmware.table_mut(POINTER)[15] = 0;
        firmware.correct(POINTER);
        firmware.bytes.truncate(firmware.bytes.len() - 16);
        assert!(firmware.table(Signature::MADT).is_ok());
    }

    #[test]
    fn fields_that_make_no_sense_are_left_out() {
        let firmware = firmware();
        let whole = firmware.table(Signature::FADT).unwrap();
        let changed = |changes: &[(usize, u8)]| {
            let mut table = whole.to_vec();
            changes.iter().for_each(|&(offset, value)| table[offset] = value);
            Fadt::read(&table)
        };
        assert_eq!(changed(&[(91, 3)]).pm_timer, None, "a register of another length");
        assert_eq!(changed(&[(172, MEMORY)]).control_a, None, "a register in memory");
        assert_eq!(changed(&[(178, 1)]).control_a, None, "a port above 65,535");
        assert_eq!(changed(&[(REVISION, 1)]).control_a, Some(0x604), "a table without fields of 64 bits");
        assert_eq!(changed(&[(48, 0)]).hand_over, None);
        let hpet_table = firmware.table(Signature::HPET).unwrap();
        let in_ports = [&hpet_table[..40], &[PORTS], &hpet_table[41..]].concat();
        assert_eq!(hpet(&in_ports), None);
    }

    #[test]
    fn damage_is_named() {
        let message = |change: &dyn Fn(&mut Firmware), signature| {
            let mut firmware = firmware();
            change(&mut firmware);
            firmware.table(signature).map(<[u8]>::len).unwrap_err().to_string()
        };
        let is_damaged = "the root pointer is damaged";
        assert_eq!(message(&|firmware| firmware.table_mut(POINTER)[0] = 0, Signature::MADT), is_damaged);
        assert_eq!(message(&|firmware| firmware.table_mut(POINTER)[17] ^= 1, Signature::MADT), is_damaged);
        assert_eq!(message(&|firmware| firmware.table_mut(POINTER)[25] ^= 1, Signature::MADT), is_damaged);
        let checksum = |firmware: &mut Firmware| firmware.table_mut(XSDT)[HEADER_BYTES] ^= 1;
        assert_eq!(message(&checksum, Signature::MADT), "the checksum of the XSDT is wrong");
        let long = |firmware: &mut Firmware| firmware.table_mut(MADT)[LENGTH + 3] = 0x40;
        assert_eq!(message(&long, Signature::MADT), "the MADT has an impossible length, 1073741876 bytes");
        let short = |firmware: &mut Firmware| firmware.table_mut(FADT)[LENGTH..8].copy_from_slice(&[35, 0, 0, 0]);
        assert_eq!(message(&short, Signature::FADT), "the FADT has an impossible length, 35 bytes");
        let outside = |firmware: &mut Firmware| firmware.table_mut(HPET)[LENGTH + 1] = 0x40;
        assert_eq!(message(&outside, Signature::HPET), "the address of the HPET makes no sense");
        assert_eq!(message(&|_| {}, Signature(*b"TPM2")), "there is no TPM2");
    }

    /// Reads everything. Returns the number of tables that can be used.
    fn read_all(firmware: &Firmware) -> usize {
        let Ok(tables) = firmware.find() else { return 0 };
        let mut count = 1;
        if let Ok(table) = tables.table(Signature::FADT) {
            let fadt = Fadt::read(table);
            count += 1;
            if let Ok(code) = tables.byte_code(&fadt) {
                let _ = soft_off::find(code);
                count += 1;
            }
        }
        count += tables.table(Signature::HPET).map(hpet).map_or(0, |_| 1);
        if let Ok(table) = tables.table(Signature::MADT) {
            assert!(madt::entries(table).count() <= table.len() / 2);
            count += 1;
        }
        count
    }

    #[test]
    fn tables_with_random_changes_are_read_in_bounded_time() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut reached = [0; 6];
        for step in 0..100_000 {
            let mut firmware = firmware();
            let size = firmware.bytes.len();
            for _ in 0..random.usize(1..6) {
                let table = random.usize(..=POINTER);
                let bytes = firmware.table_mut(table);
                // The header, and especially its first 12 bytes, is changed more often than the rest of a table.
                let end = [bytes.len(), HEADER_BYTES.min(bytes.len()), 12][random.usize(..3)];
                let value = [random.u8(..), random.u8(..4), 0xff][random.usize(..3)];
                bytes[random.usize(..end)] = value;
                // If the checksums were not corrected, nearly every changed table would be rejected because of its
                // checksum, before any other field is used.
                if random.u32(..8) != 0 {
                    firmware.correct(table);
                }
            }
            if random.u32(..8) == 0 {
                firmware.bytes.truncate(random.usize(..=size));
            }
            reached[read_all(&firmware)] += 1;
            let most = 100 * size;
            assert!(firmware.read.get() <= most, "step {step}: {} bytes were read", firmware.read.get());
        }
        assert!(reached.iter().all(|&count| count > 100), "some cases hardly occur: {reached:?}");
    }

    #[test]
    fn tables_that_end_anywhere_are_no_panic() {
        let firmware = firmware();
        for signature in [Signature::FADT, Signature::HPET, Signature::MADT] {
            let table = firmware.table(signature).unwrap();
            for end in 0..table.len() {
                let _ = (Fadt::read(&table[..end]), hpet(&table[..end]), madt::entries(&table[..end]).count());
            }
        }
    }

    /// All entries of the root table are the address of the root table itself, of a table of another kind, or of no
    /// memory.
    #[test]
    fn root_table_of_senseless_addresses_is_read_in_bounded_time() {
        let xsdt_itself = firmware().add_table(Signature::XSDT, 1, &[]);
        for address in [xsdt_itself, START, 0, u64::MAX, u64::MAX - 35] {
            let mut firmware = firmware();
            let xsdt = firmware.add_table(Signature::XSDT, 1, &address.to_le_bytes().repeat(2 * MAX_TABLES));
            assert_eq!(xsdt, xsdt_itself);
            firmware.table_mut(POINTER)[24..32].copy_from_slice(&xsdt.to_le_bytes());
            firmware.correct(POINTER);
            let error = firmware.table(Signature::MADT).unwrap_err();
            assert_eq!(error, TableError::Missing(Signature::MADT), "{address:#x}");
            let root_bytes = HEADER_BYTES + 16 * MAX_TABLES;
            assert!(firmware.read.get() <= root_bytes + (MAX_TABLES + 4) * HEADER_BYTES, "{address:#x}");
        }
    }
}
