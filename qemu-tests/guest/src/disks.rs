//! Tests of disks, and of blocking in a driver. The harness does not run the tests that need disks. `tests/disk` on
//! the host runs these tests, each with disks of the lengths that the test expects.

use core::hint::black_box;
use core::mem::MaybeUninit;
use core::slice;
use core::sync::atomic::{AtomicUsize, Ordering};

use kernel::cancel::ContextError;
use kernel::clock;
use kernel::disk::{self, Disk, DiskAccess, DiskError, RequestError, disks};
use kernel::mm;
use kernel::platform::{Limit, scheduler};
use kernel::prelude::*;

use crate::leaks::Snapshot;
use crate::several::{go_each, join_all, spawn_each};

/// The two ways to access a disk.
pub(crate) const WAYS: [fn(&Disk) -> DiskAccess<'_>; 2] = [Disk::blocking, Disk::asynchronous];

/// The size of a sector in bytes.
pub(crate) const SECTOR: u64 = 512;
/// The size of one of the driver's buffers, in bytes. A request has one or several buffers.
const BUFFER: usize = 64 * 1024;

fn no_disk_is_no_error() {
    assert!(disks().is_empty());
}
guest_test!(no_disk_is_no_error);

/// Many Gs block in the device at the same time. Their delays overlap, so all of them together take hardly longer than
/// one delay. The clock of this test counts instructions.
fn delays_overlap() {
    let start = clock::now();
    join_all(go_each(0..32, move |_| disk::delay(Duration::from_millis(5)).unwrap()));
    let took = clock::now() - start;
    assert!((5_000_000..20_000_000).contains(&took), "{took} ns");
}
guest_test!(delays_overlap, smp = &[1, 8], icount);

/// Returns the byte that [`fill`] writes to `offset` of a disk. All sectors have different contents.
fn pattern(disk: usize, offset: u64) -> u8 {
    let mixed = (offset ^ (disk as u64) << 56).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ mixed >> 31).to_le_bytes()[3]
}

/// Fills all whole sectors of a disk with [`pattern`]. Returns their total length in bytes.
fn fill(index: usize, disk: &Disk) -> u64 {
    let end = disk.len_bytes() / SECTOR * SECTOR;
    let content: Vec<u8> = (0..end).map(|offset| pattern(index, offset)).collect();
    disk.write_at(0, &content).unwrap();
    end
}

/// 300 Gs read from all disks at the same time, by blocking and by asynchronous accesses. The reads have random offsets
/// and lengths. If there is only one disk, there are more Gs than the driver has buffers for this disk.
fn concurrent_reads_return_what_was_written() {
    static READ: AtomicUsize = AtomicUsize::new(0);
    const READERS: usize = 300;
    const READS: usize = 5;
    let ends: Vec<u64> = disks().iter().enumerate().map(|(index, disk)| fill(index, disk)).collect();
    assert!(ends.iter().all(|&end| end > 0), "every disk of this test has sectors");
    assert!(
        disks().iter().all(|disk| disk.requests() == (256, 256)),
        "the driver has 256 buffers for each disk, and all are free"
    );
    join_all(spawn_each(0..READERS, |reader| {
        let index = reader % disks().len();
        let (disk, end) = (&disks()[index], ends[index]);
        move || {
            let mut random = reader as u64 + 1;
            let mut next = |below: u64| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) % below
            };
            for _ in 0..READS {
                let offset = next(end);
                let wanted = usize::try_from(next(3 * BUFFER as u64).min(end - offset)).unwrap();
                let mut buffer = vec![0; wanted];
                let access = WAYS[reader / 2 % 2](disk);
                assert_eq!(access.read_at(offset, &mut buffer), Ok(wanted));
                let wrong = (offset..).zip(&buffer).find(|&(offset, &byte)| byte != pattern(index, offset));
                assert_eq!(wrong, None, "disk {index}, {wanted} bytes from {offset} on");
                READ.fetch_add(1, Ordering::Relaxed);
            }
        }
    }));
    assert_eq!(READ.load(Ordering::Relaxed), READERS * READS);
}
guest_test!(concurrent_reads_return_what_was_written, hidden);

