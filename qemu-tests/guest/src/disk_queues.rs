//! Tests of the queues of a disk. `tests/disk/queues.rs` on the host runs these tests, with different numbers of
//! queues.

use core::sync::atomic::{AtomicUsize, Ordering};

use kernel::args;
use kernel::disk::disks;
use kernel::internals::served_disk_requests;
use kernel::percpu;
use kernel::platform::lock_thread;
use kernel::prelude::*;

use crate::disks::{SECTOR, WAYS};
use crate::several::{go_each, join_all, spawn_each};

/// A G that is locked to its M reads from the disk, while no other G runs. Each request is answered in the queue of the
/// G's CPU. The interrupts of a queue come on one CPU, whose number is that of the queue.
fn requests_use_the_queue_of_their_cpu() {
    const READS: usize = 200;
    let disk = &disks()[0];
    let queues = served_disk_requests(0).len();
    assert_eq!(args::option("program.queues"), Some(queues.to_string().as_str()));
    let _locked = lock_thread();
    let mut expected = served_disk_requests(0);
    for read in 0..READS {
        // The M moves to another CPU from time to time.
        sleep(Duration::from_micros(read as u64 % 5 * 100));
        let queue = percpu::current().index() % queues;
        expected[queue][queue] += 1;
        assert_eq!(WAYS[read % 2](disk).read_at(read as u64 * SECTOR, &mut [0; 512]), Ok(512));
        assert_eq!(served_disk_requests(0), expected, "read {read}");
    }
}
guest_test!(requests_use_the_queue_of_their_cpu, hidden);

/// There is one P, so all Gs run on one CPU at a time. The queue of this CPU has fewer buffers than there are Gs.
/// Nevertheless all Gs have buffers at the same time. When all buffers of the device are in use, further Gs wait.
fn one_cpu_can_use_all_buffers() {
    let disk = &disks()[0];
    let (requests, free) = disk.requests();
    let queues = served_disk_requests(0).len();
    let some = requests * 3 / 4;
    assert!(queues > 1 && requests / queues < some && some < requests, "{queues} queues, {requests} requests");
    assert_eq!(free, requests);
    for count in [some, 2 * requests] {
        let reads = go_each(0..count, move |read| disk.asynchronous().read_at(read as u64 * SECTOR, &mut [0; 512]));
        while disk.requests().1 != requests.saturating_sub(count) {
            assert!(reads.iter().all(|read| !read.is_finished()), "not all requests had buffers at the same time");
            yield_now();
        }
        assert!(reads.into_iter().all(|read| read.join().unwrap() == Ok(512)));
        assert_eq!(disk.requests(), (requests, requests));
    }
}
guest_test!(one_cpu_can_use_all_buffers, hidden);

/// There are more Gs than buffers, and each request needs one or several buffers. So some Gs wait for the queue of
/// their own CPU, while others use the buffers of the queues of other CPUs. Each G gets the bytes that it has asked
/// for.
fn requests_of_all_lengths_end_while_all_buffers_are_in_use() {
    const READS: usize = 20;
    let disk = &disks()[0];
    let (requests, _) = disk.requests();
    assert!(served_disk_requests(0).len() > 1, "several queues");
    let mut content = vec![0; usize::try_from(disk.len_bytes()).unwrap()];
    assert_eq!(disk.read_at(0, &mut content), Ok(content.len()));
    let content: Arc<[u8]> = content.into();
    let most_in_use = Arc::new(AtomicUsize::new(0));
    join_all(spawn_each(0..2 * requests, |reader| {
        let (content, most_in_use) = (content.clone(), most_in_use.clone());
        move || {
            // Every eighth G needs several buffers.
            let sectors = if reader % 8 == 0 { 300 } else { 1 };
            let mut buffer = vec![0; sectors * SECTOR as usize];
            for read in 0..READS {
                let from = (reader * 769 + read * 131) % 90_000;
                assert_eq!(WAYS[reader % 2](disk).read_at(from as u64, &mut buffer), Ok(buffer.len()));
                assert!(buffer == content[from..from + buffer.len()], "read {read} of G {reader}");
                most_in_use.fetch_max(requests - disk.requests().1, Ordering::Relaxed);
            }
        }
    }));
    assert_eq!(disk.requests(), (requests, requests), "a buffer is lost");
    let most = most_in_use.load(Ordering::Relaxed);
    assert!(most > requests * 3 / 4, "at most {most} of {requests} buffers were in use");
}
guest_test!(requests_of_all_lengths_end_while_all_buffers_are_in_use, hidden);
