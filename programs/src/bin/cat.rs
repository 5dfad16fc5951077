//! Prints files of a disk with a file system (ext2, ext3 or ext4): `cargo run -- --disk IMAGE cat PATH...`.
//!
//! Each file is read by a G of its own, which sends chunks over a channel. A G reads only a few chunks ahead of what
//! has been printed, and the number of these Gs is bounded, too. So the memory in use does not depend on the lengths of
//! the files. The main G receives and prints the chunks, file after file.

#![no_std]
#![cfg_attr(not(test), no_main)]

extern crate alloc;

use alloc::collections::VecDeque;
use core::fmt;

use ext4_view::{Ext4Error, File};
use kernel::console::write;
use kernel::disk::Disk;
use kernel::prelude::*;
use programs::{MountError, mount, only_disk};

kernel::main!(main);

/// The size of a chunk in bytes.
const CHUNK: usize = 64 * 1024;
/// The number of chunks that fit into the channel between the G that reads a file and the main G.
const CHUNKS_AHEAD: usize = 4;
/// The maximum number of files that are being read at the same time.
const FILES_AHEAD: usize = 8;

fn main(paths: &[&str]) -> i32 {
    let (false, Some(disk)) = (paths.is_empty(), only_disk()) else {
        eprintln!("usage: cargo run -- --disk IMAGE cat PATH...");
        return 1;
    };
    // If there is no file system, this is reported once, and not for each path.
    if let Err(error) = mount(disk) {
        eprintln!("cat: {}: {error}", disk.name());
        return 1;
    }
    let mut status = 0;
    let mut paths = paths.iter();
    let mut files: VecDeque<_> = paths.by_ref().take(FILES_AHEAD).map(|path| Reading::start(disk, path)).collect();
    while let Some(file) = files.pop_front() {
        if let Err(failure) = file.print() {
            eprintln!("cat: {failure}");
            status = 1;
        }
        files.extend(paths.next().map(|path| Reading::start(disk, path)));
    }
    status
}

/// A file that a G is reading.
struct Reading {
    path: String,
    chunks: Receiver<Vec<u8>>,
    reader: JoinHandle<Result<(), ReadError>>,
}

impl Reading {
    fn start(disk: &'static Disk, path: &str) -> Self {
        let (sender, chunks) = channel(CHUNKS_AHEAD);
        let own_path = path.to_owned();
        Self { path: path.to_owned(), chunks, reader: go(move || read(disk, &own_path, &sender)) }
    }

    /// Prints the file. If the file cannot be read to its end, prints the part before the error, and returns a message.
    fn print(self) -> Result<(), String> {
        for chunk in &self.chunks {
            write(&chunk);
        }
        match self.reader.join() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(format!("{}: {error}", self.path)),
            Err(error) => Err(format!("{}: {error}", self.path)),
        }
    }
}

/// Reads a file and sends its chunks.
fn read(disk: &'static Disk, path: &str, chunks: &Sender<Vec<u8>>) -> Result<(), ReadError> {
    let mut file = mount(disk)?.open(path)?;
    loop {
        let mut chunk = Vec::new();
        chunk.try_reserve_exact(CHUNK).map_err(|_| ReadError::OutOfMemory)?;
        chunk.resize(CHUNK, 0);
        let (length, end) = fill(&mut file, &mut chunk);
        chunk.truncate(length);
        if length == 0 || chunks.send(chunk).is_err() {
            return Ok(end?);
        }
        end?;
    }
}

/// Fills `chunk` with the next bytes of the file, until the chunk is full, the file ends or an error occurs. Returns
/// how many bytes were read, and the error, if there was one.
fn fill(file: &mut File, chunk: &mut [u8]) -> (usize, Result<(), Ext4Error>) {
    let mut length = 0;
    loop {
        match file.read_bytes(&mut chunk[length..]) {
            Ok(0) => return (length, Ok(())),
            Ok(count) => length += count,
            Err(error) => return (length, Err(error)),
        }
    }
}

/// Why a file could not be read.
#[derive(Debug)]
enum ReadError {
    Mount(MountError),
    File(Ext4Error),
    OutOfMemory,
}

impl From<MountError> for ReadError {
    fn from(error: MountError) -> Self {
        Self::Mount(error)
    }
}

impl From<Ext4Error> for ReadError {
    fn from(error: Ext4Error) -> Self {
        Self::File(error)
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mount(error) => error.fmt(f),
            Self::File(error) => error.fmt(f),
            Self::OutOfMemory => f.write_str("out of memory"),
        }
    }
}
