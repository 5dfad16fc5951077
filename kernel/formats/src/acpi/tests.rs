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

/// Returns the tables of a computer like QEMU's `q35`. The RSDT does not list the HPET, so that tests see which
/// root table is used.
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
    let pointer = [ROOT_POINTER, b"\0vendor\x02", &rsdt.to_le_bytes(), &[36, 0, 0, 0], &xsdt.to_le_bytes(), &[0; 4]];
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

/// Reads all tables. Returns the number of tables that can be used.
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
