#![doc = include_str!("../../../../docs/manual/simulated-networks.md")]

mod conditions;
mod device;
#[expect(unsafe_code, reason = "promises that memory of the heap is memory")]
mod room;
mod wires;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr};
use core::sync::atomic::{AtomicBool, Ordering};

use gmp_sched::JoinHandle;
use gmp_sched::platform::{OutOfResources, Platform};
use gmp_sched::spawn::Builder;
use gmp_sched::sync::Mutex;

pub use self::conditions::Conditions;
use self::device::{Device, Shared};
pub(crate) use self::room::make_room;
use self::wires::Wires;
use crate::buffers::MakeRoom;
use crate::error::NetError;
use crate::memory::{Reserved, room};
use crate::stack::{Configuration, Memory, Stack};
use crate::wake::WokenBy;

/// What has happened in a network. A frame for all hosts counts once for each of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[must_use]
pub struct Totals {
    /// The frames that were sent.
    pub sent: u64,
    /// The frames that were lost, also because the network was divided.
    pub lost: u64,
    /// The frames that arrive twice.
    pub duplicated: u64,
    /// The frames that a later one to the same host has overtaken.
    pub reordered: u64,
    /// The frames that a host has got.
    pub delivered: u64,
    /// A hash of all frames that hosts have got: of their content, their hosts, and the instants at which they arrived.
    /// Two runs with the same digest are the same for all that the hosts can see.
    pub digest: u64,
}

/// A network of simulated hosts. Dropping it breaks the devices of the hosts: their connections, listeners and UDP
/// sockets end, calls that wait return [`NetError::Device`], and so do later ones. The drop waits until the Gs that serve
/// the hosts have ended. The tables of the hosts stay in memory, and their buffers, too: some KiB for each host, and what
/// its connections have used.
///
/// The functions block the calling G for a short time only. Gs must call them, and drop the network.
pub struct Network<Plat: Platform> {
    shared: Arc<Shared<Plat>>,
    seed: u64,
    make_room: MakeRoom,
    woken_by: WokenBy,
    shards: usize,
    cuts: bool,
    served: Mutex<Vec<Served<Plat>>, Plat>,
}

/// A host, and the Gs that serve it.
type Served<Plat> = (&'static Stack<Plat>, Vec<JoinHandle<(), Plat>>);

impl<Plat: Platform> fmt::Debug for Network<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("seed", &self.seed).finish_non_exhaustive()
    }
}

