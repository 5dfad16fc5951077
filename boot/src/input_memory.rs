//! The memory through which a machine gets its input at instants of its own clock: see [`boot_protocol::input_memory`].
//! If the input comes from a script, the memory contains all of it before the machine starts. Otherwise the memory is
//! filled while the machine runs, and the input that the machine takes is recorded. If the machine has a network,
//! frames are input, too, and the memory also has the frames that the machine sends.

mod recording;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use boot_protocol::input::Kind;
use boot_protocol::input_memory::{AT_ONCE, DATA, DATA_BYTES, DUE, ENTRY_BYTES, KIND, LENGTH, MAGIC, SENT};

use crate::Error;
use crate::input_script::{self, Piece};
use crate::memory_file;
use crate::wire;

pub use self::recording::InputRecording;

/// The memory for the input of a console. Its size is a power of two.
const CONSOLE: Size = Size { bytes: 8 << 20, entries: (8 << 20) / ENTRY_BYTES as u64 - 1, has_network: false };
/// The memory for the input of a console and of a network. The second half of it is for the frames that the machine
/// sends.
const NETWORK: Size = Size { bytes: 64 << 20, entries: (32 << 20) / ENTRY_BYTES as u64 - 1, has_network: true };

/// The size of a memory.
#[derive(Clone, Copy, Debug)]
struct Size {
    bytes: u64,
    /// The number of entries for input.
    entries: u64,
    has_network: bool,
}

impl Size {
    fn new(has_network: bool) -> Self {
        if has_network { NETWORK } else { CONSOLE }
    }
}

/// The memory from which a machine takes its input.
#[derive(Debug)]
pub struct InputMemory {
    memory: File,
    size: Size,
    /// What fills the memory while the machine runs. `None` if the memory contains a script.
    feed: Option<Feed>,
}

impl InputMemory {
    /// Makes the memory for a script, which [`read_script`] has read.
    ///
    /// # Errors
    ///
    /// [`Error::Qemu`] if the file for the memory cannot be made.
    pub fn of_script(script: &[Piece], has_network: bool) -> Result<Self, Error> {
        let size = Size::new(has_network);
        let memory = memory_file::nameless(size.bytes, size.bytes);
        let memory = memory.and_then(|memory| fill(&memory, size, script).map(|()| memory));
        Ok(Self { memory: memory.map_err(|error| cannot(&error))?, size, feed: None })
    }

    fn empty(has_network: bool) -> io::Result<Self> {
        let size = Size::new(has_network);
        let memory = memory_file::nameless(size.bytes, size.bytes)?;
        fill(&memory, size, &[])?;
        let feed = Feed { memory: Arc::new(memory.try_clone()?), size, next: Arc::default() };
        Ok(Self { memory, size, feed: Some(feed) })
    }

    /// Returns the [`Feed`] that fills the memory while the machine runs, or `None` if the memory contains a script.
    pub(crate) fn feed(&self) -> Option<Feed> {
        self.feed.clone()
    }

    /// Returns a reader of the frames that the machine sends, or `None` if it has no network.
    pub(crate) fn sent(&self) -> Option<io::Result<Sent>> {
        let sent = || Ok(Sent { memory: self.memory.try_clone()?, next: self.size.entries });
        self.size.has_network.then(sent)
    }

    /// Returns a file for the memory, and the QEMU arguments for the ivshmem device through which the machine sees this
    /// memory. The arguments name the file's descriptor (`/dev/fd/N`), so QEMU must inherit the file.
    pub(crate) fn device(&self) -> io::Result<(File, [OsString; 4])> {
        let memory = self.memory.try_clone()?;
        let words = memory_file::device("input", self.size.bytes, &memory_file::inherited(&memory));
        Ok((memory, words))
    }
}

/// Writes the memory for a script to a file beside `program`, for a command that is run by hand. Returns QEMU's
/// arguments for the device.
///
/// # Errors
///
/// [`Error::Qemu`] if the file for the memory cannot be written.
pub fn write_beside(program: &Path, script: &[Piece], has_network: bool) -> Result<Vec<OsString>, Error> {
    let (path, size) = (program.with_extension("input"), Size::new(has_network));
    let memory = memory_file::named(&path, size.bytes, size.bytes);
    memory.and_then(|memory| fill(&memory, size, script)).map_err(|error| cannot(&error))?;
    let pace = has_network.then(|| wire::pace_device("null"));
    Ok(memory_file::device("input", size.bytes, &path).into_iter().chain(pace.into_iter().flatten()).collect())
}

