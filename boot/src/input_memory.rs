//! The memory through which a machine gets its input at instants of its own clock: see [`boot_protocol::input_memory`].
//! If the input comes from a script, the memory contains all of it before the machine starts. Otherwise the memory is
//! filled while the machine runs, and the input that the machine takes is recorded.

use core::time::Duration;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};

use boot_protocol::input::Kind;
use boot_protocol::input_memory::{AT, DATA, DATA_BYTES, DUE, ENTRY_BYTES, KIND, LENGTH, MAGIC, NEVER};

use crate::Error;
use crate::input_script::{self, Piece};
use crate::memory_file;
use crate::qemu::with_path;
use crate::reserved::Reserved;

/// The size of the memory: a power of two.
const BYTES: u64 = 8 << 20;
/// The number of entries after the header.
const ENTRIES: u64 = BYTES / ENTRY_BYTES as u64 - 1;

/// The interval at which an [`InputRecording`] writes to its file what the machine has taken.
const INTERVAL: Duration = Duration::from_millis(20);

/// The memory from which a machine takes its input.
#[derive(Debug)]
pub struct InputMemory {
    memory: File,
    is_script: bool,
}

impl InputMemory {
    /// Makes the memory for a script, which [`read_script`] has read.
    ///
    /// # Errors
    ///
    /// [`Error::Qemu`] if the file for the memory cannot be made.
    pub fn of_script(script: &[Piece]) -> Result<Self, Error> {
        let memory = memory_file::nameless(BYTES, BYTES).and_then(|memory| fill(&memory, script).map(|()| memory));
        Ok(Self { memory: memory.map_err(|error| cannot(&error))?, is_script: true })
    }

    fn empty() -> io::Result<Self> {
        let memory = memory_file::nameless(BYTES, BYTES)?;
        fill(&memory, &[])?;
        Ok(Self { memory, is_script: false })
    }

    /// Returns the [`Feed`] that fills the memory while the machine runs, or `None` if the memory contains a script.
    pub(crate) fn feed(&self) -> io::Result<Option<Feed>> {
        let feed = || self.memory.try_clone().map(|memory| Feed { memory, next: 0 });
        (!self.is_script).then(feed).transpose()
    }

    /// Returns a file for the memory, and the QEMU arguments for the ivshmem device through which the machine sees this
    /// memory. The arguments name the file's descriptor (`/dev/fd/N`), so QEMU must inherit the file.
    pub(crate) fn device(&self) -> io::Result<(File, [OsString; 4])> {
        let memory = self.memory.try_clone()?;
        let words = device(format!("/dev/fd/{}", memory.as_raw_fd()).as_ref());
        Ok((memory, words))
    }
}

/// Writes the memory for a script to a file beside `program`, for a command that is run by hand. Returns QEMU's
/// arguments for the device.
///
/// # Errors
///
/// [`Error::Qemu`] if the file for the memory cannot be written.
pub fn write_beside(program: &Path, script: &[Piece]) -> Result<[OsString; 4], Error> {
    let path = program.with_extension("input");
    memory_file::named(&path, BYTES, BYTES).and_then(|memory| fill(&memory, script)).map_err(|error| cannot(&error))?;
    Ok(device(&path))
}

/// Reads a script, and checks it. The file is read only once, because it may be a pipe.
///
/// # Errors
///
/// [`Error::Usage`] if the file cannot be read, has a mistake, or is too long.
pub fn read_script(file: &Path) -> Result<Vec<Piece>, Error> {
    let name = file.display();
    let text = fs::read_to_string(file).map_err(|error| Error::Usage(format!("--input-script: {name}: {error}")))?;
    let pieces =
        input_script::parse(&text).map_err(|mistake| Error::Usage(format!("--input-script: {name}:{mistake}")))?;
    let entries: usize = pieces.iter().map(|piece| parts(&piece.bytes).count()).sum();
    if entries as u64 > ENTRIES {
        return Err(Error::Usage(format!(
            "--input-script: {name}: more input than {ENTRIES} pieces of {DATA_BYTES} bytes"
        )));
    }
    Ok(pieces)
}