impl<Plat: Platform> Network<Plat> {
    /// Makes a network without hosts. `seed` decides what happens to frames, and about the ports and sequence numbers of
    /// the hosts.
    ///
    /// # Panics
    ///
    /// If there is no memory.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let shared = Shared { wires: Mutex::new(Wires::new(seed)), is_closed: AtomicBool::new(false) };
        let served = Mutex::new(Vec::new());
        let woken_by = WokenBy::Gs;
        Self { shared: Arc::new(shared), seed, make_room, woken_by, shards: 1, cuts: false, served }
    }

    /// Lets the hosts that are made from now on have as many [shards](Configuration::shards).
    #[must_use]
    pub fn with_shards(mut self, shards: usize) -> Self {
        self.shards = shards;
        self
    }

    /// Lets the devices of the hosts that are made from now on cut long segments (TSO). The default is that TCP does it.
    #[must_use]
    pub fn with_offload(mut self) -> Self {
        self.cuts = true;
        self
    }

    /// Lets the hosts that are made from now on take the memory for their connections from `make_room`. The default is
    /// the heap.
    #[must_use]
    pub fn with_rooms(mut self, make_room: MakeRoom) -> Self {
        self.make_room = make_room;
        self
    }

    /// Lets the hosts that are made from now on be woken as by interrupts of a device, by a
    /// [`Signal`](gmp_sched::device_signals::Signal). This is for tests of the signal. The scheduler cannot know who raises
    /// a signal, so outside of the simulator a deadlock is not reported.
    #[must_use]
    pub fn with_interrupts(mut self) -> Self {
        self.woken_by = WokenBy::Device;
        self
    }

    /// Adds a host with this address, which Gs serve from now on. Listeners and connections are made by
    /// [`bind_on`](crate::TcpListener::bind_on) and [`connect_on`](crate::TcpStream::connect_on).
    ///
    /// # Errors
    ///
    /// [`NetError::AddrInUse`] if there is such a host, [`NetError::AddrNotAvailable`] if the address is none of IPv4, and
    /// [`NetError::OutOfResources`] if there is no memory, or there are 65,536 hosts.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn host(&self, address: impl Into<IpAddr>) -> Result<&'static Stack<Plat>, NetError> {
        let address = address.into();
        let IpAddr::V4(own) = address else { return Err(NetError::AddrNotAvailable) };
        let mut served = self.served.lock();
        let mut wires = self.shared.wires.lock();
        let number = match wires.hosts.iter().position(|host| host.address == address) {
            Some(number) if served[number].1.len() == served[number].0.servers() => return Err(NetError::AddrInUse),
            // An earlier call had no memory for some of the Gs.
            Some(number) => number,
            None => self.make_host(own, &mut wires, &mut served)?,
        };
        drop(wires);
        let (stack, servers) = &mut served[number];
        let stack = *stack;
        for part in servers.len()..stack.servers() {
            servers.push(Builder::<Plat>::new().name("host").try_go(move || stack.serve(part))?);
        }
        Ok(stack)
    }

    /// Adds a host that no G serves. Returns its number.
    ///
    /// # Errors
    /// There is no memory, or there are too many hosts. Then nothing was added.
    fn make_host(
        &self,
        own: Ipv4Addr,
        wires: &mut Wires<Plat>,
        served: &mut Vec<Served<Plat>>,
    ) -> Result<usize, OutOfResources> {
        let number = u16::try_from(wires.hosts.len()).map_err(|_| OutOfResources)?;
        let seed = self.seed.wrapping_add(u64::from(number) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        // All addresses are in the same network.
        let address = Some((own, 0));
        let configuration = Configuration { address, seed, shards: self.shards, ..Configuration::default() };
        let number = usize::from(number);
        let device = Device::new(self.shared.clone(), number, self.cuts)?;
        let memory = Memory::over_device(&device, &configuration)?;
        let (place, stack) = (Reserved::new()?, Reserved::new()?);
        // One G serves each shard, and one G serves the device.
        let servers = room(self.shards + 1)?;
        wires.hosts.try_reserve(1).map_err(|_| OutOfResources)?;
        served.try_reserve(1).map_err(|_| OutOfResources)?;
        let stack = &*stack.fill(memory.make(place.fill(device), self.make_room, &configuration, self.woken_by));
        wires.add(own.into(), stack);
        served.push((stack, servers));
        Ok(number)
    }

    /// Sets what happens to the frames on all paths between hosts, from now on. Frames that are under way arrive as
    /// they would have.
    ///
    /// # Panics
    ///
    /// If a share is not between 0 and 1, or the rate is 0.
    #[track_caller]
    pub fn set_conditions(&self, conditions: Conditions) {
        conditions.check();
        self.shared.wires.lock().set_conditions(conditions);
    }

    /// Sets what happens to the frames from one host to another, and not to those in the other direction.
    ///
    /// # Panics
    ///
    /// If a share is not between 0 and 1, the rate is 0, a stack is no host of this network, or there is no memory.
    #[track_caller]
    pub fn set_path(&self, from: &'static Stack<Plat>, to: &'static Stack<Plat>, conditions: Conditions) {
        conditions.check();
        let mut wires = self.shared.wires.lock();
        let (from, to) = (wires.number(from), wires.number(to));
        wires.set_path(from, to, conditions);
    }

    /// Divides the network: these hosts reach each other, and no others, and the others do not reach them. Frames that
    /// are sent from one part to another are lost. Frames that are under way still arrive. Further calls divide the
    /// network further.
    ///
    /// # Panics
    ///
    /// If a stack is no host of this network.
    #[track_caller]
    pub fn partition(&self, hosts: &[&'static Stack<Plat>]) {
        self.shared.wires.lock().divide(hosts);
    }

    /// Makes the network whole again.
    pub fn heal(&self) {
        self.shared.wires.lock().heal();
    }

    /// Returns what has happened so far.
    pub fn totals(&self) -> Totals {
        self.shared.wires.lock().totals
    }
}

impl<Plat: Platform> Drop for Network<Plat> {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::Relaxed);
        for (stack, servers) in core::mem::take(self.served.get_mut()) {
            stack.close();
            // The Gs that serve a host do not panic.
            servers.into_iter().for_each(|server| _ = server.join());
        }
        self.shared.wires.lock().clear();
    }
}