/// A write does not change the bytes around its range, and writes past the end are refused.
fn writes_stay_within_their_range_and_the_disk() {
    let disk = &disks()[0];
    let length = disk.len_bytes();
    let end = fill(0, disk);
    assert!(end < length, "the last sector of this disk is not whole");
    let mut buffer = vec![0xff; BUFFER + 1];

    assert_eq!(disk.read_at(0, &mut []), Ok(0));
    assert_eq!(disk.read_at(length, &mut buffer), Ok(0));
    assert_eq!(disk.read_at(length - 1, &mut buffer), Ok(1));
    assert!(buffer[1..].iter().all(|&byte| byte == 0xff), "what was not read is not written to");
    for offset in [length + 1, u64::MAX] {
        assert_eq!(disk.read_at(offset, &mut buffer), Err(DiskError::OutOfRange));
        assert_eq!(disk.write_at(offset, &[0; 512]), Err(DiskError::OutOfRange));
    }
    assert_eq!(disk.write_at(end, &[1; 512]), Err(DiskError::OutOfRange), "the last sector is only partly in the file");
    let mut model = vec![0; usize::try_from(length).unwrap()];
    assert_eq!(disk.read_at(0, &mut model), Ok(model.len()));
    assert!((0..end).zip(&model).all(|(offset, &byte)| byte == pattern(0, offset)));
    let buffer_bytes = BUFFER as u64;
    let ranges = [
        (0, 0),
        (SECTOR, 512),
        (1, 1),
        (SECTOR - 1, 2),
        (5 * SECTOR + 3, 509),
        (6 * SECTOR, 511),
        (9 * SECTOR - 1, 1_026),
        (buffer_bytes - 1, 3),
        (17, BUFFER + 7),
        (1, BUFFER + 1_023),
        (end - 1, usize::try_from(length - end).unwrap() + 1),
    ];
    let mut content = vec![0; model.len()];
    for (number, (offset, count)) in ranges.into_iter().enumerate() {
        let access = WAYS[number % 2](disk);
        let start = usize::try_from(offset).unwrap();
        let data: Vec<u8> = (0..count).map(|index| (index as u8).wrapping_mul(3) ^ number as u8 ^ 0x80).collect();
        assert_eq!(access.write_at(offset, &data), Ok(()), "{count} bytes at {offset}");
        model[start..start + count].copy_from_slice(&data);
        assert_eq!(access.read_at(0, &mut content), Ok(model.len()));
        let wrong = model.iter().zip(&content).position(|(expected, found)| expected != found);
        assert_eq!(wrong, None, "{count} bytes at {offset}");
    }
    assert_eq!(disk.blocking().flush(), Ok(()));
    assert_eq!(disk.asynchronous().flush(), Ok(()));

    // Sectors that are only partly discarded keep their contents.
    let (first, last) = (3 * SECTOR + 1, 7 * SECTOR + 1);
    assert_eq!(disk.asynchronous().discard(first, last - first), Ok(()));
    assert_eq!(disk.blocking().discard(first, length), Err(DiskError::OutOfRange));
    assert_eq!(disk.read_at(0, &mut content), Ok(model.len()));
    let kept = |offset: u64| !(4 * SECTOR..7 * SECTOR).contains(&offset);
    assert!((0..).zip(model.iter().zip(&content)).all(|(offset, (old, new))| old == new || !kept(offset)));
}
guest_test!(writes_stay_within_their_range_and_the_disk, hidden);

fn read_only_disk_refuses_writes() {
    let disk = &disks()[0];
    assert!(disk.is_read_only());
    assert_eq!(disk.write_at(0, &[1; 512]), Err(DiskError::ReadOnly));
    assert_eq!(disk.asynchronous().write_at(1, &[1; 3]), Err(DiskError::ReadOnly));
    assert_eq!(disk.asynchronous().discard(0, 1_024), Err(DiskError::ReadOnly));
    assert_eq!(disk.asynchronous().flush(), Ok(()));
    assert_eq!(disk.read_at(0, &mut [0; 512]), Ok(512), "it can be read all the same");
}
guest_test!(read_only_disk_refuses_writes, hidden);