/// Reads a script, and checks it. The file is read only once, because it may be a pipe.
///
/// # Errors
///
/// [`Error::Usage`] if the file cannot be read, has a mistake, or is too long.
pub fn read_script(file: &Path, has_network: bool) -> Result<Vec<Piece>, Error> {
    let name = file.display();
    let text = fs::read_to_string(file).map_err(|error| Error::Usage(format!("--input-script: {name}: {error}")))?;
    let pieces =
        input_script::parse(&text).map_err(|mistake| Error::Usage(format!("--input-script: {name}:{mistake}")))?;
    let entries: usize = pieces.iter().map(|piece| parts(&piece.bytes).count()).sum();
    let room = Size::new(has_network).entries;
    if entries as u64 > room {
        return Err(Error::Usage(format!(
            "--input-script: {name}: more input than {room} pieces of {DATA_BYTES} bytes"
        )));
    }
    if !has_network && pieces.iter().any(|piece| piece.kind == Kind::Frame) {
        return Err(Error::Usage(format!(
            "--input-script: {name}: it has frames, so the machine needs a network: add --net, --port or --tap as in \
             the recorded run"
        )));
    }
    Ok(pieces)
}

fn cannot(error: &io::Error) -> Error {
    Error::Qemu(format!("cannot make the memory for the machine's input: {error}"))
}

/// Writes the header and `pieces` into a memory that is all zeros. The other entries stay zero, which means that they
/// have no content yet.
fn fill(memory: &File, size: Size, pieces: &[Piece]) -> io::Result<()> {
    memory.write_all_at(&MAGIC.to_le_bytes(), 0)?;
    let first_sent = if size.has_network { size.entries + 1 } else { 0 };
    memory.write_all_at(&first_sent.to_le_bytes(), (SENT * size_of::<u64>()) as u64)?;
    let entries = pieces.iter().flat_map(|piece| parts(&piece.bytes).map(move |part| (piece, part)));
    (0..)
        .zip(entries)
        .try_for_each(|(entry, (piece, part))| write_entry(memory, entry, piece.at.max(AT_ONCE), piece.kind, part))
}

/// Divides the bytes of a piece into the data of entries. A piece without bytes has one entry.
fn parts(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.chunks(DATA_BYTES).chain(bytes.is_empty().then_some(bytes))
}

fn offset(entry: u64, word: usize) -> u64 {
    (entry + 1) * ENTRY_BYTES as u64 + (word * size_of::<u64>()) as u64
}

fn write_word(memory: &File, entry: u64, word: usize, value: u64) -> io::Result<()> {
    memory.write_all_at(&value.to_le_bytes(), offset(entry, word))
}

/// Writes an entry. The time is written last, because the machine may take the entry as soon as the time is set.
fn write_entry(memory: &File, entry: u64, due: u64, kind: Kind, data: &[u8]) -> io::Result<()> {
    memory.write_all_at(data, offset(entry, DATA))?;
    write_word(memory, entry, LENGTH, data.len() as u64)?;
    write_word(memory, entry, KIND, kind as u64)?;
    write_word(memory, entry, DUE, due)
}

/// Fills the memory while the machine runs.
#[derive(Clone, Debug)]
pub(crate) struct Feed {
    memory: Arc<File>,
    size: Size,
    next: Arc<Mutex<u64>>,
}

impl Feed {
    /// Appends input, which the machine takes at its next check.
    ///
    /// # Errors
    ///
    /// If the memory is full, or cannot be written.
    pub(crate) fn append(&self, kind: Kind, bytes: &[u8]) -> io::Result<()> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        for part in parts(bytes) {
            if *next == self.size.entries {
                return Err(io::Error::other("more input than can be recorded"));
            }
            write_entry(&self.memory, *next, AT_ONCE, kind, part)?;
            *next += 1;
        }
        Ok(())
    }
}

/// Reads the frames that the machine sends.
#[derive(Debug)]
pub(crate) struct Sent {
    memory: File,
    next: u64,
}

impl Sent {
    /// Returns the next frame. Returns `None` if the machine has sent no further frame, or if the memory had no room for
    /// the frame.
    ///
    /// # Errors
    ///
    /// If the memory cannot be read.
    pub(crate) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        if offset(self.next, 0) == NETWORK.bytes {
            return Ok(None);
        }
        let mut length = [0; size_of::<u64>()];
        self.memory.read_exact_at(&mut length, offset(self.next, LENGTH))?;
        let length = u64::from_le_bytes(length) as usize;
        if length == 0 {
            return Ok(None);
        }
        let mut frame = vec![0; length.min(DATA_BYTES)];
        self.memory.read_exact_at(&mut frame, offset(self.next, DATA))?;
        self.next += 1;
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use boot_protocol::input_memory::{AT, NEVER};

    use super::*;

    /// Does what the machine does when it takes an entry at the time `at`.
    fn take(memory: &InputMemory, entry: u64, at: u64) {
        write_word(&memory.memory, entry, AT, at).expect("written");
    }

