//! Tests of disks, and of blocking in a driver. The harness does not run the tests that need disks. `tests/disk.rs` on
//! the host runs these tests, with files of the expected lengths.

use core::sync::atomic::{AtomicUsize, Ordering};

use kernel::clock;
use kernel::disk::{self, Disk, DiskError, disks};
use kernel::platform::scheduler;
use kernel::prelude::*;

/// The size of a sector in bytes.
const SECTOR: u64 = 512;
/// The maximum size of one request to the device, in bytes.
const REQUEST: usize = 64 * 1024;

fn no_disk_is_no_error() {
    assert!(disks().is_empty());
}
guest_test!(no_disk_is_no_error);

/// Many Gs block in the device at the same time. Their delays overlap, so all of them together take hardly longer than
/// one delay. Time is counted in instructions.
fn delays_overlap() {
    let start = clock::now();
    let blocked: Vec<_> = (0..32).map(|_| go(|| disk::delay(Duration::from_millis(5)).unwrap())).collect();
    blocked.into_iter().for_each(|handle| handle.join().unwrap());
    let took = clock::now() - start;
    assert!((5_000_000..20_000_000).contains(&took), "{took} ns");
}
guest_test!(delays_overlap, smp = &[1, 8], icount);

/// Returns the byte at `offset` of a disk after [`fill`]. All sectors differ.
fn pattern(disk: usize, offset: u64) -> u8 {
    let mixed = (offset ^ (disk as u64) << 56).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ mixed >> 31).to_le_bytes()[3]
}

/// Writes all whole sectors of a disk. Returns their total length in bytes.
fn fill(index: usize, disk: &Disk) -> u64 {
    let end = disk.len_bytes() / SECTOR * SECTOR;
    let content: Vec<u8> = (0..end).map(|offset| pattern(index, offset)).collect();
    disk.write_at(0, &content).unwrap();
    end
}

/// Many Gs, more than the device's queue has entries, read from all disks at the same time. The reads have all kinds of
/// lengths and offsets.
fn concurrent_reads_return_what_was_written() {
    static READ: AtomicUsize = AtomicUsize::new(0);
    const READERS: usize = 64;
    const READS: usize = 20;
    let ends: Vec<u64> = disks().iter().enumerate().map(|(index, disk)| fill(index, disk)).collect();
    assert!(ends.iter().all(|&end| end > 0), "every disk of this test has sectors");
    let readers: Vec<_> = (0..READERS)
        .map(|reader| {
            let index = reader % disks().len();
            let (disk, end) = (&disks()[index], ends[index]);
            go(move || {
                let mut random = reader as u64 + 1;
                let mut next = |below: u64| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (random >> 33) % below
                };
                for _ in 0..READS {
                    let offset = next(end);
                    let wanted = usize::try_from(next(3 * REQUEST as u64).min(end - offset)).unwrap();
                    let mut buffer = vec![0; wanted];
                    assert_eq!(disk.read_at(offset, &mut buffer), Ok(wanted));
                    let wrong = (offset..).zip(&buffer).find(|&(offset, &byte)| byte != pattern(index, offset));
                    assert_eq!(wrong, None, "disk {index}, {wanted} bytes from {offset} on");
                    READ.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    assert_eq!(READ.load(Ordering::Relaxed), READERS * READS);
}
guest_test!(concurrent_reads_return_what_was_written, hidden);

/// A write does not change the bytes around its range, and writes past the end are refused.
fn writes_stay_within_their_range_and_the_disk() {
    let disk = &disks()[0];
    let length = disk.len_bytes();
    let end = fill(0, disk);
    assert!(end < length, "the last sector of this disk is not whole");
    let mut buffer = vec![0xff; REQUEST + 1];

    assert_eq!(disk.read_at(0, &mut []), Ok(0));
    assert_eq!(disk.read_at(length, &mut buffer), Ok(0));
    assert_eq!(disk.read_at(length - 1, &mut buffer), Ok(1));
    assert!(buffer[1..].iter().all(|&byte| byte == 0xff), "what was not read is not written to");
    for offset in [length + 1, u64::MAX] {
        assert_eq!(disk.read_at(offset, &mut buffer), Err(DiskError::OutOfRange));
        assert_eq!(disk.write_at(offset, &[0; 512]), Err(DiskError::OutOfRange));
    }
    assert_eq!(disk.write_at(end, &[1; 512]), Err(DiskError::OutOfRange), "the last sector is not all of the file's");
    for (offset, count) in [(1, 512), (0, 511), (512, 1)] {
        assert_eq!(disk.write_at(offset, &vec![1; count]), Err(DiskError::Unaligned));
    }
    assert_eq!(disk.write_at(0, &[]), Ok(()));

    assert_eq!(disk.write_at(SECTOR, &[7; 512]), Ok(()));
    assert_eq!(disk.read_at(SECTOR - 1, &mut buffer[..514]), Ok(514));
    assert_eq!(buffer[0], pattern(0, SECTOR - 1));
    assert_eq!(buffer[1..513], [7; 512]);
    assert_eq!(buffer[513], pattern(0, 2 * SECTOR));
}
guest_test!(writes_stay_within_their_range_and_the_disk, hidden);

fn read_only_disk_refuses_writes() {
    let disk = &disks()[0];
    assert!(disk.is_read_only());
    assert_eq!(disk.write_at(0, &[1; 512]), Err(DiskError::ReadOnly));
    assert_eq!(disk.read_at(0, &mut [0; 512]), Ok(512), "it can be read all the same");
}
guest_test!(read_only_disk_refuses_writes, hidden);

/// Each read hands off the P of its G, however short the read is. Ms are started as needed.
fn every_read_hands_off_its_p() {
    const READERS: usize = 32;
    let scheduler = scheduler().expect("the scheduler runs");
    let before = scheduler.counts().handoffs;
    let read = || {
        let mut buffer = [0; 8];
        disks()[0].read_at(1_000, &mut buffer)
    };
    let readers: Vec<_> = (0..READERS).map(|_| go(read)).collect();
    assert!(readers.into_iter().all(|reader| reader.join().unwrap() == Ok(8)));
    assert_eq!(scheduler.counts().handoffs - before, READERS as u64);
    assert!(scheduler.machines().count() > procs());
}
guest_test!(every_read_hands_off_its_p, hidden);