/// Each blocking read hands off the P of its G, however short the read is. Ms are started as needed.
fn every_read_hands_off_its_p() {
    const READERS: usize = 32;
    let scheduler = scheduler().expect("the scheduler runs");
    let before = scheduler.counts().handoffs;
    let read = || {
        let mut buffer = [0; 8];
        disks()[0].read_at(1_000, &mut buffer)
    };
    let readers = spawn_each(0..READERS, |_| read);
    assert!(readers.into_iter().all(|reader| reader.join().unwrap() == Ok(8)));
    assert_eq!(scheduler.counts().handoffs - before, READERS as u64);
    assert!(scheduler.machines().count() > procs());
}
guest_test!(every_read_hands_off_its_p, hidden);

/// Asynchronous reads need no further Ms, and hand off no P.
fn asynchronous_reads_park_only_their_gs() {
    const READERS: usize = 300;
    let scheduler = scheduler().expect("the scheduler runs");
    let before = (scheduler.counts().handoffs, scheduler.machines().count());
    let readers = go_each(0..READERS, move |reader| {
        let mut buffer = [0; 8];
        disks()[0].asynchronous().read_at(reader as u64, &mut buffer)
    });
    assert!(readers.into_iter().all(|reader| reader.join().unwrap() == Ok(8)));
    // Ms of earlier calls may have ended meanwhile.
    let (handoffs, machines) = before;
    assert_eq!(scheduler.counts().handoffs, handoffs);
    assert!(scheduler.machines().count() <= machines);
}
guest_test!(asynchronous_reads_park_only_their_gs, hidden);

/// A thousand Gs write to the disk and read what they have written, by blocking and by asynchronous accesses. Each G
/// has bytes of its own, but shares sectors with its neighbours.
fn thousand_gs_read_and_write_parts_of_the_same_sectors() {
    const WRITERS: usize = 1_000;
    /// The number of bytes that each G writes. It is not a multiple of the sector size.
    const OWN: usize = 701;
    let disk = &disks()[0];
    assert!(disk.len_bytes() > (WRITERS * OWN) as u64);
    let writers = go_each(0..WRITERS, move |writer| {
        let own = (writer * OWN) as u64;
        let mut model = [0; OWN];
        let access = |round: usize| WAYS[(writer + round) % 2](disk);
        assert_eq!(access(0).read_at(own, &mut model), Ok(OWN));
        for round in 0..4 {
            let (start, count) = ((writer * 37 + round * 211) % OWN, (writer * 113 + round * 59) % OWN);
            let range = start..OWN.min(start + count);
            model[range.clone()].fill((writer * 7 + round) as u8);
            let offset = own + range.start as u64;
            assert_eq!(access(round).write_at(offset, &model[range]), Ok(()));
            let mut found = [0; OWN];
            assert_eq!(access(round + 1).read_at(own, &mut found), Ok(OWN));
            assert!(found == model, "G {writer} in round {round}");
        }
        model
    });
    let models: Vec<_> = join_all(writers);
    let mut all = vec![0; WRITERS * OWN];
    assert_eq!(disk.asynchronous().read_at(0, &mut all), Ok(all.len()));
    assert!(all.chunks(OWN).eq(models.iter().map(|model| &model[..])));
    let (requests, free) = disk.requests();
    assert_eq!(free, requests, "a buffer is lost");
}
guest_test!(thousand_gs_read_and_write_parts_of_the_same_sectors, hidden);

