//! The disks of a machine, and the commands that run a program with them.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Output};

use boot::qemu::Firmware;
use boot_protocol::report::Report;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

/// Files that are used as disks, in a temporary directory.
pub(crate) struct Disks {
    pub(crate) folder: TempDir,
    /// The name of each file, and its content.
    pub(crate) files: Vec<(String, Vec<u8>)>,
    firmware: Firmware,
}

impl Disks {
    /// Makes disks with random contents of these lengths, for a machine with this firmware.
    pub(crate) fn new(firmware: Firmware, files: impl IntoIterator<Item = (&'static str, usize)>) -> Self {
        let folder = tempfile::tempdir().expect("a folder for files");
        // Random bytes, so that all sectors differ.
        let mut random = fastrand::Rng::with_seed(0);
        let mut content = |length| {
            let mut bytes = vec![0; length];
            random.fill(&mut bytes);
            bytes
        };
        let files: Vec<_> =
            files.into_iter().map(|(name, length)| (format!("{name}{length}"), content(length))).collect();
        for (name, content) in &files {
            fs::write(folder.path().join(name), content).expect("room for a file");
        }
        Self { folder, files, firmware }
    }

    /// Runs `program` with these disks.
    pub(crate) fn boot(&self, options: &[&str], program: &[&str]) -> Output {
        self.command(options, program).output().expect("boot runs")
    }

    /// Returns the command that runs `program` with these disks. The program is built with full optimisation.
    pub(crate) fn command(&self, options: &[&str], program: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_boot-for-tests"));
        let seconds = if self.firmware == Firmware::Pvh { "60" } else { "180" };
        command.args(["--release", "--timeout", seconds, "--firmware", self.firmware.name()]);
        command.args(self.files.iter().flat_map(|(name, _)| ["--disk", name])).args(options).args(program);
        command.current_dir(self.folder.path());
        command
    }

    /// Returns the output that `sha256sum` would print for these files. The program `sha256` must print the same.
    pub(crate) fn expected(&self) -> String {
        self.files.iter().fold(String::new(), |mut lines, (name, content)| {
            let escaped = name.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r");
            lines.push_str(if escaped == *name { "" } else { "\\" });
            for byte in Sha256::digest(content) {
                write!(lines, "{byte:02x}").expect("strings take everything");
            }
            writeln!(lines, "  {escaped}").expect("strings take everything");
            lines
        })
    }

    /// Runs a guest test with these disks, and checks that it passes.
    pub(crate) fn check_guest(&self, test: &str, options: &[&str]) {
        let output = self.boot(options, &[concat!(env!("CARGO_MANIFEST_DIR"), "/guest"), test]);
        let passed = stdout(&output).lines().any(|line| Report::parse(line) == Some(Report::Passed(test)));
        assert!(passed, "{}\n{}", stdout(&output), stderr(&output));
    }
}

pub(crate) fn stdout(output: &Output) -> Cow<'_, str> {
    String::from_utf8_lossy(&output.stdout)
}

pub(crate) fn stderr(output: &Output) -> Cow<'_, str> {
    String::from_utf8_lossy(&output.stderr)
}

/// Returns the options of `boot` that add a disk with `blkdebug`, QEMU's driver for tests of the block layer. This
/// driver returns an error for each read that includes sector 1000.
pub(crate) fn bad_disk(disks: &Disks) -> [String; 4] {
    let bad = disks.folder.path().join("bad");
    fs::write(&bad, vec![1; 1_000_000]).expect("room for a file");
    let device = format!(
        "driver=blkdebug,node-name=bad,read-only=on,image.driver=file,image.read-only=on,image.filename={},\
         inject-error.0.event=none,inject-error.0.iotype=read,inject-error.0.sector=1000,inject-error.0.once=off",
        bad.display()
    );
    // Merging of requests is off. Otherwise QEMU may merge requests for the preceding sectors with the failing request,
    // and all of them would fail.
    let arguments = ["-blockdev", &device, "-device", "virtio-blk-pci,drive=bad,disable-legacy=on,request-merging=off"];
    arguments.map(|argument| format!("--qemu-arg={argument}"))
}

/// Returns the options of `boot` that add a disk of `length` bytes, which QEMU throttles.
pub(crate) fn slow_disk(disks: &Disks, length: usize, throttling: &str) -> [String; 4] {
    let slow = disks.folder.path().join("slow");
    fs::write(&slow, vec![1; length]).expect("room for a file");
    let drive = format!("if=none,id=slow,format=raw,file={},throttling.{throttling}", slow.display());
    let arguments = ["-drive", &drive, "-device", "virtio-blk-pci,drive=slow,disable-legacy=on,request-merging=off"];
    arguments.map(|argument| format!("--qemu-arg={argument}"))
}

/// Returns the options of `boot` that add a disk of `length` bytes with these properties of the device.
pub(crate) fn odd_disk(disks: &Disks, length: usize, properties: &str) -> [String; 4] {
    let file = disks.folder.path().join("odd");
    fs::write(&file, vec![0; length]).expect("room for a file");
    let drive = format!("if=none,id=odd,format=raw,file={}", file.display());
    let device = format!("virtio-blk-pci,drive=odd,id=odd,disable-legacy=on,{properties}");
    ["-drive", &drive, "-device", &device].map(|argument| format!("--qemu-arg={argument}"))
}
