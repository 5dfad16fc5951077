//! What is served in parts: the bytes of the first disk, a file of its file system, or zeros.

use super::request::Code;
use crate::{MountError, mount};
use ext4_view::{Ext4Error, File};
use kernel::disk::{Disk, disks};
use kernel::prelude::*;

/// The content types of files, by the ends of their names.
const KINDS: [(&str, &str); 7] = [
    (".html", "text/html"),
    (".css", "text/css"),
    (".js", "text/javascript"),
    (".svg", "image/svg+xml"),
    (".png", "image/png"),
    (".json", "application/json"),
    (".txt", "text/plain"),
];

/// Something with a length, of which each part can be read.
pub(crate) enum Resource {
    Disk(&'static Disk),
    File(Box<File>),
    /// This many zeros.
    Zeros(u64),
}

impl Resource {
    /// Finds what a path names. Blocks the calling G.
    ///
    /// # Errors
    ///
    /// [`Code::NotFound`] if there is nothing, and [`Code::Internal`] if the disk or its file system has an error.
    pub(crate) fn find(path: &str) -> Result<Self, Code> {
        if let Some(count) = path.strip_prefix("/zeros/") {
            return count.parse().map(Self::Zeros).map_err(|_| Code::NotFound);
        }
        let disk = disks().first().ok_or(Code::NotFound)?;
        if path == "/disk" {
            return Ok(Self::Disk(disk));
        }
        let name = path.strip_prefix("/files").filter(|name| name.starts_with('/')).ok_or(Code::NotFound)?;
        let name = decode(name).ok_or(Code::BadRequest)?;
        let files = mount(disk).map_err(|error| match error {
            MountError::NoFileSystem => Code::NotFound,
            MountError::Disk(_) | MountError::FileSystem(_) => Code::Internal,
        })?;
        files.open(name.as_slice()).map(|file| Self::File(Box::new(file))).map_err(|error| match error {
            Ext4Error::Io(_) | Ext4Error::Corrupt(_) | Ext4Error::Incompatible(_) => Code::Internal,
            _ => Code::NotFound,
        })
    }

    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::Disk(disk) => disk.len_bytes(),
            Self::File(file) => file.metadata().len(),
            Self::Zeros(count) => *count,
        }
    }

    /// Fills `buffer` with the bytes from `at` on. Blocks the calling G. Returns `None` if they cannot be read.
    pub(crate) fn read(&mut self, at: u64, buffer: &mut [u8]) -> Option<()> {
        match self {
            Self::Disk(disk) => disk.asynchronous().read_at(at, buffer).ok().filter(|&count| count == buffer.len())?,
            Self::File(file) => {
                file.seek_to(at).ok()?;
                let mut filled = 0;
                while filled < buffer.len() {
                    filled += file.read_bytes(&mut buffer[filled..]).ok().filter(|&count| count != 0)?;
                }
                filled
            }
            Self::Zeros(_) => {
                buffer.fill(0);
                buffer.len()
            }
        };
        Some(())
    }
}

/// Returns the content type of what a path names.
pub(crate) fn kind(path: &str) -> &'static str {
    KINDS.iter().find(|(end, _)| path.ends_with(end)).map_or("application/octet-stream", |(_, kind)| kind)
}

/// Decodes a path, in which two digits after a percent sign stand for a byte. Returns `None` if it is wrong.
fn decode(path: &str) -> Option<Vec<u8>> {
    let mut bytes = path.bytes();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let byte = if byte == b'%' { u8::try_from(digit()? * 16 + digit()?).ok()? } else { byte };
        // No name has a zero byte, and the file system does not accept one.
        decoded.push(Some(byte).filter(|&byte| byte != 0)?);
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_digits_after_a_percent_sign_are_a_byte() {
        assert_eq!(decode("/a%20b%C3%bc").as_deref(), Some("/a bü".as_bytes()));
        for wrong in ["/%", "/%4", "/%4g", "/%00"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }
}