/// Reads and writes have random offsets and lengths. Many of them take several requests of several buffers each. The
/// first half of the disk stays as it is, and all Gs read from it. Each G writes to a part of the second half, which it
/// shares with no other G.
fn large_transfers_return_what_was_written() {
    let disk = &disks()[0];
    let half = disk.len_bytes() / 2;
    let constant: Vec<u8> = (0..half).map(|offset| pattern(0, offset)).collect();
    disk.write_at(0, &constant).unwrap();
    let constant: &'static [u8] = constant.leak();
    for (gs, longest) in [(1, 3 << 20), (8, 3 << 19), (1_000, 5 * BUFFER / 2)] {
        let own = usize::try_from(half).unwrap() / gs;
        join_all(go_each(0..gs, move |g| {
            let mut random = g as u64 + 1;
            let mut next = |below: usize| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                usize::try_from(random >> 33).unwrap() % below
            };
            let start = half + (g * own) as u64;
            let mut model = vec![g as u8; own];
            WAYS[g % 2](disk).write_at(start, &model).unwrap();
            for round in 0..3 {
                let access = WAYS[(g + round) % 2](disk);
                let length = next(longest);
                let offset = next(constant.len() - length);
                let mut found = vec![0; length];
                assert_eq!(access.read_at(offset as u64, &mut found), Ok(length));
                assert!(found == constant[offset..offset + length], "{length} bytes from {offset} on");
                let length = next(own);
                let offset = next(own - length);
                found.resize(length, 0);
                found.iter_mut().zip(1..).for_each(|(byte, index)| *byte = (index >> 3) as u8 ^ round as u8);
                model[offset..offset + length].copy_from_slice(&found);
                assert_eq!(access.write_at(start + offset as u64, &found), Ok(()));
                found.resize(own, 0);
                assert_eq!(access.read_at(start, &mut found), Ok(own));
                assert!(found == model, "G {g} in round {round}: {length} bytes at {offset}");
            }
        }));
        let (requests, free) = disk.requests();
        assert_eq!(free, requests, "a buffer is lost");
    }
}
guest_test!(large_transfers_return_what_was_written, hidden);

/// Reads fill a buffer on the stack of a G. The buffer covers several pages, and none of them has been touched before:
/// the G has a new stack, because no other G of this machine has asked for a stack of this size.
fn untouched_buffers_on_a_stack_are_filled() {
    const LENGTH: usize = 40_000;
    #[inline(never)]
    #[expect(unsafe_code, reason = "uses memory that has not been written")]
    fn read(access: DiskAccess<'_>) -> bool {
        let mut buffer = MaybeUninit::<[u8; LENGTH]>::uninit();
        let start: *mut u8 = black_box(buffer.as_mut_ptr()).cast();
        // SAFETY: the variable is not used otherwise. The compiler must assume that `black_box` has initialised it. On
        // the machine, the memory of a new stack contains zeros.
        let buffer = unsafe { slice::from_raw_parts_mut(start, LENGTH) };
        let read = access.read_at(3, &mut buffer[1..]);
        read == Ok(buffer.len() - 1) && (3..).zip(&buffer[1..]).all(|(offset, &byte)| byte == pattern(0, offset))
    }
    let disk = &disks()[0];
    fill(0, disk);
    for (size, way) in [200_000, 1_000_000].into_iter().zip(WAYS) {
        assert!(Builder::new().stack_size(size).go(move || read(way(disk))).join().unwrap());
    }
}
guest_test!(untouched_buffers_on_a_stack_are_filled, hidden);

