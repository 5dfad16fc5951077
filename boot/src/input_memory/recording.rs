//! The file to which the input of a machine is recorded.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use boot_protocol::input::Kind;
use boot_protocol::input_memory::{AT, DATA, DATA_BYTES, ENTRY_BYTES, KIND, LENGTH};

use super::{InputMemory, cannot, offset};
use crate::Error;
use crate::input_script::Piece;
use crate::reserved::Reserved;

/// Records the input that a machine takes.
#[derive(Debug)]
pub struct InputRecording {
    file: PathBuf,
    memory: InputMemory,
    reserved: Reserved,
}

impl InputRecording {
    /// Makes the memory, and checks that the file can be written. If the file exists, its content is kept until
    /// [`finish`](Self::finish) is called.
    ///
    /// # Errors
    ///
    /// [`Error::Output`] if the file cannot be written. [`Error::Qemu`] if the file for the memory cannot be made.
    pub fn start(file: &Path, has_network: bool) -> Result<Self, Error> {
        let mut reserved = Reserved::default();
        reserved.add(file).map_err(|error| cannot_record(file, &error))?;
        let memory = InputMemory::empty(has_network).map_err(|error| cannot(&error))?;
        Ok(Self { file: file.to_owned(), memory, reserved })
    }

    /// Returns the memory from which the machine takes the input.
    #[must_use]
    pub fn memory(&self) -> &InputMemory {
        &self.memory
    }

    /// Writes the input that the machine has taken. Called when the machine has ended.
    ///
    /// # Errors
    ///
    /// [`Error::Output`] if the file cannot be written.
    pub fn finish(mut self) -> Result<(), Error> {
        let lines =
            taken(&self.memory).map(|pieces| pieces.iter().map(|piece| format!("{piece}\n")).collect::<String>());
        let written = lines.and_then(|lines| fs::write(&self.file, lines));
        written.map_err(|error| cannot_record(&self.file, &error))?;
        self.reserved.keep();
        Ok(())
    }
}

fn cannot_record(file: &Path, error: &io::Error) -> Error {
    Error::Output(format!("cannot record the input in {}: {error}", file.display()))
}

/// Returns the pieces that the machine has taken from the memory, with the instants at which it has taken them.
fn taken(memory: &InputMemory) -> io::Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    for index in 0..memory.size.entries {
        let mut entry = [0; ENTRY_BYTES];
        memory.memory.read_exact_at(&mut entry, offset(index, 0))?;
        let word = |word: usize| {
            let (words, _) = entry.as_chunks();
            u64::from_le_bytes(words[word])
        };
        let (at, length) = (word(AT), word(LENGTH) as usize);
        if at == 0 {
            break;
        }
        let kind = Kind::from_word(word(KIND)).ok_or_else(|| io::Error::other("the machine has overwritten it"))?;
        let bytes = entry[DATA * size_of::<u64>()..][..length.min(DATA_BYTES)].to_vec();
        pieces.push(Piece { at, kind, bytes });
    }
    Ok(pieces)
}
