//! Boots machines that differ from the ordinary one, for example with very much memory, without some clocks, with a
//! second PCI root bus, or with a CPU that cannot run the kernel.

use std::fs;
use std::process::{Command, Output};

use boot_protocol::report::Report;
use boot_protocol::status::KERNEL_BROKEN;
use tempfile::NamedTempFile;

const GUEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/guest");

/// Options for a machine that has no PCI bus and therefore no virtio devices.
const NO_PCI: &[&str] = &["--kernel-option=console=serial", "--kernel-option=seed=0"];

/// Runs the guest test `test` on a machine with these options of `boot`.
fn boot_guest(options: &[&str], test: &str) -> Output {
    boot(options, &[GUEST, test])
}

/// Runs `program` on a machine with these options of `boot`.
fn boot(options: &[&str], program: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_boot-for-tests"));
    command.args(["--timeout", "60", "--release"]).args(options).args(program).output().expect("boot runs")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn assert_passed(output: &Output, test: &str) {
    let stdout = String::from_utf8_lossy(&output.stdout);
    let passed = stdout.lines().any(|line| Report::parse(line) == Some(Report::Passed(test)));
    assert!(passed, "{stdout}\n{}", stderr(output));
}

/// The host need not have that much memory, because the kernel writes only to a small part of it.
#[test]
fn memory_of_950_gib_is_used() {
    let test = "memory::memory_above_4_gib_is_usable";
    let options = [
        "--smp=2",
        "--qemu-arg=-object",
        "--qemu-arg=memory-backend-ram,id=large,size=950G,reserve=off",
        "--qemu-arg=-m",
        "--qemu-arg=950G",
        "--qemu-arg=-machine",
        "--qemu-arg=memory-backend=large",
    ];
    assert_passed(&boot_guest(&options, test), test);
}

#[test]
fn clocks_are_measured_by_the_acpi_timer_without_hpet() {
    let test = "memory::little_memory_is_enough";
    let output = boot_guest(&["--kernel-option=log=info", "--qemu-arg=-machine", "--qemu-arg=hpet=off"], test);
    assert!(stderr(&output).contains("ACPI timer: TSC"), "{}", stderr(&output));
    assert_passed(&output, test);
}

#[test]
fn clocks_are_measured_by_the_pit_without_hpet_and_acpi_timer() {
    let test = "memory::little_memory_is_enough";
    let machine = "--qemu-arg=microvm,acpi=off,pit=on,pic=on";
    let output =
        boot_guest(&[NO_PCI, &["--smp=1", "--kernel-option=log=info", "--qemu-arg=-machine", machine]].concat(), test);
    assert!(stderr(&output).contains("PIT: TSC"), "{}", stderr(&output));
    assert_passed(&output, test);
}

#[test]
fn machine_without_a_clock_of_known_rate_is_refused() {
    let machine = "--qemu-arg=microvm,acpi=off,pit=off,pic=on";
    let output = boot_guest(
        &[NO_PCI, &["--smp=1", "--kernel-option=log=info", "--qemu-arg=-machine", machine]].concat(),
        "memory::little_memory_is_enough",
    );
    assert!(stderr(&output).contains("clock PIT is not used: it stands still"), "{}", stderr(&output));
    assert!(stderr(&output).contains("no clock with a known rate counts"), "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(KERNEL_BROKEN.into()));
}

#[test]
fn disk_on_a_second_root_bus_is_found() {
    let disk = NamedTempFile::new().expect("a file");
    fs::write(disk.path(), [7; 1000]).expect("room for a file");
    let drive = format!("--qemu-arg=driver=file,node-name=far,read-only=on,filename={}", disk.path().display());
    let options = [
        "--smp=2",
        "--kernel-option=disk=far:1000",
        "--qemu-arg=-blockdev",
        &drive,
        "--qemu-arg=-device",
        "--qemu-arg=pxb-pcie,id=second,bus_nr=128,bus=pcie.0",
        "--qemu-arg=-device",
        "--qemu-arg=pcie-root-port,id=behind,bus=second,chassis=1",
        "--qemu-arg=-device",
        "--qemu-arg=virtio-blk-pci,drive=far,bus=behind,disable-legacy=on",
    ];
    let output = boot(&options, &["sha256"]);
    // `sha256sum` prints this sum for these bytes.
    let sum = "df1329c8b6c7cf3740bbe2f8bab34d253a8d9534a79dceea18177081fdf9f0e9";
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{sum}  far\n"), "{}", stderr(&output));
}

#[test]
fn cpu_without_nx_or_long_mode_is_refused() {
    for feature in ["nx", "lm"] {
        let output = boot_guest(&[&format!("--cpu=max,-{feature}")], "memory::little_memory_is_enough");
        let message = "this CPU cannot run the kernel, because it has no long mode (64 bits) or no NX";
        assert!(stderr(&output).contains(message), "{}", stderr(&output));
        assert_eq!(output.status.code(), Some(KERNEL_BROKEN.into()));
    }
}

/// This machine has a memory balloon instead of the entropy device.
#[test]
fn random_numbers_come_from_the_processor_without_an_entropy_device() {
    let test = "random::random_bytes_fill_every_length_and_differ";
    let options = ["--smp=2", "--kernel-option=log=info", "--qemu-arg=-set"];
    let output = boot_guest(&[&options[..], &["--qemu-arg=device.random.driver=virtio-balloon-pci"]].concat(), test);
    assert_passed(&output, test);
    assert!(!stderr(&output).contains("entropy device"), "{}", stderr(&output));
}

/// The source of the entropy device never answers. The CPU model has no RDRAND.
#[test]
fn mute_entropy_device_is_given_up_after_a_bounded_time() {
    let options = [
        "--smp=2",
        "--cpu=max,-rdrand",
        "--qemu-arg=-chardev",
        "--qemu-arg=null,id=silent",
        "--qemu-arg=-object",
        "--qemu-arg=rng-egd,id=mute,chardev=silent",
        "--qemu-arg=-set",
        "--qemu-arg=device.random.rng=mute",
    ];
    for test in ["random::random_bytes_fill_every_length_and_differ", "random::limits_end_waits_for_a_mute_device"] {
        let output = boot_guest(&options, test);
        assert_passed(&output, test);
        let message = "the virtio entropy device does not answer as it should; random numbers come from the processor";
        assert_eq!(stderr(&output).matches(message).count(), 1, "{}", stderr(&output));
    }
}
