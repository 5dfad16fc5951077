//! Tests of the devices for output: a reader that pauses, devices that stop answering, and the choice of the device.

use core::time::Duration;
use std::process::Output;
use std::thread;

use crate::child::Running;
use crate::outside::{boot_outside, finish, finish_small, small_machine, status, text};

/// Runs `flood`. Reads one line of its output, then nothing for some seconds, and then the rest.
fn flood(options: &[&str], then: &str) -> Output {
    let _machine = small_machine();
    let mut child = Running::start(boot_outside(options, &["flood", then]));
    let first = child.read_until("\n");
    thread::sleep(Duration::from_secs(4));
    let mut output = child.finish();
    output.stdout.splice(0..0, first.into_bytes());
    output
}

/// Asserts that `printed` begins with the lines of all Gs of `flood`. Each line must be complete, and the lines of each
/// G must be in order. Lines of different Gs may alternate. Returns the lines that come after them.
fn lines_after_flood(printed: &str) -> Vec<&str> {
    let mut next = [0; 8];
    let mut lines = printed.lines();
    let rest = lines.by_ref().skip_while(|line| {
        let Some(words) = line.strip_prefix('<') else { return false };
        let g: usize = words.split(' ').next().and_then(|word| word.parse().ok()).expect("a number");
        assert_eq!(*line, format!("<{g} {} {}>", next[g], ".".repeat(50)));
        next[g] += 1;
        true
    });
    let rest: Vec<_> = rest.collect();
    assert_eq!(next, [2000; 8], "lines are missing before {rest:?}");
    rest
}

#[test]
fn reader_that_pauses_gets_every_line() {
    for options in [
        &["--smp=8"][..],
        &["--smp=4", "--kernel-option=console=serial"],
        &["--smp=4", "--kernel-option=console=polled"],
    ] {
        let output = flood(options, "end");
        let printed = text(&output.stdout);
        let rest = lines_after_flood(&printed);
        assert_eq!((rest.len(), rest.last()), (2, Some(&"that was all")), "{options:?}: {rest:?}");
        // While the Gs of `flood` print, another G counts rounds. It must have run meanwhile, so the number is not 0.
        // How large the number is depends on the host.
        let rounds: u64 = rest[0].split(' ').next().and_then(|word| word.parse().ok()).expect("a number");
        assert!(rounds > 0, "{options:?}");
        assert_eq!(status(&output), Some(0), "{options:?}");
    }
}

#[test]
fn panic_is_reported_to_a_reader_that_pauses() {
    let output = flood(&["--smp=4"], "panic");
    let printed = text(&output.stdout);
    assert_eq!(lines_after_flood(&printed).len(), 1, "only the number of rounds follows");
    let report = text(&output.stderr);
    assert!(report.contains("it was meant to panic") && report.contains("goroutine 1 [running]"), "{report}");
    assert_eq!(status(&output), Some(2));
}

#[test]
fn output_uses_the_device_that_the_options_choose() {
    for (options, device) in [
        (&[][..], "virtio\n"),
        (&["--kernel-option=console=serial"], "serial\n"),
        (&["--kernel-option=console=polled"], "serial\n"),
        (&["--icount"], "serial\n"),
    ] {
        let output = finish(boot_outside(options, &["device"]));
        assert_eq!(text(&output.stdout), device, "{options:?}: {}", text(&output.stderr));
    }
}

/// The beginning of the message that the kernel prints if the virtio console does not answer.
const GIVEN_UP: &str = "[the virtio console does not answer: the serial port continues, ";

#[test]
fn device_that_stops_to_answer_is_given_up_without_a_loss() {
    for cpus in ["--smp=1", "--smp=8"] {
        let output = finish_small(boot_outside(&[cpus], &["mute", "flood"]));
        let printed = text(&output.stdout);
        let printed = printed.strip_prefix("before\n").expect("the virtio console has sent this line");
        let rest = lines_after_flood(printed);
        assert_eq!((rest.len(), rest.last()), (2, Some(&"that was all")), "{rest:?}");
        let errors = text(&output.stderr);
        assert_eq!(errors.matches(GIVEN_UP).count(), 1, "{errors}");
        assert_eq!(status(&output), Some(0));
    }
}

#[test]
fn program_that_ends_while_the_device_does_not_answer_loses_nothing() {
    let output = finish_small(boot_outside(&["--smp=2"], &["mute", "end"]));
    assert_eq!(text(&output.stdout), "before\nin flight\nthat was all\n");
    assert!(text(&output.stderr).starts_with(GIVEN_UP), "{}", text(&output.stderr));
    assert_eq!(status(&output), Some(0));
}

#[test]
fn panic_while_the_device_does_not_answer_is_reported() {
    let output = finish_small(boot_outside(&["--smp=2"], &["mute", "panic"]));
    assert_eq!(text(&output.stdout), "before\nin flight\nwaiting\n");
    assert!(text(&output.stderr).contains("it was meant to panic"), "{}", text(&output.stderr));
    assert_eq!(status(&output), Some(2));
}

#[test]
fn device_that_the_kernel_cannot_use_leaves_the_serial_port() {
    let device = ["--icount", "--qemu-arg=-device", "--qemu-arg=virtio-serial-pci,disable-legacy=on,max_ports=1"];
    let output = finish(boot_outside(&device, &["device"]));
    assert_eq!(text(&output.stdout), "serial\n");
    assert!(
        text(&output.stderr).contains("virtio console: the set-up of the device failed"),
        "{}",
        text(&output.stderr)
    );
}
