//! Writes a disk image from which a computer with BIOS or UEFI boots a program. The image contains the ELF file that
//! `boot` builds, the command line of the kernel, and the rust-osdev bootloader.
//!
//! `boot` calls cargo to compile this program, and then runs this program. The program is a crate of its own, because
//! its build needs more than the build of `boot`. The dependency `bootloader` compiles the stages of the bootloader,
//! and for that it needs the source code of Rust's standard library and unstable features of the compiler.
#![forbid(unsafe_code)]

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bootloader::{BootConfig, DiskImageBuilder};

/// The name under which the bootloader looks for the ramdisk. The kernel's command line is the content of the ramdisk.
const RAMDISK: &str = "ramdisk";

/// The bootloader prints only errors, on the screen and on the serial port.
const LOG_LEVEL: bootloader_boot_config::LevelFilter = bootloader_boot_config::LevelFilter::Error;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    let [firmware, program, command_line, image] = &*arguments else {
        eprintln!("usage: image bios|uefi PROGRAM COMMAND_LINE IMAGE");
        return ExitCode::from(64);
    };
    let mut config = BootConfig::default();
    config.log_level = LOG_LEVEL;
    let mut builder = DiskImageBuilder::new(PathBuf::from(program));
    builder.set_file_contents(RAMDISK.to_owned(), command_line.as_encoded_bytes().to_vec());
    builder.set_boot_config(&config);
    let image = Path::new(image);
    let written = match firmware.to_str() {
        Some("bios") => builder.create_bios_image(image),
        Some("uefi") => builder.create_uefi_image(image),
        _ => {
            eprintln!("image: unknown firmware `{}`", firmware.display());
            return ExitCode::from(64);
        }
    };
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("image: {error:#}");
            ExitCode::FAILURE
        }
    }
}
