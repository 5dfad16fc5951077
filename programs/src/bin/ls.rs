//! Lists directories of a disk with a file system (ext2, ext3 or ext4): `cargo run -- --disk IMAGE ls [-l] [PATH]...`.
//!
//! Prints all names in a directory except `.` and `..`, also those that begin with a period, in the order of their
//! bytes. With `-l` each name is preceded by the type and permissions of the file, its owner, its group and its length.
//! Without a path, lists the root directory. Like `ls`, this program lists a symbolic link itself if `-l` is given or
//! if the target of the link is not a directory. If `-l` is not given and the target is a directory, the program lists
//! the contents of the target.

#![no_std]
#![cfg_attr(not(test), no_main)]

use core::fmt;

use ext4_view::{DirEntry, Ext4, Ext4Error, FileType, Metadata, PathBuf};
use kernel::prelude::*;
use programs::{mount, only_disk};

kernel::main!(main);

fn main(args: &[&str]) -> i32 {
    let (is_long, paths) = match args {
        ["-l", paths @ ..] => (true, paths),
        paths => (false, paths),
    };
    let is_wrong = paths.iter().any(|path| path.starts_with('-'));
    let (false, Some(disk)) = (is_wrong, only_disk()) else {
        eprintln!("usage: cargo run -- --disk IMAGE ls [-l] [PATH]...");
        return 1;
    };
    let files = match mount(disk) {
        Ok(files) => files,
        Err(error) => {
            eprintln!("ls: {}: {error}", disk.name());
            return 1;
        }
    };
    let paths = if paths.is_empty() { &["/"] } else { paths };
    let mut status = 0;
    for (index, &path) in paths.iter().enumerate() {
        match list(&files, path, is_long) {
            Ok(lines) if paths.len() == 1 || !lines.is_directory => print!("{}", lines.text),
            Ok(lines) => print!("{}{path}:\n{}", if index == 0 { "" } else { "\n" }, lines.text),
            Err(error) => {
                eprintln!("ls: {path}: {error}");
                status = 1;
            }
        }
    }
    status
}

/// The output for one path.
struct Lines {
    is_directory: bool,
    text: String,
}

/// Returns true if the contents of the directory at `path` are to be listed, and false if the file at `path` itself is
/// to be listed.
fn is_listed_directory(files: &Ext4, path: &str, is_long: bool) -> Result<bool, Ext4Error> {
    let file = files.symlink_metadata(path)?;
    if is_long || !file.is_symlink() {
        return Ok(file.is_dir());
    }
    match files.metadata(path) {
        Ok(target) => Ok(target.is_dir()),
        // The link leads to no file, or there are too many links on the way.
        Err(Ext4Error::NotFound | Ext4Error::TooManySymlinks) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Lists the contents of a directory, or a single file.
fn list(files: &Ext4, path: &str, is_long: bool) -> Result<Lines, Ext4Error> {
    if !is_listed_directory(files, path, is_long)? {
        let file = PathBuf::try_from(path).map_err(|_| Ext4Error::MalformedPath)?;
        return Ok(Lines { is_directory: false, text: line(files, &file, &path, is_long)? });
    }
    let mut entries = files.read_dir(path)?.collect::<Result<Vec<DirEntry>, _>>()?;
    entries.retain(|entry| ![&b"."[..], b".."].contains(&entry.file_name().as_ref()));
    entries.sort_by(|one, other| one.file_name().as_ref().cmp(other.file_name().as_ref()));
    let lines = entries.iter().map(|entry| line(files, &entry.path(), &entry.file_name().display(), is_long));
    Ok(Lines { is_directory: true, text: lines.collect::<Result<_, _>>()? })
}

/// Returns the output line for the file at `path`. The line shows the file as `name`.
fn line(files: &Ext4, path: &PathBuf, name: &dyn fmt::Display, is_long: bool) -> Result<String, Ext4Error> {
    if !is_long {
        return Ok(format!("{name}\n"));
    }
    let metadata = files.symlink_metadata(path)?;
    let target =
        if metadata.is_symlink() { format!(" -> {}", files.read_link(path)?.display()) } else { String::new() };
    let (mode, owner, group, length) = (Mode(&metadata), metadata.uid(), metadata.gid(), metadata.len());
    Ok(format!("{mode} {owner:>5} {group:>5} {length:>12} {name}{target}\n"))
}

/// The type and the permissions of a file, in the form of `ls -l`.
struct Mode<'a>(&'a Metadata);

impl fmt::Display for Mode<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = self.0.mode();
        f.write_str(match self.0.file_type() {
            FileType::BlockDevice => "b",
            FileType::CharacterDevice => "c",
            FileType::Directory => "d",
            FileType::Fifo => "p",
            FileType::Socket => "s",
            FileType::Symlink => "l",
            FileType::Regular => "-",
        })?;
        // Owner, group and others have three bits each. A special bit (set-user-ID, set-group-ID, sticky) changes the
        // letter of the execute bit.
        for (shift, special, letters) in [(6, 0o4000, ["S", "s"]), (3, 0o2000, ["S", "s"]), (0, 0o1000, ["T", "t"])] {
            let has = |bit: u16| mode & (bit << shift) != 0;
            f.write_str(if has(4) { "r" } else { "-" })?;
            f.write_str(if has(2) { "w" } else { "-" })?;
            let letters = if mode & special != 0 { letters } else { ["-", "x"] };
            f.write_str(letters[usize::from(has(1))])?;
        }
        Ok(())
    }
}
