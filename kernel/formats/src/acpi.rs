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

/// The largest length of a table, in bytes. The largest tables of real computers are usually DSDTs, of less than a
/// megabyte.
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
/// The first revision of the root pointer that has the longer form, and the first revision of the FADT that may have
/// fields for addresses of 64 bits.
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
mod tests;
