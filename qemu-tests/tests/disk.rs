//! Tests of disks. Each disk is a file of the host. The output of `cargo run -- --disk FILE sha256` is compared with
//! SHA-256 computed on the host. The guest tests that need disks also run here, on one or several CPUs.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use boot_protocol::report::Report;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

/// Lengths of disks in bytes: zero, about one sector (512), about one buffer (64 KiB), and many requests.
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
        self.command(options, program).output().expect("cargo runs")
    }

    /// Returns the command that runs `program` with these disks. The program is built with full optimisation, unless
    /// the options include `--debug`.
    fn command(&self, options: &[&str], program: &[&str]) -> Command {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
        let mut command = Command::new(env!("CARGO"));
        command.args(["run", "--quiet", "--manifest-path", manifest, "--package", "boot", "--", "--timeout", "60"]);
        command.args((!options.contains(&"--debug")).then_some("--release"));
        command.args(self.files.iter().flat_map(|(name, _)| ["--disk", name])).args(options).args(program);
        command.current_dir(self.folder.path());
        command
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

    /// Runs `sha256` on these disks in both modes and checks the output.
    fn check_sums(&self, options: &[&str]) {
        for mode in ["sync", "async"] {
            let output = self.boot(options, &["sha256", "--mode", mode]);
            assert_eq!(stdout(&output), self.expected(), "{mode}: {}", stderr(&output));
            assert_eq!(output.status.code(), Some(0));
            // Standard error is not a terminal, so no progress bar is shown.
            assert!(!stderr(&output).contains(" % ["), "{}", stderr(&output));
        }
    }

    /// Runs `sha256` on threads of the host, with these disks.
    fn on_host(&self, arguments: &[&str]) -> Output {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
        let mut command = Command::new(env!("CARGO"));
        command.args(["run", "--quiet", "--manifest-path", manifest, "--package", "programs", "--bin", "sha256", "--"]);
        let names: Vec<&str> = self.files.iter().map(|(name, _)| name.as_str()).collect();
        command.args(arguments).current_dir(self.folder.path()).env("GMP_DISKS", names.join(":"));
        command.output().expect("cargo runs")
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
fn all_lengths_on_the_host() {
    let disks = Disks::new(LENGTHS.map(|length| ("", length)));
    for mode in ["sync", "async"] {
        let output = disks.on_host(&["--mode", mode]);
        assert_eq!(stdout(&output), disks.expected(), "{mode}: {}", stderr(&output));
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn wrong_arguments_are_named() {
    let disks = Disks::new([("", 1)]);
    for (arguments, mistake) in [
        (&["--mode", "fast"][..], "there is no mode `fast`"),
        (&["--mode"], "`--mode` needs a value"),
        (&["--quiet", "file"], "there is no option `file`"),
    ] {
        let output = disks.on_host(arguments);
        let said = format!("sha256: {mistake}\nusage: ");
        assert!(stderr(&output).starts_with(&said), "{}", stderr(&output));
        assert_eq!((stdout(&output).as_ref(), output.status.code()), ("", Some(1)));
    }
}

/// The clock counts instructions, so all runs are equal. The bar appears after 200 million instructions, while the
/// program is still hashing. With `--quiet` no bar appears.
#[test]
fn progress_is_shown_on_a_terminal_unless_quiet() {
    let disks = Disks::new([("large", 16 << 20)]);
    let options = ["--icount", "--smp", "1", "--kernel-option", "stderr=terminal"];
    let output = disks.boot(&options, &["sha256"]);
    assert_eq!(stdout(&output), disks.expected());
    // The bar is drawn, drawn again over itself, and removed.
    let said = stderr(&output).into_owned();
    let (bars, spaces) = said.trim_end_matches('\r').rsplit_once('\r').expect("a bar and its removal");
    assert!(bars.ends_with("MiB/s") || bars.ends_with(' '), "{said:?}");
    assert!(bars.contains(" % [=") && bars.contains("] ") && bars.contains(" of 16 MiB, "), "{said:?}");
    assert!(!spaces.is_empty() && spaces.trim().is_empty(), "{said:?}");
    let output = disks.boot(&options, &["sha256", "--quiet"]);
    assert_eq!(stdout(&output), disks.expected());
    assert!(!stderr(&output).contains(['%', '\r']), "{}", stderr(&output));
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
    assert!(stderr(&output).contains("usage"), "{}", stderr(&output));
    assert_eq!((stdout(&output).as_ref(), output.status.code()), ("", Some(1)));
}

/// Returns the options of `boot` that add a disk with `blkdebug`, QEMU's driver for tests of the block layer. This
/// driver returns an error for each read that includes sector 1000.
fn bad_disk(disks: &Disks) -> [String; 4] {
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

/// One disk returns errors. The other disk is not affected.
#[test]
fn device_error_is_reported_with_its_offset() {
    let disks = Disks::new([("good", 1_000)]);
    let options = bad_disk(&disks);
    let output = disks.boot(&options.each_ref().map(String::as_str), &["sha256"]);
    // Sector 1000 is in the chunk that begins at 256 KiB.
    let complaint = "sha256: disk1: cannot read at offset 262144: the device reports an input/output error\n";
    assert_eq!(stdout(&output), disks.expected(), "{}", stderr(&output));
    assert!(stderr(&output).contains(complaint), "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn missing_device_is_reported() {
    let output = Disks::new([]).boot(&["--kernel-option", "disk=ghost:100"], &["sha256"]);
    let complaint = "sha256: ghost: cannot read at offset 0: there is no such device\n";
    assert!(stderr(&output).contains(complaint), "{}", stderr(&output));
    assert_eq!((stdout(&output).as_ref(), output.status.code()), ("", Some(1)));
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
fn device_errors_are_returned_to_their_callers() {
    let disks = Disks::new([]);
    let options = bad_disk(&disks);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    disks.check_guest("disks::errors_of_the_device_are_returned_to_their_callers", &options);
}

#[test]
fn thousand_gs_read_and_write_parts_of_the_same_sectors() {
    let disks = Disks::new([("", 800_000)]);
    for cpus in ["1", "2", "8"] {
        disks.check_guest("disks::thousand_gs_read_and_write_parts_of_the_same_sectors", &["--disk-rw", "--smp", cpus]);
    }
}

#[test]
fn large_transfers_return_what_was_written() {
    const TEST: &str = "disks::large_transfers_return_what_was_written";
    let disks = Disks::new([("", 16 << 20)]);
    for cpus in ["1", "2", "8"] {
        disks.check_guest(TEST, &["--disk-rw", "--smp", cpus]);
    }
    // If the queue has 16 entries, the device allows 14 segments in a request, but the driver has only 8 buffers for
    // this queue.
    for properties in ["logical_block_size=4096,physical_block_size=4096", "queue-size=16"] {
        let disks = Disks::new([]);
        let options = odd_disk(&disks, 16 << 20, properties);
        disks.check_guest(TEST, &options.each_ref().map(String::as_str));
    }
}

#[test]
fn untouched_buffers_on_a_stack_are_filled() {
    Disks::new([("", 50_000)]).check_guest("disks::untouched_buffers_on_a_stack_are_filled", &["--disk-rw"]);
}

/// Returns the options of `boot` that add a disk of `length` bytes, which QEMU throttles.
fn slow_disk(disks: &Disks, length: usize, throttling: &str) -> [String; 4] {
    let slow = disks.folder.path().join("slow");
    fs::write(&slow, vec![1; length]).expect("room for a file");
    let drive = format!("if=none,id=slow,format=raw,file={},throttling.{throttling}", slow.display());
    let arguments = ["-drive", &drive, "-device", "virtio-blk-pci,drive=slow,disable-legacy=on,request-merging=off"];
    arguments.map(|argument| format!("--qemu-arg={argument}"))
}

/// QEMU throttles this disk to 50 requests in a second.
#[test]
fn limits_end_calls_to_a_slow_disk() {
    let disks = Disks::new([]);
    let options = slow_disk(&disks, 100_000, "iops-total=50");
    disks.check_guest("disks::limits_end_calls_to_a_slow_disk", &options.each_ref().map(String::as_str));
}

/// After the first write to this disk, QEMU delays the next write until eight minutes have passed or the device is
/// reset.
#[test]
fn late_write_keeps_its_slot_and_its_sectors() {
    let disks = Disks::new([]);
    let options = slow_disk(&disks, 6 << 20, "bps-write=1");
    disks.check_guest("disks::late_write_keeps_its_slot_and_its_sectors", &options.each_ref().map(String::as_str));
}

#[test]
fn lost_request_times_out_while_others_are_answered() {
    let disks = Disks::new([]);
    let options = slow_disk(&disks, 100_000, "bps-write=1");
    let mut options = options.each_ref().map(String::as_str).to_vec();
    options.extend(["--smp=2", "--kernel-option=disk_timeout_s=1"]);
    disks.check_guest("disks::lost_request_times_out_while_others_are_answered", &options);
}

/// Returns the options of `boot` that add a disk of `length` bytes with these properties of the device.
fn odd_disk(disks: &Disks, length: usize, properties: &str) -> [String; 4] {
    let file = disks.folder.path().join("odd");
    fs::write(&file, vec![0; length]).expect("room for a file");
    let drive = format!("if=none,id=odd,format=raw,file={}", file.display());
    let device = format!("virtio-blk-pci,drive=odd,id=odd,disable-legacy=on,{properties}");
    ["-drive", &drive, "-device", &device].map(|argument| format!("--qemu-arg={argument}"))
}

#[test]
fn sectors_of_4096_bytes_are_read_and_written_in_parts() {
    let disks = Disks::new([]);
    let options = odd_disk(&disks, 802_816, "logical_block_size=4096,physical_block_size=4096");
    let test = "disks::thousand_gs_read_and_write_parts_of_the_same_sectors";
    disks.check_guest(test, &options.each_ref().map(String::as_str));
}

#[test]
fn device_that_is_notified_through_a_port_is_refused_and_others_work() {
    let disks = Disks::new([("good", 1_000)]);
    let options = odd_disk(&disks, 802_816, "modern-pio-notify=on");
    let output = disks.boot(&options.each_ref().map(String::as_str), &["sha256"]);
    let complaint = "the driver needs registers in memory, but the device's are I/O ports";
    // `boot` has not announced this disk, so its length is not known.
    let refusal = format!("sha256: disk1: cannot read at offset 0: {complaint}\n");
    assert!(stderr(&output).contains(&refusal), "{}", stderr(&output));
    assert_eq!((stdout(&output).as_ref(), output.status.code()), (disks.expected().as_str(), Some(1)));
}

/// The kernel maps the registers of at most 32 virtio devices. One of them is the console, so 31 of the 34 disks work.
/// Eight disks share one device of the PCI bus, as its functions, because the bus has room for only 32 devices.
#[test]
#[ignore = "takes half a minute"]
fn disk_beyond_the_limit_is_refused_and_others_work() {
    let disks = Disks::new([("good", 1_024)]);
    let file = disks.folder.path().join("good1024");
    let mut arguments = Vec::new();
    for disk in 0..33 {
        let (slot, function) = (16 + disk / 8, disk % 8);
        arguments.extend([
            "-drive".to_owned(),
            format!("if=none,id=more{disk},format=raw,readonly=on,file={}", file.display()),
            "-device".to_owned(),
            format!("virtio-blk-pci,drive=more{disk},disable-legacy=on,addr={slot:x}.{function},multifunction=on"),
        ]);
    }
    let options: Vec<String> = arguments.iter().map(|argument| format!("--qemu-arg={argument}")).collect();
    let mut options: Vec<&str> = options.iter().map(String::as_str).collect();
    options.push("--smp=2");
    let output = disks.boot(&options, &["sha256"]);
    let complaint = "the kernel uses the registers of at most 32 devices";
    assert_eq!(stderr(&output).matches(complaint).count(), 3, "{}", stderr(&output));
    let sum = disks.expected().split(' ').next().expect("a sum").to_owned();
    assert_eq!(stdout(&output).matches(&sum).count(), 31, "{}", stdout(&output));
}

/// QEMU removes the second disk while the guest test reads from it. The machine is not asked before.
#[test]
fn unplugged_disk_fails_every_request() {
    const TEST: &str = "disks::unplugged_disk_fails_every_request";
    let disks = Disks::new([("good", 50_000)]);
    let socket = disks.folder.path().join("monitor");
    let monitor = format!("--qemu-arg=unix:{},server=on,wait=off", socket.display());
    let odd = odd_disk(&disks, 802_816, "request-merging=off");
    let mut options = odd.each_ref().map(String::as_str).to_vec();
    options.extend(["--smp=2", "--kernel-option=disk_timeout_s=1", "--qemu-arg=-qmp", &monitor]);
    let program = [concat!(env!("CARGO_MANIFEST_DIR"), "/guest"), TEST];
    let mut boot = disks.command(&options, &program).stdout(Stdio::piped()).spawn().expect("cargo runs");
    let mut lines = BufReader::new(boot.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "reading"), "the test has started");
    unplug(&socket, "odd");
    assert!(lines.any(|line| Report::parse(&line) == Some(Report::Passed(TEST))));
    boot.wait().expect("boot ends");
}

/// Makes QEMU remove a device, by commands to the monitor at `socket`.
fn unplug(socket: &Path, device: &str) {
    let mut monitor = UnixStream::connect(socket).expect("QEMU has a monitor");
    let remove = format!(
        r#"{{"execute": "qom-set", "arguments": {{"path": "/machine/peripheral/{device}", "property": "realized", "value": false}}}}"#
    );
    writeln!(monitor, r#"{{"execute": "qmp_capabilities"}} {remove}"#).expect("QEMU reads");
    // QEMU confirms both commands.
    let replies = BufReader::new(monitor).lines().map_while(Result::ok);
    assert_eq!(replies.filter(|line| line.contains(r#""return""#)).take(2).count(), 2);
}

#[test]
fn asynchronous_reads_park_only_their_gs() {
    let disks = Disks::new([("", 5_000)]);
    for cpus in ["1", "8"] {
        disks.check_guest("disks::asynchronous_reads_park_only_their_gs", &["--smp", cpus]);
    }
}

#[test]
fn every_read_hands_off_its_p() {
    let disks = Disks::new([("", 5_000)]);
    for cpus in ["1", "8"] {
        disks.check_guest("disks::every_read_hands_off_its_p", &["--smp", cpus]);
    }
}
