//! The command `boot-profile ELF TITLE DIRECTORY`. Reads a trace with call stacks from standard input, which must be a
//! file, writes the profiles to files in the directory, and prints what it has written.
//!
//! `boot` builds and runs this command for `--profile`. So `boot` itself is built without the libraries that only
//! profiles need.
#![deny(unsafe_code)]

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::ExitCode;

use profile::symbols::Symbols;
use profile::{Profile, Written};
use timeline::memory::Reader;

fn main() -> ExitCode {
    let words: Vec<_> = env::args_os().skip(1).collect();
    let [elf, title, directory] = &words[..] else {
        eprintln!("usage: boot-profile ELF TITLE DIRECTORY < TRACE");
        return ExitCode::from(64);
    };
    match write(Path::new(elf), title, Path::new(directory)) {
        Ok(written) => {
            println!("{written}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(74)
        }
    }
}

fn write(elf: &Path, title: &OsStr, directory: &Path) -> io::Result<Written> {
    let mut reader = Reader::new(File::from(io::stdin().as_fd().try_clone_to_owned()?));
    reader.poll()?;
    let profile = Profile::new(&reader.into_traces());
    profile::write(&profile, &Symbols::new(elf), &title.to_string_lossy(), directory)
}
