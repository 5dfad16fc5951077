//! Boots the tests in the kernel on BIOS and UEFI, from disk images. The ELF file is the one that `tests/machine.rs`
//! boots by PVH.
//!
//! The ordinary run has the tests that only this file has, a few tests of `tests/machine.rs`, and a few tests with
//! disks. Each of the tests of `tests/machine.rs` runs with the largest of its numbers of CPUs. `--include-ignored`
//! runs all tests of `tests/machine.rs` and of `tests/disk/firmware.rs` for both kinds of firmware, except the tests
//! that `tests/machine.rs` itself ignores. If the tools for disk images are not installed, each test is reported as
//! ignored, with the reason.
//!
//! Compiling the bootloader takes minutes. So the ordinary run ignores the tests if the bootloader is not compiled yet.
//!
//! If the environment variable `GMP_REQUIRE_FIRMWARE` is 1, no test is reported as ignored for these two reasons: the
//! bootloader is compiled if necessary, and without the tools each test fails.

#[path = "../disk/disks.rs"]
mod disks;
#[path = "../disk/firmware.rs"]
mod on_disks;
mod picture;

use std::env;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use boot::image::{self, Writer};
use boot::process::Process;
use boot::qemu::{Configuration, Firmware};
use boot_protocol::report::{Report, SERVE};
use boot_protocol::status::status_of_qemu_exit;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use qemu_tests::{Guest, Runner, Test};

use crate::picture::Picture;

/// The tests in the kernel that belong to the ordinary run: CPUs, clocks, interrupts, memory, the console, arguments,
/// preemption and a report. Most of them share a boot.
const ORDINARY: [&str; 10] = [
    "machine::all_cpus_are_up",
    "machine::arguments_arrive_as_they_were_given",
    "machine::clock_is_the_same_on_all_cpus",
    "machine::prints_more_than_the_console_holds",
    "memory::allocations_of_many_gs_keep_their_contents",
    "memory::frames_with_code_of_the_firmware_are_overwritten",
    "misuse::too_many_dones",
    "scheduler::blocked_ms_hand_off_their_ps",
    "scheduler::hogs_are_preempted",
    "signals::interrupt_readies_a_g",
];

