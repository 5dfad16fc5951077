//! A test of the frames in which the firmware has executed code. QEMU's emulation makes writes to such a frame slow until
//! the code is overwritten, so the kernel overwrites it before it uses the frame (`kernel/src/mm/former_use.rs`).

use std::collections::HashMap;
use std::fs;

use tempfile::tempdir;

use crate::outside::{boot_outside, finish, status, text};

/// The number of writes of 8 bytes that fill a page.
const FILLING: usize = 4096 / 8;

/// QEMU reports each write to a frame that contains code. The program uses the frames in which SeaBIOS has executed code,
/// and writes to each of them more than [`FILLING`] times. But QEMU must report only the writes with which the kernel
/// fills the frame, because the frame contains no code afterwards.
#[test]
fn frames_of_the_firmware_are_filled_and_then_written_at_full_speed() {
    let directory = tempdir().expect("a directory");
    let events = directory.path().join("events");
    let trace = ["-trace", "memory_notdirty_write_access", "-D", events.to_str().expect("text")];
    let options = trace.map(|word| format!("--qemu-arg={word}"));
    let options: Vec<_> = ["--smp=1"].into_iter().chain(options.iter().map(String::as_str)).collect();
    let output = finish(boot_outside(&options, &["stacks"]));
    assert_eq!(status(&output), Some(0), "{}", text(&output.stderr));

    // A line is `memory_notdirty_write_access 0xffffd080183a5ff8 ram_addr 0x3efeb418 size 8`.
    let mut writes = HashMap::<_, usize>::new();
    let (mut is_overwritten, mut lines) = (false, 0);
    for line in fs::read_to_string(events).expect("the file of the events").lines() {
        let words: Vec<_> = line.split(' ').collect();
        let &["memory_notdirty_write_access", address, "ram_addr", frame, "size", _] = &words[..] else { continue };
        lines += 1;
        let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("a number");
        // The firmware itself writes at low addresses, the kernel only in the upper half.
        if number(address) >> 63 != 0 {
            let count = writes.entry(number(frame) / 4096).or_default();
            *count += 1;
            is_overwritten |= *count == FILLING;
        }
    }
    assert!(lines > 0, "this QEMU cannot report writes to frames with code");
    assert!(is_overwritten, "no frame of the firmware was filled: {writes:?}");
    let slow = writes.iter().filter(|&(_, &count)| count > FILLING).collect::<Vec<_>>();
    assert!(slow.is_empty(), "frames, with the number of slow writes: {slow:x?}");
}
