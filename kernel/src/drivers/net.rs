//! The network: TCP and UDP over the first virtio network device, and over a loopback. A run that is recorded has its
//! frames in memory instead of the device.
//!
//! The protocols are in the crate `kernel-net`. This module connects them with the device. The device is set up when
//! the kernel starts. The first use of the network starts the Gs that serve the device. So a program that does not use
//! the network has no such G, and the computer then answers nobody.

mod interface;
mod recorded;
pub mod sim;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gmp_sched::goroutine::GoroutineId;
use gmp_sched::platform::OutOfResources;
use kernel_net::{
    Configuration, Ipv6, Link, Network, PAGE_BYTES, ROOM_PAGES, Room, Stack, StackDatagrams, StackListener,
    StackStream, lookup_name,
};
use spin::Once;

use crate::cpu::percpu::CpuId;
use crate::cpu::sync::InterruptMutex;
use crate::cpu::{contexts, cpus};
use crate::drivers::console::timed;
use crate::drivers::disk_error::SetupError;
use crate::drivers::random::fill_random;
use crate::drivers::virtio::net;
use crate::mm::PAGE_SIZE;
use crate::mm::heap::{leak, leak_made};
use crate::mm::sparse::Sparse;
use crate::sched::platform::{Builder, Kernel, Limit, Mutex};

pub use self::interface::{
    Incoming, MAX_DATAGRAM, NetError, Shutdown, TcpListener, TcpStream, ToSocketAddr, UdpSocket, Usage, address_until,
    lookup_host_until, usage,
};

/// The sockets of [`interface`].
type Listener = StackListener<Kernel>;
type Stream = StackStream<Kernel>;
type Datagrams = StackDatagrams<Kernel>;

/// The device, until its stack takes it.
type Device = InterruptMutex<Option<&'static mut dyn Link>>;
static DEVICE: Once<Result<Device, SetupError>> = Once::new();
/// The addresses that the kernel options determine.
static CONFIGURATION: Once<Configuration> = Once::new();

/// The largest number of shards of a stack.
const MOST_SHARDS: usize = 8;

/// The stack of the device, and that of the loopback.
static NETWORK: Served = Served::new();
static LOOPBACK: Served = Served::new();

/// The memory for the buffers of a connection. The shard of the connection uses it under one lock.
struct Buffers(Sparse);

const _: () = assert!(PAGE_BYTES == PAGE_SIZE && ROOM_PAGES == u32::BITS);

#[expect(unsafe_code, reason = "promises that pages are memory")]
// SAFETY: a sparse range keeps its addresses, which nothing else has, and a page that was committed keeps its frame until
// it is withdrawn. The rest of the kernel accesses neither.
unsafe impl Room for Buffers {
    fn start(&self) -> NonNull<u8> {
        self.0.start()
    }

    fn commit(&mut self, page: u32) -> Result<(), OutOfResources> {
        self.0.commit(page).map_err(|_| OutOfResources)
    }

    fn withdraw(&mut self, pages: u32) {
        self.0.withdraw(pages);
    }

    fn reclaim(&mut self) -> bool {
        self.0.reclaim()
    }
}

/// Gives the hosts of a simulated network buffers such as those of the real one.
fn with_rooms(network: sim::Network) -> sim::Network {
    network.with_rooms(make_room)
}

fn make_room() -> Result<&'static mut dyn Room, OutOfResources> {
    let room = leak_made(|| Sparse::reserve().map(Buffers));
    room.map(|room| room as &mut dyn Room).map_err(|_| OutOfResources)
}

/// A stack that is made at its first use, and then served by Gs.
struct Served {
    stack: Once<Stack<Kernel>>,
    /// How many Gs that serve the stack have been started. Changed by the G that has locked `set_up`.
    servers: AtomicUsize,
    is_served: AtomicBool,
    /// Held by the G that makes the stack.
    set_up: Mutex<()>,
}

/// Finds the device. Called once, after all CPUs have started.
pub(crate) fn init(configuration: Configuration) {
    CONFIGURATION.call_once(|| configuration);
    DEVICE.call_once(|| {
        let device = open().inspect_err(|error| {
            if *error != SetupError::Missing {
                log::error!("network device: {error}");
            }
        });
        device.map(|device| InterruptMutex::new(Some(device)))
    });
}

fn open() -> Result<&'static mut dyn Link, SetupError> {
    if timed::has_network() {
        return Ok(leak(recorded::Recorded::new())?);
    }
    let changed = |_| {
        net::note_change();
        announce();
    };
    Ok(leak_made(|| net::open(CpuId::BOOT, |_| announce(), changed))?)
}

/// Wakes the G that serves the device. Callable from interrupt handlers.
pub(crate) fn announce() {
    NETWORK.announce();
}