/// A test of disks: its name and its function.
type DiskTest = (&'static str, fn(Firmware));

macro_rules! list {
    ($($test:ident)*) => { &[$((stringify!($test), on_disks::$test)),*] };
}

/// The tests of disks that run with every kind of firmware, with their names.
const WITH_DISKS: &[DiskTest] = on_disks::make_tests!(list);

/// The tests of disks that belong to the ordinary run.
const ORDINARY_WITH_DISKS: [&str; 3] = [
    "device_error_is_reported_with_its_offset",
    "thousand_gs_read_and_write_parts_of_the_same_sectors",
    "writes_stay_within_their_range_and_the_disk",
];

/// The time limit for a machine that is not run by [`Runner`]. Only a machine that hangs takes so long.
const LIMIT: Duration = Duration::from_secs(180);

/// The crate of the tests in the kernel.
const GUEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/guest");

/// The environment variable that makes a missing tool or firmware a failure.
const REQUIRE: &str = "GMP_REQUIRE_FIRMWARE";

/// Whether a test that cannot boot its firmware fails, instead of being reported as ignored.
fn is_required() -> bool {
    env::var_os(REQUIRE).is_some_and(|value| value == "1")
}

/// Whether the bootloader may be compiled for the tests.
static MAY_COMPILE: AtomicBool = AtomicBool::new(false);

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    MAY_COMPILE.store(arguments.include_ignored || arguments.ignored || is_required(), Ordering::Relaxed);
    // At most two machines run at a time, so more threads would only wait.
    arguments.test_threads = Some(arguments.test_threads.unwrap_or(2).min(2));
    let (guest, tests) = match Guest::prepare() {
        Ok(prepared) => prepared,
        Err(error) => {
            eprintln!("error: the tests inside the machine cannot run: {error}");
            return ExitCode::FAILURE;
        }
    };
    let elf = guest.elf().to_owned();
    let runner = Arc::new(Runner::new(guest, arguments.nocapture));
    let mut trials = Vec::new();
    for firmware in [Firmware::Bios, Firmware::Uefi] {
        let is_all = arguments.include_ignored || arguments.ignored || arguments.list;
        trials.extend(trials_of_guest(&tests, &runner, firmware, is_all));
        trials.extend(trials_with_disks(firmware, is_all));
        let name = "command_passes_options_input_and_output";
        trials.push(trial(name, firmware, command_passes_options_input_and_output));
        trials.push(trial("image_boots_without_the_command", firmware, image_boots_without_the_command));
        let elf = elf.clone();
        trials
            .push(trial("screen_shows_the_output", firmware, move |firmware| screen_shows_the_output(firmware, &elf)));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    // Dropping the runner ends the machines that still wait for tests.
    drop(runner);
    conclusion.exit_code()
}

/// Returns a trial for each test in the kernel and each number of CPUs of this test, except for hidden and ignored
/// tests. If `is_all` is not set, returns only the trials of the ordinary run. Tests that can share a machine follow
/// each other.
fn trials_of_guest(tests: &[Test], runner: &Arc<Runner>, firmware: Firmware, is_all: bool) -> Vec<Trial> {
    let mut planned: Vec<(u32, &Test)> = tests
        .iter()
        .filter(|test| !test.hidden && !test.ignored)
        .flat_map(|test| test.cpus.iter().map(move |&cpus| (cpus, test)))
        .collect();
    planned.sort_by_key(|&(cpus, test)| (cpus, test.isolated, test.icount, test.memory, test.options.clone()));
    let is_ordinary =
        |cpus: u32, test: &Test| test.cpus.iter().max() == Some(&cpus) && ORDINARY.contains(&test.name.as_str());
    planned.retain(|&(cpus, test)| is_all || is_ordinary(cpus, test));
    let trial = |(cpus, test): (u32, &Test)| {
        let is_ordinary = is_ordinary(cpus, test);
        let (runner, name, test) = (Arc::clone(runner), test.trial_name(cpus), test.clone());
        trial(&name, firmware, move |firmware| runner.run(&test, firmware, cpus).map_err(Into::into))
            .with_ignored_flag(!is_ordinary)
    };
    planned.into_iter().map(trial).collect()
}

/// Returns a trial for each test of disks that runs with every kind of firmware. If `is_all` is not set, returns only
/// the trials of the ordinary run.
fn trials_with_disks(firmware: Firmware, is_all: bool) -> impl Iterator<Item = Trial> {
    WITH_DISKS.iter().filter_map(move |&(name, test)| {
        let is_ordinary = ORDINARY_WITH_DISKS.contains(&name);
        let run = move |firmware| {
            // A failed assertion panics, which fails the trial.
            test(firmware);
            Ok(())
        };
        (is_all || is_ordinary).then(|| trial(&format!("disks::{name}"), firmware, run).with_ignored_flag(!is_ordinary))
    })
}

/// Makes a trial. If disk images cannot be booted with `firmware`, the trial is reported as ignored, with the reason.
/// If [firmware is required](is_required), the trial fails instead.
fn trial(name: &str, firmware: Firmware, run: impl FnOnce(Firmware) -> Result<(), Failed> + Send + 'static) -> Trial {
    Trial::ignorable_test(format!("{}::{name}", firmware.name()), move || match missing(firmware) {
        Some(reason) if is_required() => Err(format!("{REQUIRE}=1, but this test would be skipped: {reason}").into()),
        Some(reason) => Ok(Completion::ignored_with(format!("skipped: {reason}"))),
        None => run(firmware).map(|()| Completion::Completed),
    })
}

/// If disk images cannot be booted with this firmware, returns the reason. Otherwise returns `None`.
fn missing(firmware: Firmware) -> Option<String> {
    static MISSING: [OnceLock<Option<String>>; 2] = [OnceLock::new(), OnceLock::new()];
    let known = &MISSING[usize::from(firmware == Firmware::Uefi)];
    let find = || match image::check(firmware) {
        Err(error) => Some(format!("run ./setup --images ({error})")),
        Ok(()) if image::is_compiled() || MAY_COMPILE.load(Ordering::Relaxed) => None,
        Ok(()) => Some("the bootloader is not compiled; -- --include-ignored compiles it".into()),
    };
    known.get_or_init(find).clone()
}

fn ensure(condition: bool, message: impl FnOnce() -> String) -> Result<(), Failed> {
    if condition { Ok(()) } else { Err(message().into()) }
}

/// Runs the command `boot`, with `input` as its standard input.
fn boot(firmware: Firmware, options: &[&str], input: &str) -> Result<Output, Failed> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_boot-for-tests"));
    command.args(["--timeout", "180", "--release", "--firmware", firmware.name()]).args(options);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    child.stdin.take().expect("asked for a pipe").write_all(input.as_bytes())?;
    Ok(child.wait_with_output()?)
}

