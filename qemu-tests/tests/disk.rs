//! Tests of disks. Each disk is a file of the host. The output of `cargo run -- --disk FILE sha256` is compared with
//! SHA-256 computed on the host. The guest tests that need disks also run here, on one or several CPUs.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Output};

use boot_protocol::report::Report;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

/// Lengths of disks in bytes: zero, about one sector (512), about one request (64 KiB), and many requests.
const LENGTHS: [usize; 9] = [0, 1, 511, 512, 513, 65_535, 65_536, 65_537, 5_000_001];

/// Files that are used as disks, in a temporary directory.
struct Disks {
    folder: TempDir,
    /// The name of each file, and its content.
    files: Vec<(String, Vec<u8>)>,
}

impl Disks {
    fn new(files: impl IntoIterator<Item = (&'static str, usize)>) -> Self {
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
        Self { folder, files }
    }

    /// Runs `program` with these disks.
    fn boot(&self, options: &[&str], program: &[&str]) -> Output {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
        let mut command = Command::new(env!("CARGO"));
        command.args(["run", "--quiet", "--manifest-path", manifest, "--package", "boot", "--", "--timeout", "60"]);
        command.args(self.files.iter().flat_map(|(name, _)| ["--disk", name])).args(options).args(program);
        command.current_dir(self.folder.path()).output().expect("cargo runs")
    }

    /// Returns the output that `sha256sum` would print for these files. The program `sha256` must print the same.
    fn expected(&self) -> String {
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

    /// Runs `sha256` on these disks and checks the output.
    fn check_sums(&self, options: &[&str]) {
        let output = self.boot(options, &["sha256"]);
        assert_eq!(stdout(&output), self.expected(), "{}", stderr(&output));
        assert_eq!(output.status.code(), Some(0));
    }

    /// Runs a guest test with these disks.
    fn check_guest(&self, test: &str, options: &[&str]) {
        let output = self.boot(options, &[concat!(env!("CARGO_MANIFEST_DIR"), "/guest"), test]);
        let passed = stdout(&output).lines().any(|line| Report::parse(line) == Some(Report::Passed(test)));
        assert!(passed, "{}\n{}", stdout(&output), stderr(&output));
    }
}

fn stdout(output: &Output) -> Cow<'_, str> {
    String::from_utf8_lossy(&output.stdout)
}

fn stderr(output: &Output) -> Cow<'_, str> {
    String::from_utf8_lossy(&output.stderr)
}

fn all_lengths(cpus: &str) {
    Disks::new(LENGTHS.map(|length| ("", length))).check_sums(&["--smp", cpus]);
}

#[test]
fn all_lengths_on_one_cpu() {
    all_lengths("1");
}

#[test]
fn all_lengths_on_two_cpus() {
    all_lengths("2");
}

#[test]
fn all_lengths_on_eight_cpus() {
    all_lengths("8");
}

#[test]
fn one_empty_file() {
    Disks::new([("", 0)]).check_sums(&[]);
}

#[test]
fn two_large_files_at_once() {
    Disks::new([("first", 3 << 20), ("second", (3 << 20) + 77)]).check_sums(&[]);
}

#[test]
fn more_cpus_than_the_host_has() {
    Disks::new([("many", 2 << 20)]).check_sums(&["--smp", "16"]);
}

#[test]
fn little_memory_is_enough_for_a_file_that_is_larger() {
    Disks::new([("large", 40 << 20)]).check_sums(&["--smp", "2", "--memory", "24"]);
}

#[test]
fn without_optimisation() {
    Disks::new([("debug", 300_000)]).check_sums(&["--debug"]);
}

/// `sha256sum` escapes characters that would break its lines. It does not change spaces and colons.
#[test]
fn names_are_printed_as_sha256sum_prints_them() {
    let names = [("with space: and colon ", 10), ("back\\slash", 11), ("line\nbreak", 12), ("ümläut\"", 13)];
    Disks::new(names).check_sums(&["--smp", "2"]);
}

#[test]
fn missing_file_is_named_and_nothing_is_booted() {
    let output = Disks::new([]).boot(&["--disk", "no-such-file"], &["sha256"]);
    assert!(stderr(&output).contains("no-such-file"), "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(64));
    assert!(output.stdout.is_empty());
}

#[test]
fn no_file_at_all_is_a_mistake() {
    let output = Disks::new([]).boot(&["--smp", "1"], &["sha256"]);
    assert!(stdout(&output).contains("usage"));
    assert_eq!(output.status.code(), Some(1));
}

/// One disk uses `blkdebug`, QEMU's driver for tests of the block layer. This driver returns an error for each read of one
/// sector. The other disk is not affected.
#[test]
fn device_error_is_reported_with_its_offset() {
    let disks = Disks::new([("good", 1_000)]);
    let bad = disks.folder.path().join("bad");
    fs::write(&bad, vec![1; 1_000_000]).expect("room for a file");
    let device = format!(
        "driver=blkdebug,node-name=bad,read-only=on,image.driver=file,image.read-only=on,image.filename={},\
         inject-error.0.event=none,inject-error.0.iotype=read,inject-error.0.sector=1000,inject-error.0.once=off",
        bad.display()
    );
    // Merging of requests is off. Otherwise QEMU may merge requests for the preceding sectors with the failing request, and
    // all of them would fail.
    let arguments = ["-blockdev", &device, "-device", "virtio-blk-pci,drive=bad,disable-legacy=on,request-merging=off"];
    let options = arguments.map(|argument| format!("--qemu-arg={argument}"));
    let output = disks.boot(&options.each_ref().map(String::as_str), &["sha256"]);
    // Sector 1000 is in the chunk that begins at 7 * 64 KiB.
    let complaint = "sha256: disk1: cannot read at offset 458752: the device reports an input/output error\n";
    assert_eq!(stdout(&output), disks.expected() + complaint, "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn missing_device_is_reported() {
    let output = Disks::new([]).boot(&["--kernel-option", "disk=ghost:100"], &["sha256"]);
    assert_eq!(stdout(&output), "sha256: ghost: cannot read at offset 0: there is no such device\n");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn concurrent_reads_return_what_was_written() {
    let disks = Disks::new([("a", 1_000_003), ("b", 70_000), ("c", 3 << 20)]);
    for cpus in ["1", "2", "8"] {
        disks.check_guest("disks::concurrent_reads_return_what_was_written", &["--disk-rw", "--smp", cpus]);
    }
}

#[test]
fn writes_stay_within_their_range_and_the_disk() {
    Disks::new([("", 100_001)]).check_guest("disks::writes_stay_within_their_range_and_the_disk", &["--disk-rw"]);
}

#[test]
fn read_only_disk_refuses_writes() {
    let disks = Disks::new([("", 5_000)]);
    disks.check_guest("disks::read_only_disk_refuses_writes", &[]);
    let (name, content) = &disks.files[0];
    assert_eq!(fs::read(disks.folder.path().join(name)).expect("the file is there"), *content);
}

#[test]
fn every_read_hands_off_its_p() {
    let disks = Disks::new([("", 5_000)]);
    for cpus in ["1", "8"] {
        disks.check_guest("disks::every_read_hands_off_its_p", &["--smp", cpus]);
    }
}
