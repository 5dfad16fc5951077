//! Tests of the disk driver with faulty devices. Most of them are disks in memory, into which the kernel option
//! `disk_fault` injects faults. The device of the last test is QEMU's, which reports errors. `tests/disk/faults.rs` on
//! the host runs these tests.

use core::cell::Cell;

use kernel::args;
use kernel::cancel::ContextError;
use kernel::clock;
use kernel::disk::{Disk, DiskAccess, DiskError, RequestError, disks};
use kernel::platform::Limit;
use kernel::prelude::*;

use crate::disks::{SECTOR, WAYS};
use crate::leaks::{self, Snapshot};
use crate::several::spawn_each;

/// The size of one of the driver's buffers, in bytes.
const BUFFER: usize = 64 * 1024;
/// The content of the disks at the start.
const OLD: u8 = 1;

/// Reads, writes, flushes or discards, depending on `call`. Each call has a range of the disk to itself.
fn run(access: DiskAccess<'_>, call: u64) -> Result<(), DiskError> {
    let offset = call * 4 * BUFFER as u64;
    match call % KINDS {
        // A request with several buffers.
        0 => access.read_at(offset, &mut vec![0; 3 * BUFFER]).map(|read| assert_eq!(read, 3 * BUFFER)),
        1 => access.write_at(offset, &[2; 512]),
        2 => access.flush(),
        3 => access.discard(offset, 2 * SECTOR),
        // A part of a sector: a read and a write.
        _ => access.write_at(offset + 3, &[2; 10]),
    }
}

/// The number of kinds of calls that [`run`] makes. Calls of the last kind need two requests.
const KINDS: u64 = 5;

/// Returns the way in which a call is made: an index of [`WAYS`].
fn way_of(call: u64) -> usize {
    usize::from(call / KINDS % 2 == 1)
}

/// Runs these calls at the same time, half of them blocking. Returns each with its result.
fn run_all(disk: &'static Disk, calls: impl Iterator<Item = u64>) -> Vec<(u64, Result<(), DiskError>)> {
    let calls: Vec<_> = calls.map(|call| (call, go(move || run(WAYS[way_of(call)](disk), call)))).collect();
    calls.into_iter().map(|(call, handle)| (call, handle.join().unwrap())).collect()
}

/// Random requests of this disk have a fault that concerns no other request: a short answer, an input/output error, or
/// a lost answer. Lost requests are submitted again after a reset. A request that is in flight during two resets fails,
/// even if the device would have answered it.
fn faulty_requests_fail_and_others_succeed() {
    const CALLS: u64 = 64;
    let failure = match args::option("disk_fault") {
        Some("short") => RequestError::Short,
        Some("error") => RequestError::Failed,
        Some("lose") => RequestError::Silent,
        other => panic!("{other:?} is not a fault of this test"),
    };
    let disk = &disks()[0];
    let failed = [Cell::new(0), Cell::new(0)];
    leaks::check(|| {
        let results = run_all(disk, 0..CALLS);
        let failure = Err(DiskError::Request(failure));
        assert!(results.iter().all(|(_, result)| *result == Ok(()) || *result == failure), "{results:?}");
        assert!(results.iter().any(|(_, result)| result.is_ok()));
        for (call, _) in results.iter().filter(|(_, result)| result.is_err()) {
            failed[way_of(*call)].update(|count| count + 1);
        }
        // The calls have not changed this part of the disk.
        let mut content = vec![0; BUFFER];
        while disk.asynchronous().read_at(BUFFER as u64, &mut content).is_err() {}
        assert!(content.iter().all(|&byte| byte == OLD));
    });
    println!("{failed:?} calls have failed");
    assert!(failed.iter().all(|count| count.get() != 0), "calls of both ways have failed");
}
guest_test!(faulty_requests_fail_and_others_succeed, hidden);

/// While 24 requests are in flight, the device completes one that does not exist, or one twice. Then all requests that
/// are in flight fail, and so do all later ones. Another disk is not affected. The memory of exactly those requests
/// that were in flight is never used again.
fn wrong_completion_fails_everything_in_flight() {
    // Each of these calls needs one request. The host has chosen the number of the request with the fault such that it
    // is one of the fourth round of the bad disk. The rounds before are the warm-up.
    const CALLS: usize = 24;
    let calls = || (0..30).filter(|call| call % KINDS != KINDS - 1);
    let broken = Err(DiskError::Request(RequestError::Broken));
    let [bad, good] = disks() else { panic!("two disks") };
    let gs = num_goroutine();
    for disk in [good, bad, bad, bad] {
        assert!(run_all(disk, calls()).iter().all(|(_, result)| result.is_ok()), "the fault comes later");
    }
    let before = Snapshot::take(gs);
    let start = clock::now();
    let results = run_all(bad, calls());
    let took = clock::now() - start;
    assert!(took < 10_000_000_000, "{took} ns: the interrupt must end the requests, not the reset after 30 s");
    assert!(results.iter().all(|(_, result)| *result == Ok(()) || *result == broken), "{results:?}");
    let failed: Vec<u64> = results.iter().filter(|(_, result)| result.is_err()).map(|&(call, _)| call).collect();
    assert!([0, 1].iter().all(|&way| failed.iter().any(|&call| way_of(call) == way)) && failed.len() < CALLS);
    let buffers = failed.iter().map(|call| if call % KINDS == 0 { 3 } else { 1 }).sum();
    before.check_counts(&Snapshot::take(gs), &[buffers, 0]);

    // The locks of the sectors and the slots have been released.
    leaks::check(|| {
        let results = run_all(bad, calls());
        assert!(results.iter().all(|(_, result)| *result == broken), "{results:?}");
    });
    assert!(run_all(good, calls()).iter().all(|(_, result)| result.is_ok()), "the other disk");
}
guest_test!(wrong_completion_fails_everything_in_flight, hidden);

