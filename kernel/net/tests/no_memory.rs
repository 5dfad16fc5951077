//! What the network does if an allocation fails. Each operation is called with its first allocation failing, then with
//! its second, and so on, until it succeeds. A failure is the error `OutOfResources`, and what was allocated before it
//! is freed. If an allocation fails in a function that returns no error for it, the standard library ends the process.
//!
//! This test is alone in its process, because it replaces the allocator.

#[path = "shared/guarded.rs"]
mod guarded;

use std::alloc::{GlobalAlloc, Layout, System};
use std::net::Ipv4Addr;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, AtomicUsize, Ordering};

use gmp_sched::native::{self, Limit, Native, go, yield_now};
use gmp_sched::platform::Pinned;
use kernel_net::sim::Network;
use kernel_net::{Configuration, Link, Loopback, NetError, PAGE_BYTES, ROOM_PAGES, Room, StackListener, UdpSocket};

type Stack = kernel_net::Stack<Native>;
type TcpListener = kernel_net::TcpListener<StackListener<Native>>;
type TcpStream = kernel_net::TcpStream<kernel_net::StackStream<Native>>;

/// The system's allocator, except that chosen allocations fail.
struct Failing;

#[global_allocator]
static ALLOCATOR: Failing = Failing;

/// The id of the G whose allocations count, `ALL` for those of all Gs, or 0.
static COUNTED: AtomicU64 = AtomicU64::new(0);
const ALL: u64 = u64::MAX;
/// How many allocations succeed before one fails.
static LEFT: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Whether all allocations after that one fail, too.
static ALL_FAIL: AtomicBool = AtomicBool::new(false);
/// How many allocations have failed.
static FAILED: AtomicUsize = AtomicUsize::new(0);
/// How many bytes were allocated, and not freed, while they were counted.
static LIVE: AtomicIsize = AtomicIsize::new(0);

/// Returns the id of the calling G, or 0 if there is none.
fn caller() -> u64 {
    let pinned = Pinned::<Native>::new();
    let machine = pinned.try_machine();
    machine.and_then(|machine| machine.current_goroutine()).map_or(0, |goroutine| goroutine.id().get())
}

/// Whether the caller's allocations count.
fn is_counted() -> bool {
    match COUNTED.load(Ordering::Relaxed) {
        0 => false,
        ALL => caller() != 0,
        counted => counted == caller(),
    }
}

// SAFETY: every call is forwarded to the system's allocator, which fulfils the contract of `GlobalAlloc`, or allocates
// nothing and returns a null pointer, as the contract permits.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_counted() {
            let left = LEFT.load(Ordering::Relaxed);
            if left == 0 {
                FAILED.fetch_add(1, Ordering::Relaxed);
                LEFT.store(if ALL_FAIL.load(Ordering::Relaxed) { 0 } else { usize::MAX }, Ordering::Relaxed);
                return ptr::null_mut();
            }
            LEFT.store(left - 1, Ordering::Relaxed);
            LIVE.fetch_add(layout.size().cast_signed(), Ordering::Relaxed);
        }
        // SAFETY: `System.alloc` has the same contract, which our caller fulfils.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        if is_counted() {
            LIVE.fetch_sub(layout.size().cast_signed(), Ordering::Relaxed);
        }
        // SAFETY: `System.dealloc` has the same contract, which our caller fulfils: `address` came from `System.alloc`.
        unsafe { System.dealloc(address, layout) }
    }
}

/// Calls `operation` with its first allocation failing, then with its second, and so on, until it succeeds. A call that
/// fails may leave memory behind for the next one, but not each time.
fn without_memory<R>(mut operation: impl FnMut() -> Result<R, NetError>) -> R {
    for number in 0.. {
        for attempt in 0.. {
            LIVE.store(0, Ordering::Relaxed);
            FAILED.store(0, Ordering::Relaxed);
            LEFT.store(number, Ordering::Relaxed);
            COUNTED.store(caller(), Ordering::Relaxed);
            let result = operation();
            COUNTED.store(0, Ordering::Relaxed);
            match result {
                Ok(result) if FAILED.load(Ordering::Relaxed) == 0 => {
                    assert!(number > 0 || attempt > 0, "the operation allocates nothing");
                    return result;
                }
                Ok(_) => panic!("allocation {number} fails, and the operation succeeds"),
                Err(error) => assert_eq!(error, NetError::OutOfResources, "allocation {number}"),
            }
            if LIVE.load(Ordering::Relaxed) == 0 {
                break;
            }
            assert!(attempt < 20, "each failure of allocation {number} leaves memory behind");
        }
    }
    unreachable!("no operation allocates for ever")
}

