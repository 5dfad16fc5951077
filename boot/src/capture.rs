//! The file to which the frames of the network are written (`--pcap`).
//!
//! QEMU writes the frames to a pipe, and a thread of this process copies them to the file. If QEMU wrote to the file
//! itself, and the file could not be written, QEMU would only print a message, and end with the status of the program.

use std::fs::File;
use std::io::{self, PipeReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use crate::Error;
use crate::reserved::Reserved;

/// The frames that are being written to a file.
#[derive(Debug)]
pub struct Capture {
    file: PathBuf,
    /// Removes the file if it did not exist before and no bytes have arrived.
    _reserved: Reserved,
    copying: JoinHandle<io::Result<()>>,
}

impl Capture {
    /// Checks that the file can be written, and makes the pipe. If the file exists, its content is kept until the first
    /// bytes arrive. Also returns QEMU's end of the pipe.
    ///
    /// # Errors
    ///
    /// [`Error::Output`] if the file cannot be written. [`Error::Qemu`] if the pipe cannot be made.
    pub(crate) fn start(file: &Path) -> Result<(Self, File), Error> {
        let mut reserved = Reserved::default();
        reserved.add(file).map_err(|error| cannot(file, &error))?;
        let (frames, end) =
            io::pipe().map_err(|error| Error::Qemu(format!("cannot make the pipe for --pcap: {error}")))?;
        let name = file.to_owned();
        let copying = thread::spawn(move || {
            let mut frames = frames;
            let copied = copy(&mut frames, &name);
            if copied.is_err() {
                // The other frames are read and dropped. Otherwise the pipe would become full, and QEMU and the machine
                // would wait for ever.
                io::copy(&mut frames, &mut io::sink())?;
            }
            copied
        });
        Ok((Self { file: file.to_owned(), _reserved: reserved, copying }, OwnedFd::from(end).into()))
    }

    /// Waits until all frames have been written. Called when QEMU has ended.
    ///
    /// # Errors
    ///
    /// [`Error::Output`] if the file cannot be written.
    pub fn finish(self) -> Result<(), Error> {
        let copied = self.copying.join().map_err(|_| io::Error::other("the thread that writes them has panicked"));
        copied.flatten().map_err(|error| cannot(&self.file, &error))?;
        Ok(())
    }
}

fn cannot(file: &Path, error: &io::Error) -> Error {
    Error::Output(format!("cannot write the frames to {}: {error}", file.display()))
}

/// Copies all frames to the file. The old content of the file is kept until the first bytes arrive.
fn copy(frames: &mut PipeReader, file: &Path) -> io::Result<()> {
    let mut first = [0; 4096];
    let count = frames.read(&mut first)?;
    if count == 0 {
        return Ok(());
    }
    let mut file = File::options().write(true).truncate(true).open(file)?;
    file.write_all(&first[..count])?;
    io::copy(frames, &mut file).map(drop)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn frames_replace_the_content_once_there_are_any() {
        let folder = tempfile::tempdir().expect("a folder");
        let [old, new] = ["old", "new"].map(|name| folder.path().join(name));
        for (frames, [kept, made]) in [("", [Some("content"), None]), ("frames", [Some("frames"); 2])] {
            fs::write(&old, "content").expect("written");
            for (file, expected) in [(&old, kept), (&new, made)] {
                let (capture, mut end) = Capture::start(file).expect("a file");
                end.write_all(frames.as_bytes()).expect("the pipe has room");
                drop(end);
                assert_eq!(capture.finish(), Ok(()));
                assert_eq!(fs::read_to_string(file).ok().as_deref(), expected, "{frames:?}");
            }
        }
    }

    /// There are more frames than the pipe has room for, so the write returns only if the frames are still read.
    #[test]
    fn file_without_room_is_an_error_and_does_not_stop_the_machine() {
        let (capture, mut end) = Capture::start("/dev/full".as_ref()).expect("a file");
        end.write_all(&vec![7; 1 << 20]).expect("the frames are dropped");
        drop(end);
        let error = capture.finish().expect_err("no room");
        assert_eq!(error.status(), 74);
        assert!(error.to_string().starts_with("cannot write the frames to /dev/full: No space left"), "{error}");
    }
}
