//! Tests of paths with characters that mean something to cargo, the compiler, the linker, QEMU or a shell.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::child::run;
use crate::outside::{OUTSIDE, boot, finish, only_machine, status, text, write_crate};

/// Characters with which every path works.
const SPECIAL: &str = "a b,c{d}e}'f\"g=h\ni\\j;k#l$m@n&o[p]q*r";

/// Returns a folder with a path of more than 300 bytes, which ends with `name`.
fn long_folder(parent: &Path, name: &str) -> PathBuf {
    let folder = parent.join("x".repeat(200)).join("y".repeat(100)).join(name);
    fs::create_dir_all(&folder).expect("made");
    folder
}

/// In the path of the crate's own folder, `%` is allowed, too, because intermediate files are elsewhere.
#[test]
fn crate_in_a_folder_with_special_characters_is_built_and_booted() {
    let parent = tempfile::tempdir().expect("a folder");
    let folder = long_folder(parent.path(), &format!("{SPECIAL}%41"));
    let made = boot().arg("new").arg(folder.join("program")).output().expect("boot runs");
    assert_eq!(status(&made), Some(0), "{}", text(&made.stderr));
    let mut command = boot();
    command.env_remove("CARGO_TARGET_DIR").arg("--smp=1").arg(folder.join("program")).arg("one");
    let output = finish(command);
    assert_eq!(text(&output.stdout), "[\"one\"]: 204\n", "{}", text(&output.stderr));
    assert!(folder.join("program/target/machine").is_dir());
}

#[test]
fn target_folder_may_have_special_characters() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(SPECIAL);
    let mut command = boot();
    command.env("CARGO_TARGET_DIR", &target).arg("--smp=1").arg(OUTSIDE.directory.path()).args(["status", "7"]);
    let output = finish(command);
    assert_eq!(status(&output), Some(7), "{}", text(&output.stderr));
}

#[test]
fn path_that_cannot_be_used_is_named_with_its_character() {
    let parent = tempfile::tempdir().expect("a folder");
    for (name, named) in
        [(&b"a:b"[..], "the character `:`"), (b"a%b", "the character `%`"), (b"a\xffb", "the byte 0xff")]
    {
        let folder = parent.path().join(OsString::from_vec(name.to_vec()));
        let shown = folder.display().to_string();
        let mut target = boot();
        target.env("CARGO_TARGET_DIR", &folder).arg(OUTSIDE.directory.path());
        let mut commands = vec![target];
        if name.contains(&b':') {
            let program = write_crate("unusual-path", "");
            fs::create_dir(&folder).expect("made");
            fs::rename(program.path(), folder.join("program")).expect("moved");
            // Without `CARGO_TARGET_DIR`, the crate's target directory is in the crate's folder.
            let mut own = boot();
            own.env_remove("CARGO_TARGET_DIR").arg(folder.join("program"));
            commands.push(own);
        }
        if name.contains(&0xff) {
            fs::create_dir_all(&folder).expect("made");
            fs::write(folder.join("disk"), "x").expect("written");
            let program = write_crate("unusual-path", "");
            fs::rename(program.path(), folder.join("program")).expect("moved");
            for (words, path) in [(&[][..], "program"), (&["new"], "other"), (&["--disk"], "disk")] {
                let mut command = boot();
                command.args(words).arg(folder.join(path));
                commands.push(command);
            }
        }
        for command in commands {
            let context = format!("{command:?}");
            let output = run(command);
            let said = text(&output.stderr);
            assert_eq!(status(&output), Some(64), "{context}: {said}");
            assert!(said.contains(&shown) && said.contains(named), "{context}: {said}");
        }
        assert!(!folder.join("other").exists());
    }
}

#[test]
fn disks_and_recordings_may_have_special_characters() {
    let parent = tempfile::tempdir().expect("a folder");
    let folder = long_folder(parent.path(), &format!("{SPECIAL}%41:"));
    fs::write(folder.join("disk"), "abc").expect("written");
    for icount in [false, true] {
        let mut command = boot();
        command.arg("--smp=1").args(icount.then_some("--icount"));
        for (option, name) in [("--disk", "disk"), ("--trace", "run"), ("--profile", "waits")] {
            command.arg(option).arg(folder.join(name));
        }
        command.arg("sha256");
        let output = finish(command);
        let said = text(&output.stderr);
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert!(text(&output.stdout).contains(hash) && status(&output) == Some(0), "{said}");
        for name in ["run.json", "run.html", "waits/block.svg"] {
            fs::remove_file(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}: {said}"));
        }
    }
}

/// The path of an ELF file need not be Unicode. The printed command works in a shell.
#[test]
fn printed_command_has_each_byte_of_a_path() {
    let parent = tempfile::tempdir().expect("a folder");
    let folder = long_folder(parent.path(), &format!("{SPECIAL}%41:"));
    let elf = folder.join(OsString::from_vec(b"elf \xff\xfe'\n".to_vec()));
    fs::copy(&OUTSIDE.elf, &elf).expect("copied");
    let mut command = boot();
    command.args(["--smp=1", "--dry-run"]).arg(&elf).args(["status", "7"]);
    let output = run(command);
    let mut printed = Command::new("bash");
    printed.arg("-c").arg(std::ffi::OsStr::from_bytes(&output.stdout));
    printed.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let _machine = only_machine();
    let ended = run(printed);
    // QEMU's status for the status 7 of the program.
    assert_eq!(status(&ended), Some(2 * (7 + 16) + 1), "{}: {}", text(&output.stdout), text(&ended.stderr));
    let mut command = boot();
    command.arg("--smp=1").arg(&elf).args(["status", "7"]);
    let booted = run(command);
    assert_eq!(status(&booted), Some(7), "{}", text(&booted.stderr));
}