fn configuration(shards: usize) -> Configuration {
    Configuration { address: Some((Ipv4Addr::LOCALHOST, 8)), seed: 7, shards, ..Configuration::default() }
}

/// Makes a stack without memory: a loopback, or one over a device, which has to get its device again.
fn make(shards: usize, is_loopback: bool) -> &'static Stack {
    let mut device: Option<&'static mut dyn Link> = Some(Box::leak(Box::new(Loopback::new())));
    let made = without_memory(|| {
        if is_loopback {
            return Ok(Stack::on_loopback(guarded::make, &configuration(shards))?);
        }
        let link = device.take().expect("an attempt that failed has returned it");
        Stack::new(link, guarded::make, &configuration(shards)).map_err(|link| {
            device = Some(link);
            NetError::OutOfResources
        })
    });
    let stack: &'static Stack = Box::leak(Box::new(made));
    (0..stack.servers()).for_each(|number| go(move || stack.serve(number)).detach());
    stack
}

/// Sends data to the other end.
fn send([from, to]: [&TcpStream; 2], data: &[u8]) {
    from.write_all(data).unwrap();
    let mut received = vec![0; data.len()];
    let mut filled = 0;
    while filled < data.len() {
        filled += to.read(&mut received[filled..]).unwrap();
    }
    assert_eq!(received, data);
}

fn on_thread(test: impl FnOnce() + Send + 'static) {
    // SAFETY: the threads of the test stay alive until the process ends.
    unsafe { native::enter() }.run(1, test);
}

/// A test alone, because the allocator is that of the whole process.
#[test]
fn each_allocation_that_fails_is_an_error_and_leaves_nothing_behind() {
    on_thread(|| {
        for (shards, is_loopback) in [(1, true), (1, false), (8, true), (8, false)] {
            let stack = make(shards, is_loopback);
            // Frames over a device to itself arrive without an interrupt, which only a single shard notices.
            if shards > 1 && !is_loopback {
                continue;
            }
            let listener: TcpListener = without_memory(|| TcpListener::bind_on(stack, "127.0.0.1:7"));
            let socket = without_memory(|| UdpSocket::bind_on(stack, "127.0.0.1:0"));
            without_memory(|| socket.connect(("localhost", 9)));
            let near = TcpStream::connect_on(stack, listener.local_addr(), Limit::NONE).unwrap();
            let far = listener.accept().unwrap().0;
            send([&near, &far], &[7; 100_000]);
            send([&far, &near], &[8; 100_000]);
        }
        make_hosts();
    });
}

/// While there is no memory, frames that arrive for a shard are lost. Then they are sent again.
fn lose_arriving_frames([near, far]: [&TcpStream; 2]) {
    FAILED.store(0, Ordering::Relaxed);
    ALL_FAIL.store(true, Ordering::Relaxed);
    let mut sent = 0;
    while FAILED.load(Ordering::Relaxed) == 0 {
        near.write_all(b"data").unwrap();
        sent += 4;
        LEFT.store(0, Ordering::Relaxed);
        COUNTED.store(ALL, Ordering::Relaxed);
        // Let the Gs that serve the device run.
        (0..10).for_each(|_| yield_now());
        COUNTED.store(0, Ordering::Relaxed);
    }
    ALL_FAIL.store(false, Ordering::Relaxed);
    let (mut received, mut buffer) = (0, [0; 100]);
    while received < sent {
        received += far.read(&mut buffer).unwrap();
    }
    assert_eq!(received, sent);
}

/// The Gs that serve a host need memory, too. A later call makes those that are missing.
fn make_hosts() {
    for shards in [1, 8] {
        let network = Network::<Native>::new(1).with_rooms(guarded::make).with_shards(shards);
        let [server, client] = [1, 2].map(|last| without_memory(|| network.host([10, 0, 0, last])));
        assert_eq!(network.host([10, 0, 0, 1]).map(drop), Err(NetError::AddrInUse));
        let listener = TcpListener::bind_on(server, "10.0.0.1:7").unwrap();
        let near = TcpStream::connect_on(client, listener.local_addr(), Limit::NONE).unwrap();
        let far = listener.accept().unwrap().0;
        send([&near, &far], &[7; 100_000]);
        lose_arriving_frames([&near, &far]);
        send([&far, &near], &[8; 100_000]);
    }
}
