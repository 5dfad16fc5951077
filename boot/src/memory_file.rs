//! The files of the memory that machines share with the host.
//!
//! Such a file is mapped. If its file system were full when a part of it is first used, the process that uses it would
//! be ended by SIGBUS. So the space is reserved when the file is made, and a lack of space is an error then.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, retry_on_intr};

use crate::qemu::with_path;

/// Makes a file without a name, with this length. Space is reserved for its first `used` bytes. The file is in memory
/// if there is room, and otherwise in the folder for temporary files. The system frees the file when its last handle is
/// closed.
///
/// # Errors
///
/// If no place has room. The error names the places and the size.
pub(crate) fn nameless(length: u64, used: u64) -> io::Result<File> {
    nameless_in(&["/dev/shm".into(), env::temp_dir()], length, used)
}

fn nameless_in(places: &[PathBuf], length: u64, used: u64) -> io::Result<File> {
    let mut errors = Vec::new();
    for place in places {
        match tempfile::tempfile_in(place).and_then(|file| reserve(&file, length, used).map(|()| file)) {
            Ok(file) => return Ok(file),
            Err(error) => errors.push(format!("in {}: {error}", place.display())),
        }
    }
    Err(no_room(used, &errors.join("; ")))
}

/// Makes the file `name`, or replaces its content, like [`nameless`].
///
/// # Errors
///
/// If the file cannot be made, or if there is no room for it. The error names the file and the size.
pub(crate) fn named(name: &Path, length: u64, used: u64) -> io::Result<File> {
    let reserved = File::create(name).and_then(|file| reserve(&file, length, used).map(|()| file));
    reserved.map_err(|error| no_room(used, &format!("in {}: {error}", name.display())))
}

/// Returns the path by which QEMU opens a file that it inherits.
pub(crate) fn inherited(file: &File) -> PathBuf {
    format!("/dev/fd/{}", file.as_raw_fd()).into()
}

/// Returns QEMU's arguments for the ivshmem device through which the machine sees the file `path`. The device has the name
/// `id`, and the file has `bytes` bytes, which is a power of two.
pub(crate) fn device(id: &str, bytes: u64, path: &Path) -> [OsString; 4] {
    let backend = with_path(format!("memory-backend-file,id={id},share=on,size={bytes},mem-path="), path);
    ["-object".into(), backend, "-device".into(), format!("ivshmem-plain,memdev={id}").into()]
}

fn no_room(bytes: u64, why: &str) -> io::Error {
    io::Error::other(format!("{} MiB cannot be reserved {why}", bytes.div_ceil(1 << 20)))
}

/// Sets the length of an empty file, and reserves space for its first `used` bytes.
fn reserve(mut file: &File, length: u64, used: u64) -> io::Result<()> {
    file.set_len(length)?;
    match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), 0, used)) {
        // This file system does not support `fallocate`. Writing zeros also allocates the space.
        Err(Errno::OPNOTSUPP) => {
            let zeros = vec![0; 1 << 20];
            let mut rest = used;
            while rest > 0 {
                let count = zeros.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
                file.write_all(&zeros[..count])?;
                rest -= count as u64;
            }
            io::Seek::rewind(&mut file)
        }
        reserved => Ok(reserved?),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    const USED: u64 = 3 << 20;

    fn assert_is_reserved(file: &File) {
        let metadata = file.metadata().expect("metadata");
        assert_eq!(metadata.len(), 4 << 20);
        assert!(metadata.blocks() * 512 >= USED, "{} blocks", metadata.blocks());
    }

    #[test]
    fn space_is_reserved_where_there_is_room() {
        let folder = tempfile::tempdir().expect("a folder");
        let (missing, name) = (folder.path().join("missing"), folder.path().join("file"));
        assert_is_reserved(&nameless(4 << 20, USED).expect("room"));
        assert_is_reserved(&nameless_in(&[missing.clone(), folder.path().into()], 4 << 20, USED).expect("room"));
        assert_is_reserved(&named(&name, 4 << 20, USED).expect("room"));
        assert_is_reserved(&named(&name, 4 << 20, USED).expect("room, for the second time"));
        let error = nameless_in(&[missing.clone(), name.clone()], 4 << 20, USED).expect_err("no folders").to_string();
        let expected = format!("3 MiB cannot be reserved in {}: No such file", missing.display());
        assert!(error.starts_with(&expected) && error.contains(&format!("; in {}: ", name.display())), "{error}");
    }
}