/// The second request of each disk is lost. It is a write whose limit ends the call. A later write to the same sector
/// waits until the driver has reset the device and the late write was answered.
fn late_write_is_submitted_again_after_a_reset() {
    const LIMIT: Duration = Duration::from_millis(20);
    let late = Err(DiskError::Limit(ContextError::DeadlineExceeded));
    let gs = num_goroutine();
    // The first two disks are for the warm-up.
    for (number, (disk, way)) in disks().iter().zip(WAYS.into_iter().cycle()).enumerate() {
        assert_eq!(way(disk).write_at(SECTOR, &[2; 512]), Ok(()));
        let before = Snapshot::take(gs);
        let (requests, _) = disk.requests();
        assert_eq!(way(disk).write_at_until(0, &vec![3; 2 * BUFFER], Limit::after(LIMIT)), late);
        assert_eq!(disk.requests(), (requests, requests - 2), "the device may still use the memory of the late write");
        assert_eq!(num_goroutine(), gs + 1, "a G waits for the late answer");
        let mut found = [0; 512];
        assert_eq!(way(disk).read_at(SECTOR, &mut found), Ok(512), "reads take no locks");
        assert!(found == [2; 512], "the late write has not happened");
        assert_eq!(way(disk).write_at(SECTOR, &[4; 512]), Ok(()));
        let mut found = [0; 1536];
        assert_eq!(way(disk).read_at(0, &mut found), Ok(1536));
        assert!(found[..512] == [3; 512] && found[512..1024] == [4; 512] && found[1024..] == [3; 512], "{found:?}");
        let now = Snapshot::take(gs);
        if number >= WAYS.len() {
            before.check_counts(&now, &[0; 4]);
        }
    }
}
guest_test!(late_write_is_submitted_again_after_a_reset, hidden);

/// The disk works on a few requests at a time, so the last ones of those in flight are answered long after the time
/// limit. All of them succeed, because the disk answers others meanwhile.
fn slow_disk_that_answers_is_not_reset() {
    const LIMIT: Duration = Duration::from_secs(1);
    let disk = &disks()[0];
    let (requests, _) = disk.requests();
    for way in WAYS {
        let start = clock::now();
        let read = move || way(disk).read_at(0, &mut [0; 512]);
        let readers = spawn_each(0..requests, |_| read);
        readers.into_iter().for_each(|reader| assert_eq!(reader.join().unwrap(), Ok(512)));
        let took = clock::now() - start;
        assert!(took > LIMIT.as_nanos() as u64 * 2, "{requests} requests took only {took} ns");
    }
}
guest_test!(slow_disk_that_answers_is_not_reset, hidden);

/// QEMU reports an error for all requests of one kind, except that reads, writes and discards fail only if they include
/// the sector [`BAD`]. The neighbours of this sector do not change, and no sector stays locked.
fn failed_requests_change_nothing_else() {
    const BAD: u64 = 1_000 * SECTOR;
    let fails = args::option("program.fails").expect("a kind of requests");
    let disk = &disks()[0];
    leaks::check(|| {
        for (way, value) in WAYS.into_iter().zip(2..) {
            let access = way(disk);
            let result =
                |is_failed: bool| if is_failed { Err(DiskError::Request(RequestError::Failed)) } else { Ok(()) };
            let is_neighbour = |from: u64, expected: u8| {
                let mut found = [0; 512];
                assert_eq!(access.read_at(from, &mut found), Ok(512));
                assert!(found == [expected; 512], "the sector at {from}: {found:?}");
            };
            for offset in [BAD - SECTOR, BAD + SECTOR] {
                assert_eq!(access.write_at(offset, &[value; 512]), Ok(()));
            }
            // Three sectors in one request.
            assert_eq!(access.write_at(BAD - SECTOR, &[value + 2; 1536]), result(fails == "write"));
            let written = if fails == "write" { value } else { value + 2 };
            is_neighbour(BAD - SECTOR, written);
            is_neighbour(BAD + SECTOR, written);
            // A part of a sector, which is read before it is written.
            assert_eq!(access.write_at(BAD + 3, &[value; 10]), result(fails == "write" || fails == "read"));
            assert_eq!(access.discard(BAD, SECTOR), result(fails == "discard"));
            assert_eq!(access.flush(), result(fails == "flush"));
            is_neighbour(BAD - SECTOR, written);
            is_neighbour(BAD + SECTOR, written);
            // All these sectors have the same lock.
            let limit = Duration::from_secs(10);
            assert_eq!(access.write_at_until(BAD - SECTOR, &[value; 512], Limit::after(limit)), Ok(()));
        }
    });
}
guest_test!(failed_requests_change_nothing_else, hidden);
