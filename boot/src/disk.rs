//! The files that are the disks of a machine.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Seek as _, SeekFrom};
use std::path::{self, Path, PathBuf};

use crate::Error;
use crate::paths::check_unicode;

/// Whether the machine may write to its disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// The machine cannot write to the disk.
    ReadOnly,
    /// The machine can write to the disk. This changes the file, unless instructions are counted.
    ReadWrite,
}

/// A file that is a disk of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Disk {
    /// The name exactly as the user gave it.
    pub name: String,
    /// The absolute path of the file.
    pub path: PathBuf,
    /// The length of the file in bytes. It need not be a multiple of the sector size.
    pub bytes: u64,
    /// Whether the machine may write to this disk.
    pub access: Access,
}

impl Disk {
    /// Opens the file `name` to find its length, and closes it again.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the file cannot be opened, if it is neither a regular file nor a block device, or if `name`
    /// is not Unicode.
    pub fn open(name: &OsStr, access: Access) -> Result<Self, Error> {
        let cannot =
            |why: &dyn core::fmt::Display| Error::Usage(format!("disk `{}`: {why}", Path::new(name).display()));
        let name_in_unicode = check_unicode(name.as_ref()).map_err(|error| cannot(&error))?;
        // The kind of the file is checked before the file is opened, because opening a FIFO would block until the FIFO
        // has a writer.
        let kind = Path::new(name).metadata().map_err(|error| cannot(&error))?.file_type();
        if !kind.is_file() && !is_block_device(kind) {
            return Err(cannot(&"not a regular file or a block device"));
        }
        let mut file =
            File::options().read(true).write(access == Access::ReadWrite).open(name).map_err(|error| cannot(&error))?;
        // The length is found by seeking to the end, because the metadata of a block device does not contain its
        // length.
        let bytes = file.seek(SeekFrom::End(0)).map_err(|error| cannot(&error))?;
        let path = path::absolute(name).map_err(|error| cannot(&error))?;
        Ok(Self { name: name_in_unicode.to_owned(), path, bytes, access })
    }
}

fn is_block_device(kind: std::fs::FileType) -> bool {
    std::os::unix::fs::FileTypeExt::is_block_device(&kind)
}