/// The command passes kernel options and input to the machine, and prints the machine's output. Standard output
/// contains nothing that the firmware or the bootloader prints.
fn command_passes_options_input_and_output(firmware: Firmware) -> Result<(), Failed> {
    let name = "machine::options_of_the_program_reach_it";
    let options = ["program.first=1", "program.path=a b:c", "program.first=2", "program.empty="];
    let options = options.map(|option| format!("--kernel-option={option}"));
    let words: Vec<&str> = options.iter().map(String::as_str).chain([GUEST, SERVE]).collect();
    let output = boot(firmware, &words, &format!("{name}\n"))?;
    let expected = [Report::Ready, Report::Started(name), Report::Passed(name), Report::Ready];
    let expected: String = expected.iter().map(|report| format!("{report}\n")).collect();
    ensure(output.status.success() && output.stdout == expected.as_bytes(), || format!("{output:?}"))
}

/// The image that `--image` writes boots with nothing but the firmware, as it would from a USB stick. The machine has
/// memory above 4 GiB. UEFI could put parts of the kernel there, although the start of the other CPUs needs these parts
/// below 4 GiB.
fn image_boots_without_the_command(firmware: Firmware) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let image = folder.path().join("stick.img");
    let name = image.to_str().ok_or("the folder's name is not Unicode")?;
    let options = ["--kernel-option=program.smp=8", "--image", name, GUEST, "machine::all_cpus_are_up"];
    let output = boot(firmware, &options, "")?;
    ensure(output.status.success() && output.stdout.is_empty(), || format!("{output:?}"))?;
    let configuration = Configuration { firmware, memory: 6144, ..Configuration::default() };
    let arguments = configuration.qemu_arguments(&image, &[])?;
    let (mut process, mut stdout, _stdin) = Process::start(&arguments, Vec::new())?;
    let mut text = Vec::new();
    let (sender, ended) = mpsc::channel();
    let reader = thread::spawn(move || {
        let result = stdout.read_to_end(&mut text);
        // The receiver may have given up, so an error is ignored.
        let _ = sender.send(());
        result.map(|_| text)
    });
    if ended.recv_timeout(LIMIT).is_err() {
        process.kill();
    }
    let text = reader.join().expect("reading does not panic")?;
    let code = process.wait()?.code().and_then(status_of_qemu_exit);
    ensure(code == Some(0), || format!("status {code:?}\n{}", String::from_utf8_lossy(&text)))
}

/// On a machine without a serial port, the screen shows what the program prints.
fn screen_shows_the_output(firmware: Firmware, elf: &Path) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let image = folder.path().join("screen.img");
    let configuration = Configuration { firmware, ..Configuration::default() };
    let words = [SERVE.to_owned()];
    Writer::get()?.write(firmware, elf, &configuration.command_line(&words)?, &image)?;
    let mut arguments = configuration.qemu_arguments(&image, &words)?;
    let port = arguments.iter_mut().find(|word| *word == "stdio").ok_or("the machine has no serial port")?;
    *port = "none".into();
    let (mut process, _stdout, _stdin) = Process::start(&arguments, Vec::new())?;
    let file = folder.path().join("screen.ppm");
    let deadline = Instant::now() + LIMIT;
    loop {
        process.dump_screen(&file)?;
        thread::sleep(Duration::from_millis(300));
        if Picture::read(&file).is_some_and(|picture| picture.shows(&Report::Ready.to_string())) {
            return Ok(());
        }
        ensure(Instant::now() < deadline, || "the screen does not show the text".to_owned())?;
    }
}