    fn word(memory: &InputMemory, entry: u64, word: usize) -> u64 {
        let mut bytes = [0; 8];
        memory.memory.read_exact_at(&mut bytes, offset(entry, word)).expect("read");
        u64::from_le_bytes(bytes)
    }

    #[test]
    fn what_the_machine_takes_is_recorded_with_its_instant() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("input");
        let recording = InputRecording::start(&file, true).expect("started");
        let feed = recording.memory().feed().expect("no script");
        assert_eq!(word(recording.memory(), 0, DUE), NEVER);
        feed.append(Kind::Keys, b"one\n").expect("room");
        feed.append(Kind::Bytes, &[b'x'; DATA_BYTES + 1]).expect("room");
        feed.append(Kind::End, b"").expect("room");
        feed.append(Kind::Bytes, b"not taken").expect("room");
        assert_eq!([0, 2, 4, 5].map(|entry| word(recording.memory(), entry, DUE)), [1, 1, 1, NEVER]);
        for (entry, at) in [(0, 7), (1, 2_000_000_000), (2, 2_000_000_000), (3, 3_000_000_000)] {
            take(recording.memory(), entry, at);
        }
        recording.finish().expect("written");
        let long = "x".repeat(DATA_BYTES);
        let expected =
            format!("0.000000007 keys \"one\\n\"\n2.000000000 \"{long}\"\n2.000000000 \"x\"\n3.000000000 end\n");
        assert_eq!(fs::read_to_string(&file).expect("a file"), expected);
        // If the recording is used as a script, each piece is due at the time at which it was taken.
        let script = InputMemory::of_script(&read_script(&file, false).expect("no mistake"), false).expect("memory");
        assert!(script.feed().is_none());
        let times = [0, 1, 2, 3, 4].map(|entry| word(&script, entry, DUE));
        assert_eq!(times, [7, 2_000_000_000, 2_000_000_000, 3_000_000_000, NEVER]);
        let kinds = [0, 1, 2, 3].map(|entry| Kind::from_word(word(&script, entry, KIND)));
        assert_eq!(kinds, [Kind::Keys, Kind::Bytes, Kind::Bytes, Kind::End].map(Some));
        assert_eq!((word(&script, 0, LENGTH), word(&script, 0, DATA)), (4, u64::from_le_bytes(*b"one\n\0\0\0\0")));
    }

    #[test]
    fn earlier_recording_is_kept_until_the_machine_has_run() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("input");
        fs::write(&file, "1 end\n").expect("written");
        drop(InputRecording::start(&file, false).expect("started"));
        assert_eq!(fs::read_to_string(&file).expect("a file"), "1 end\n");
        InputRecording::start(&file, false).expect("started").finish().expect("written");
        assert_eq!(fs::read_to_string(&file).expect("a file"), "");
    }

    #[test]
    fn input_beyond_the_memory_is_refused() {
        let memory = InputMemory::empty(false).expect("memory");
        let feed = memory.feed().expect("no script");
        feed.append(Kind::Bytes, &vec![b'x'; CONSOLE.entries as usize * DATA_BYTES]).expect("room");
        assert!(feed.append(Kind::Bytes, b"x").is_err());
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("input");
        fs::write(&file, "1 \"x\"\n".repeat(CONSOLE.entries as usize + 1)).expect("written");
        let error = read_script(&file, false).expect_err("too long").to_string();
        assert!(error.contains("more input than"), "{error}");
        fs::write(&file, "1 \"x\"\n1 x").expect("written");
        let error = read_script(&file, false).expect_err("a mistake").to_string();
        assert!(error.ends_with("input:2:3: expected a text in quotes, `keys`, `frame`, `end` or `fails`"), "{error}");
        fs::write(&file, "1 frame \"x\"").expect("written");
        assert!(read_script(&file, true).is_ok());
        let error = read_script(&file, false).expect_err("no network").to_string();
        assert!(error.contains("it has frames, so the machine needs a network"), "{error}");
    }

    #[test]
    fn frames_that_the_machine_sends_are_read_in_order() {
        let memory = InputMemory::empty(true).expect("memory");
        let mut sent = memory.sent().expect("a network").expect("a handle");
        assert_eq!(sent.next().expect("read"), None);
        for (entry, frame) in [(NETWORK.entries, &b"one"[..]), (NETWORK.entries + 1, b"two!")] {
            write_entry(&memory.memory, entry, 0, Kind::Frame, frame).expect("written");
        }
        assert_eq!([(); 3].map(|()| sent.next().expect("read")), [Some(b"one".to_vec()), Some(b"two!".to_vec()), None]);
        sent.next = NETWORK.entries * 2 + 1;
        assert_eq!(sent.next().expect("the end of the memory"), None);
    }
}