/// The disk of this test is slow: it answers only a few requests in a second. So most calls that have a limit are ended
/// by their limit. How many calls are ended depends on the host, whereas in the next test it is certain how each call
/// ends. After the late answers, all the driver's buffers are free again, and no memory is lost.
fn limits_end_calls_to_a_slow_disk() {
    const CALLS: usize = 20;
    let disk = &disks()[0];
    let alive = num_goroutine();
    let round = || {
        let before = Snapshot::take(alive);
        let calls = go_each(0..CALLS, move |call| {
            let access = WAYS[call % 2](disk);
            let (context, cancel) = Context::background().with_cancel();
            let mut buffer = [0; 512];
            if call / 2 % 2 == 0 {
                let limit = Duration::from_millis(1);
                let read = access.read_at_until(call as u64 * SECTOR, &mut buffer, Limit::after(limit));
                let late = Err(DiskError::Limit(ContextError::DeadlineExceeded));
                assert!(read == Ok(512) || read == late, "{read:?}");
                return read.is_err();
            }
            let cancels = go(move || {
                sleep(Duration::from_millis(1));
                cancel.cancel();
            });
            let write = access.write_at_until(call as u64 * SECTOR, &[call as u8; 512], &context);
            cancels.join().unwrap();
            assert!(write == Ok(()) || write == Err(DiskError::Limit(ContextError::Canceled)), "{write:?}");
            write.is_err()
        });
        let ended = calls.into_iter().map(|call| call.join().unwrap()).filter(|&ended| ended).count();
        println!("{ended} of {CALLS} calls were ended by their limit");
        // This write waits for the late writes to the same sectors, so its data is not overwritten.
        assert_eq!(disk.asynchronous().write_at(0, &vec![9; CALLS * 512]), Ok(()));
        let mut content = vec![0; CALLS * 512];
        assert_eq!(disk.blocking().read_at(0, &mut content), Ok(content.len()));
        assert!(content.iter().all(|&byte| byte == 9), "a late write has overwritten a later one");
        // The late requests have been answered, so as many slots, buffers, Gs and stacks are in use as before.
        let now = Snapshot::take(alive);
        before.check_counts(&now, &[0]);
        // The pages of cached stacks are not free, but are used again.
        let usage = mm::usage();
        usage.free + usage.stacks_committed
    };
    // A round may need more memory than the previous round, for example for further Ms. Only a leak would take more
    // memory in every round.
    let mut last = round();
    let is_stable = (0..10).any(|_| {
        let (before, now) = (last, round());
        last = now;
        now >= before
    });
    assert!(is_stable, "each round needs more memory");
}
guest_test!(limits_end_calls_to_a_slow_disk, hidden);

/// The device of this test answers the first write and all requests that are not writes. It answers no other write
/// until it is reset. When a limit ends the call of an unanswered write, the write keeps its buffers and the locks of
/// its sectors, because the device may still perform the write. A discard of these sectors waits for the locks. A
/// cancellation ends a call in the same way as a deadline.
fn late_write_keeps_its_slot_and_its_sectors() {
    const LIMIT: Duration = Duration::from_millis(20);
    const FAR: u64 = 64 * BUFFER as u64;
    let late = Err(DiskError::Limit(ContextError::DeadlineExceeded));
    let disk = &disks()[0];
    let (requests, _) = disk.requests();
    assert_eq!(disk.write_at(0, &[1; 512]), Ok(()), "the first write is answered");
    for way in WAYS {
        assert_eq!(way(disk).discard(0, SECTOR), Ok(()));
    }
    assert_eq!(disk.asynchronous().write_at_until(0, &[2; 512], Limit::after(LIMIT)), late);
    assert_eq!(disk.requests(), (requests, requests - 1), "the device may still use the memory of the late write");
    for way in WAYS {
        assert_eq!(
            way(disk).discard_until(0, SECTOR, Limit::after(LIMIT)),
            late,
            "the device may still write to these sectors"
        );
        assert_eq!(way(disk).discard(FAR, disk.len_bytes() - FAR), Ok(()), "other sectors");
        assert_eq!(way(disk).read_at(FAR, &mut [0; 100]), Ok(100));
    }
    assert_eq!(disk.requests(), (requests, requests - 1));
    assert_eq!(disk.asynchronous().write_at_until(FAR, &vec![3; 2 * BUFFER], Limit::after(LIMIT)), late);
    assert_eq!(disk.requests(), (requests, requests - 3), "a write with two buffers keeps both");
    for (way, sector) in WAYS.into_iter().zip(8..) {
        let (context, cancel) = Context::background().with_cancel();
        let cancels = go(move || cancel.cancel());
        let canceled = Err(DiskError::Limit(ContextError::Canceled));
        assert_eq!(way(disk).write_at_until(sector * SECTOR, &[3; 512], &context), canceled);
        cancels.join().unwrap();
    }
}
guest_test!(late_write_keeps_its_slot_and_its_sectors, hidden);