/// Breaks the protocol of the device, which then finds an error and needs a reset. Tests use this.
pub(crate) fn mislead_device() {
    net::mislead();
    announce();
}

impl Network for Kernel {
    #[track_caller]
    fn stack(address: IpAddr) -> Result<&'static Stack<Self>, NetError> {
        contexts::assert_may_block();
        if address.is_loopback() {
            LOOPBACK.get("loopback", make_loopback)
        } else {
            NETWORK.get("network", make_network)
        }
    }
}

/// Makes the stack of the device.
fn make_network(seed: u64) -> Result<Stack<Kernel>, NetError> {
    let device = match DEVICE.get() {
        None | Some(Err(SetupError::Missing)) => return Err(NetError::NoNetwork),
        Some(Err(_)) => return Err(NetError::Device),
        Some(Ok(device)) => device,
    };
    let configuration = CONFIGURATION.get().copied().unwrap_or_default();
    let configuration = Configuration { seed, shards: shards(), ..configuration };
    let link = device.lock().take().ok_or(NetError::Device)?;
    let stack = Stack::new(link, make_room, &configuration).map_err(|link| {
        *device.lock() = Some(link);
        NetError::OutOfResources
    })?;
    timed::start();
    Ok(stack)
}

/// Makes the stack of the loopback.
fn make_loopback(seed: u64) -> Result<Stack<Kernel>, NetError> {
    let ipv6 = Ipv6::Fixed { address: (Ipv6Addr::LOCALHOST, 128), gateway: None };
    let address = Some((Ipv4Addr::LOCALHOST, 8));
    let configuration = Configuration { address, ipv6, seed, shards: shards(), ..Configuration::default() };
    Ok(Stack::on_loopback(make_room, &configuration)?)
}

/// Returns the number of shards of a stack: the number of CPUs, rounded down to a power of two, but at most
/// [`MOST_SHARDS`].
fn shards() -> usize {
    1 << cpus::count().ilog2().min(MOST_SHARDS.ilog2())
}

impl Served {
    const fn new() -> Self {
        let (servers, is_served) = (AtomicUsize::new(0), AtomicBool::new(false));
        Self { stack: Once::new(), servers, is_served, set_up: Mutex::new(()) }
    }

    /// Wakes a G that serves the stack. Does nothing before the first use of the stack, because there is no such G yet.
    /// Callable from interrupt handlers.
    fn announce(&'static self) {
        if let Some(stack) = self.stack.get() {
            stack.announce();
        }
    }

    /// Returns the stack. If it does not exist, calls `make` with a random number, and starts the Gs that serve it.
    fn get(
        &'static self,
        name: &'static str,
        make: fn(u64) -> Result<Stack<Kernel>, NetError>,
    ) -> Result<&'static Stack<Kernel>, NetError> {
        // Ordering: Acquire; partner: the Release store to `is_served` below. When the flag is set, the stack is there.
        if !self.is_served.load(Ordering::Acquire) {
            let _only_one = self.set_up.lock();
            if self.stack.get().is_none() {
                let mut seed = [0; 8];
                fill_random(&mut seed);
                let stack = make(u64::from_le_bytes(seed))?;
                self.stack.call_once(|| stack);
            }
            let stack = self.stack.get().ok_or(NetError::Device)?;
            if !self.is_served.load(Ordering::Relaxed) {
                for number in self.servers.load(Ordering::Relaxed)..stack.servers() {
                    let serves = Builder::new().name(name).in_no_bubble().try_go(move || stack.serve(number));
                    serves.map_err(|_| OutOfResources)?.detach();
                    self.servers.store(number + 1, Ordering::Relaxed);
                }
                self.is_served.store(true, Ordering::Release);
            }
        }
        self.stack.get().ok_or(NetError::Device)
    }
}

/// Ends the connections and sockets of a G, which ends without dropping its values. Called by the G. May block.
pub(crate) fn abandon(goroutine: GoroutineId) {
    for stack in [&NETWORK, &LOOPBACK].into_iter().filter_map(|served| served.stack.get()) {
        stack.abandon(goroutine);
    }
}

/// Does what [`address_until`] says.
#[track_caller]
fn own_address(limit: Limit<'_>) -> Result<Ipv4Addr, NetError> {
    Kernel::stack(Ipv4Addr::UNSPECIFIED.into())?.wait_for_address(limit)
}

/// Returns how many objects are in use.
#[track_caller]
fn objects_in_use() -> Usage {
    contexts::assert_may_block();
    let all = [&NETWORK, &LOOPBACK].into_iter().filter_map(|served| served.stack.get());
    all.map(Stack::usage).fold(Usage::default(), |sum, usage| sum + usage)
}
