//! Disks in memory. If instructions are counted, the machine has such disks in place of virtio disks. The reason is
//! that the host takes a different time for an access to a file in each run.
//!
//! The content of the file is copied when the machine starts. What the machine writes to the disk stays in the copy. So
//! the file never changes, and the next run finds the same content. The memory for the whole disk is reserved first.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use boot_protocol::memory_disk::{HEADER_BYTES, Header};

use crate::Error;
use crate::disk::{Access, Disk};
use crate::memory_file;
use crate::qemu::Configuration;

/// The least size of the memory that contains a disk.
const LEAST_BYTES: u64 = 1 << 20;
/// The largest size of a disk, in bytes, for each MiB of the machine's own memory. The disk itself is not in the
/// machine's own memory, but the page tables that map the disk are. With this limit, the page tables of all disks take
/// at most a quarter of the machine's own memory.
const BYTES_PER_MIB: u64 = 64 << 20;
const SECTOR_BYTES: u64 = 512;
/// How many bytes of the file are copied at a time. If they are all zero, they are left out.
const UNIT_BYTES: usize = 64 << 10;

/// For each disk of a machine, the file of the memory that contains the disk, and the size of this memory. If
/// instructions are not counted, there are no such disks.
#[derive(Debug)]
pub(crate) struct MemoryDisks(Vec<(File, u64)>);

impl MemoryDisks {
    /// Loads the disks of a machine into memory.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if a file cannot be read, if its content cannot be copied into memory, or if the machine has
    /// too little memory to map a disk.
    pub(crate) fn load(configuration: &Configuration) -> Result<Self, Error> {
        check(configuration)?;
        let disks = configuration.disks.iter().filter(|_| configuration.icount);
        let load = |disk: &Disk| {
            let loaded = load(disk, memory_file::nameless);
            loaded.map_err(|error| cannot(disk, &error))
        };
        disks.map(load).collect::<Result<_, _>>().map(Self)
    }

    /// Returns a file for the memory of each disk, and the QEMU arguments for the ivshmem devices through which the
    /// machine sees these disks. The arguments name the descriptors of the files (`/dev/fd/N`), so QEMU must inherit
    /// the files.
    pub(crate) fn devices(self) -> (Vec<File>, Vec<OsString>) {
        let words = self
            .0
            .iter()
            .enumerate()
            .flat_map(|(index, (memory, bytes))| device(index, *bytes, &memory_file::inherited(memory)));
        let words = words.collect();
        (self.0.into_iter().map(|(memory, _)| memory).collect(), words)
    }
}

/// Writes the memory of each disk to a file beside `program`, for a command that is run by hand. Returns QEMU's
/// arguments for the devices. If instructions are not counted, writes no file and returns no arguments.
///
/// # Errors
///
/// [`Error::Usage`] if a file cannot be read or written, or if the machine has too little memory to map a disk.
pub fn write_beside(program: &Path, configuration: &Configuration) -> Result<Vec<OsString>, Error> {
    check(configuration)?;
    let mut words = Vec::new();
    for (index, disk) in configuration.disks.iter().filter(|_| configuration.icount).enumerate() {
        let path = program.with_extension(format!("disk{index}"));
        let loaded = load(disk, |length, used| memory_file::named(&path, length, used));
        words.extend(device(index, loaded.map_err(|error| cannot(disk, &error))?.1, &path));
    }
    Ok(words)
}

/// Checks that the machine has the memory to map its disks.
///
/// # Errors
///
/// [`Error::Usage`] if the machine has too little memory.
pub fn check(configuration: &Configuration) -> Result<(), Error> {
    let disks = configuration.disks.iter().filter(|_| configuration.icount);
    let bytes = disks.fold(0_u64, |sum, disk| sum.saturating_add(disk.bytes));
    let (mib, least) = (bytes.div_ceil(1 << 20), bytes.div_ceil(BYTES_PER_MIB));
    if least > configuration.memory.into() {
        return Err(Error::Usage(format!(
            "with --icount, disks are loaded into memory. For the {mib} MiB of the disks, the machine needs at least \
             --memory {least}"
        )));
    }
    Ok(())
}

fn cannot(disk: &Disk, error: &io::Error) -> Error {
    let mib = disk.bytes.div_ceil(1 << 20);
    Error::Usage(format!(
        "disk `{}`: with --icount, a disk is loaded into memory, and loading these {mib} MiB failed: {error}",
        disk.name
    ))
}

/// Returns QEMU's arguments for the device of a disk.
fn device(index: usize, bytes: u64, memory: &Path) -> [OsString; 4] {
    memory_file::device(&format!("disk{index}"), bytes, memory)
}

/// Makes the memory for a disk by calling `make` with the length of the memory and how much of it is used. Fills it
/// with the header and the content of the disk. Returns the memory and its length.
fn load(disk: &Disk, make: impl FnOnce(u64, u64) -> io::Result<File>) -> io::Result<(File, u64)> {
    let too_large = || io::Error::from(io::ErrorKind::FileTooLarge);
    let bytes = disk.bytes.checked_next_multiple_of(SECTOR_BYTES).ok_or_else(too_large)?;
    let used = bytes.checked_add(HEADER_BYTES as u64).ok_or_else(too_large)?;
    let size = used.checked_next_power_of_two().ok_or_else(too_large)?.max(LEAST_BYTES);
    let mut memory = make(size, used)?;
    let header = Header { bytes, is_read_only: disk.access == Access::ReadOnly };
    memory.write_all(&header.words().map(u64::to_le_bytes).concat())?;
    let mut from = File::open(&disk.path)?.take(disk.bytes);
    let mut unit = vec![0; UNIT_BYTES];
    let mut offset = HEADER_BYTES as u64;
    loop {
        let count = from.read(&mut unit)?;
        if count == 0 {
            return Ok((memory, size));
        }
        if unit[..count].iter().any(|&byte| byte != 0) {
            memory.seek(SeekFrom::Start(offset))?;
            memory.write_all(&unit[..count])?;
        }
        offset += count as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn memory_has_a_header_and_the_content() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("disk");
        let content: Vec<u8> = (0..700_000_usize).map(|index| (index / 7) as u8).collect();
        fs::write(&path, &content).expect("written");
        let disk = Disk::open(path.as_ref(), Access::ReadWrite).expect("a disk");
        let memory = directory.path().join("memory");
        let (_, size) = load(&disk, |length, used| memory_file::named(&memory, length, used)).expect("loaded");
        let found = fs::read(&memory).expect("read");
        assert_eq!((size, found.len()), (1 << 20, 1 << 20));
        let word = |index: usize| u64::from_le_bytes(found[8 * index..][..8].try_into().expect("8 bytes"));
        let header = Header::parse([word(0), word(1), word(2)]);
        assert_eq!(header, Some(Header { bytes: 700_416, is_read_only: false }));
        assert_eq!(found[HEADER_BYTES..][..content.len()], content);
        assert!(found[HEADER_BYTES + content.len()..].iter().all(|&byte| byte == 0));
    }

    /// Space is also reserved for the parts of the disk that are zero, because the machine may write to them.
    #[test]
    fn memory_is_reserved_for_the_disk_and_no_more() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("disk");
        File::create(&path).and_then(|file| file.set_len(8 << 20)).expect("made");
        let disk = Disk::open(path.as_ref(), Access::ReadOnly).expect("a disk");
        let (memory, size) = load(&disk, memory_file::nameless).expect("loaded");
        let reserved = memory.metadata().expect("metadata").blocks() * 512;
        assert_eq!(size, 16 << 20);
        assert!((8 << 20..10 << 20).contains(&reserved), "{reserved}");
    }
}