fn cannot(error: &io::Error) -> Error {
    Error::Qemu(format!("cannot make the memory for the machine's input: {error}"))
}

fn device(memory: &Path) -> [OsString; 4] {
    let backend = with_path(format!("memory-backend-file,id=input,share=on,size={BYTES},mem-path="), memory);
    ["-object".into(), backend, "-device".into(), "ivshmem-plain,memdev=input".into()]
}

/// Writes the header and these pieces into the memory, and marks the other entries as having no content yet.
fn fill(memory: &File, pieces: &[Piece]) -> io::Result<()> {
    memory.write_all_at(&MAGIC.to_le_bytes(), 0)?;
    let mut next = 0;
    for piece in pieces {
        for part in parts(&piece.bytes) {
            write_entry(memory, next, piece.at, piece.kind, part)?;
            next += 1;
        }
    }
    (next..ENTRIES).try_for_each(|entry| write_word(memory, entry, DUE, NEVER))
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
#[derive(Debug)]
pub(crate) struct Feed {
    memory: File,
    next: u64,
}

impl Feed {
    /// Appends input, which the machine takes at its next check.
    ///
    /// # Errors
    ///
    /// If the memory is full, or cannot be written.
    pub(crate) fn append(&mut self, kind: Kind, bytes: &[u8]) -> io::Result<()> {
        for part in parts(bytes) {
            if self.next == ENTRIES {
                return Err(io::Error::other("more input than can be recorded"));
            }
            write_entry(&self.memory, self.next, 0, kind, part)?;
            self.next += 1;
        }
        Ok(())
    }
}

/// Records the input that a machine takes. Each piece is written to the file soon after the machine has taken it.
#[derive(Debug)]
pub struct InputRecording {
    file: PathBuf,
    memory: InputMemory,
    stop: Sender<()>,
    /// The thread returns the file, if the machine has taken input.
    writing: JoinHandle<io::Result<Option<File>>>,
    reserved: Reserved,
}

impl InputRecording {
    /// Makes the memory, checks that the file can be written, and starts the thread that writes the input to the file.
    /// If the file exists, its content is kept until the machine takes input or [`finish`](Self::finish) is called.
    ///
    /// # Errors
    ///
    /// [`Error::Output`] if the file cannot be written. [`Error::Qemu`] if the file for the memory cannot be made.
    pub fn start(file: &Path) -> Result<Self, Error> {
        let mut reserved = Reserved::default();
        reserved.add(file).map_err(|error| cannot_record(file, &error))?;
        let memory = InputMemory::empty().map_err(|error| cannot(&error))?;
        let from = memory.memory.try_clone().map_err(|error| cannot(&error))?;
        let (stop, stopped) = mpsc::channel();
        let name = file.to_owned();
        let writing = thread::spawn(move || {
            let (mut next, mut output) = (0, None);
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                write_taken(&from, &mut next, &name, &mut output)?;
            }
            write_taken(&from, &mut next, &name, &mut output)?;
            Ok(output)
        });
        Ok(Self { file: file.to_owned(), memory, stop, writing, reserved })
    }

    /// Returns the memory from which the machine takes the input.
    #[must_use]
    pub fn memory(&self) -> &InputMemory {
        &self.memory
    }

    /// Writes the rest of the input that the machine has taken. Called when the machine has ended.
    ///
    /// # Errors
    ///
    /// [`Error::Output`] if the file cannot be written.
    pub fn finish(mut self) -> Result<(), Error> {
        // The thread that writes the file ends when the sender of its channel is dropped.
        drop(self.stop);
        let written = self.writing.join().map_err(|_| io::Error::other("the thread that writes it has panicked"));
        // If the machine has taken no input, the file has not been emptied yet.
        let file = written.and_then(|written| written?.map_or_else(|| File::create(&self.file), Ok));
        file.map_err(|error| cannot_record(&self.file, &error))?;
        self.reserved.keep();
        Ok(())
    }
}