/// The device answers the first write and no other, as in the previous test. While the second write waits for its
/// answer, reads are answered. After a time limit the driver resets the device and sends the write again. When the
/// write is not answered in time again, it fails.
fn lost_request_times_out_while_others_are_answered() {
    let disk = &disks()[0];
    assert_eq!(disk.write_at(0, &[1; 512]), Ok(()), "the first write is answered");
    let lost = go(move || disk.asynchronous().write_at(0, &vec![2; BUFFER + 512]));
    while !lost.is_finished() {
        assert_eq!(disk.asynchronous().read_at(SECTOR, &mut [0; 512]), Ok(512));
    }
    assert_eq!(lost.join().unwrap(), Err(DiskError::Request(RequestError::Silent)));
    let (requests, free) = disk.requests();
    assert_eq!(free, requests, "a buffer is lost");
}
guest_test!(lost_request_times_out_while_others_are_answered, hidden);

/// The length of each disk is not a multiple of the block size of its device.
fn whole_length_of_each_disk_can_be_read() {
    for disk in disks() {
        println!("{} bytes", disk.len_bytes());
        let length = disk.len_bytes() as usize;
        assert_eq!(disk.read_at(0, &mut vec![0; length + 1]), Ok(length));
        assert_eq!(disk.read_at(disk.len_bytes() - 1, &mut [0; 2]), Ok(1));
        assert_eq!(disk.read_at(disk.len_bytes(), &mut [0; 2]), Ok(0));
    }
}
guest_test!(whole_length_of_each_disk_can_be_read, hidden);

/// The host unplugs the second disk while Gs read from both disks. The reads that wait for the second disk at that time
/// fail after the driver's time limit. Later reads from the second disk fail at once. The first disk still works.
fn unplugged_disk_fails_every_request() {
    const READERS: usize = 64;
    let [good, bad] = disks() else { panic!("two disks") };
    let (requests, _) = bad.requests();
    let readers = go_each(0..READERS, move |reader| {
        // A read of `3 * BUFFER` bytes needs several of the driver's buffers.
        let mut buffer = vec![0; if reader % 3 == 0 { 3 * BUFFER } else { 512 }];
        loop {
            assert_eq!(good.asynchronous().read_at(reader as u64 * SECTOR, &mut [0; 512]), Ok(512));
            if let Err(error) = WAYS[reader % 2](bad).read_at(reader as u64 * SECTOR, &mut buffer) {
                return error;
            }
        }
    });
    println!("reading");
    let gone = DiskError::Request(RequestError::Gone);
    readers.into_iter().for_each(|reader| assert_eq!(reader.join().unwrap(), gone));
    for _ in 0..2 * requests {
        assert_eq!(bad.asynchronous().read_at(0, &mut [0; 512]), Err(gone));
    }
    assert_eq!(bad.requests(), (requests, requests), "failed requests do not keep their slots");
    assert_eq!(good.read_at(0, &mut [0; 512]), Ok(512));
}
guest_test!(unplugged_disk_fails_every_request, hidden);

/// The device reports an error for some requests. All other requests succeed, and all the driver's buffers are free in
/// the end.
fn errors_of_the_device_are_returned_to_their_callers() {
    let disk = &disks()[0];
    let bad = 1_000 * SECTOR;
    for way in WAYS {
        join_all(go_each(0..200_u64, move |reader| {
            // A read of `3 * BUFFER` bytes needs several of the driver's buffers.
            let mut buffer = vec![0; if reader % 10 == 0 { 3 * BUFFER } else { 512 }];
            let offset = if reader % 3 == 0 { bad } else { reader * SECTOR };
            let failed = Err(DiskError::Request(RequestError::Failed));
            let expected = if offset == bad { failed } else { Ok(buffer.len()) };
            assert_eq!(way(disk).read_at(offset, &mut buffer), expected, "at {offset}");
        }));
    }
    let (requests, free) = disk.requests();
    assert_eq!(free, requests, "a buffer is lost");
}
guest_test!(errors_of_the_device_are_returned_to_their_callers, hidden);