fn cannot_record(file: &Path, error: &io::Error) -> Error {
    Error::Output(format!("cannot record the input in {}: {error}", file.display()))
}

/// Appends to `output` the input that the machine has taken. Begins with the entry `next`, and sets `next` to the first
/// entry that the machine has not taken. If `output` is `None`, the first piece empties the file `name`, and `output`
/// becomes this file.
fn write_taken(memory: &File, next: &mut u64, name: &Path, output: &mut Option<File>) -> io::Result<()> {
    while *next < ENTRIES {
        let mut entry = [0; ENTRY_BYTES];
        memory.read_exact_at(&mut entry, offset(*next, 0))?;
        let word = |word: usize| {
            let (words, _) = entry.as_chunks();
            u64::from_le_bytes(words[word])
        };
        let (at, length) = (word(AT), word(LENGTH) as usize);
        if at == 0 {
            break;
        }
        let bytes = entry[DATA * size_of::<u64>()..][..length.min(DATA_BYTES)].to_vec();
        let file = match output {
            Some(file) => file,
            None => output.insert(File::create(name)?),
        };
        let kind = Kind::from_word(word(KIND)).ok_or_else(|| io::Error::other("the machine has changed it"))?;
        writeln!(file, "{}", Piece { at, kind, bytes })?;
        *next += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
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
        let recording = InputRecording::start(&file).expect("started");
        let mut feed = recording.memory().feed().expect("a handle").expect("no script");
        assert_eq!(word(recording.memory(), 0, DUE), NEVER);
        feed.append(Kind::Keys, b"one\n").expect("room");
        feed.append(Kind::Bytes, &[b'x'; DATA_BYTES + 1]).expect("room");
        feed.append(Kind::End, b"").expect("room");
        feed.append(Kind::Bytes, b"not taken").expect("room");
        assert_eq!([0, 2, 4, 5].map(|entry| word(recording.memory(), entry, DUE)), [0, 0, 0, NEVER]);
        for (entry, at) in [(0, 7), (1, 2_000_000_000), (2, 2_000_000_000), (3, 3_000_000_000)] {
            take(recording.memory(), entry, at);
        }
        recording.finish().expect("written");
        let long = "x".repeat(DATA_BYTES);
        let expected =
            format!("0.000000007 keys \"one\\n\"\n2.000000000 \"{long}\"\n2.000000000 \"x\"\n3.000000000 end\n");
        assert_eq!(fs::read_to_string(&file).expect("a file"), expected);
        // If the recording is used as a script, each piece is due at the time at which it was taken.
        let script = InputMemory::of_script(&read_script(&file).expect("no mistake")).expect("memory");
        assert!(script.feed().expect("no error").is_none());
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
        drop(InputRecording::start(&file).expect("started"));
        assert_eq!(fs::read_to_string(&file).expect("a file"), "1 end\n");
        InputRecording::start(&file).expect("started").finish().expect("written");
        assert_eq!(fs::read_to_string(&file).expect("a file"), "");
    }

    #[test]
    fn input_beyond_the_memory_is_refused() {
        let memory = InputMemory::empty().expect("memory");
        let mut feed = memory.feed().expect("a handle").expect("no script");
        feed.append(Kind::Bytes, &vec![b'x'; ENTRIES as usize * DATA_BYTES]).expect("room");
        assert!(feed.append(Kind::Bytes, b"x").is_err());
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("input");
        fs::write(&file, "1 \"x\"\n".repeat(ENTRIES as usize + 1)).expect("written");
        let error = read_script(&file).expect_err("too long").to_string();
        assert!(error.contains("more input than"), "{error}");
        fs::write(&file, "1 \"x\"\n1 x").expect("written");
        let error = read_script(&file).expect_err("a mistake").to_string();
        assert!(error.ends_with("input:2:3: expected a text in quotes, `keys`, `end` or `fails`"), "{error}");
    }
}
