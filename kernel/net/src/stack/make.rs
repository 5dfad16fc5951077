//! How a stack is made: first all of its memory is allocated, and then nothing can fail. So if there is no memory, nothing
//! of the stack is left behind, and a later attempt has the link again.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicUsize};

use gmp_sched::platform::{OutOfResources, Platform};
use gmp_sched::sync::Mutex;

use super::{Configuration, OWNER, Stack};
use crate::buffers::MakeRoom;
use crate::key::Flows;
use crate::link::Link;
use crate::listeners::Listeners;
use crate::loopback::Loopback;
use crate::memory::{Reserved, room};
use crate::own::Own;
use crate::shard::Shard;
use crate::state::{self, Common, State};
use crate::steering::{self, Steering};
use crate::wake::{Wake, WokenBy};

impl<Plat: Platform> Stack<Plat> {
    /// Makes a stack. `make_room` makes the buffers of connections. Gs must call [`serve`](Self::serve).
    ///
    /// # Errors
    ///
    /// There is no memory. The error is the link, for another attempt.
    ///
    /// # Panics
    ///
    /// If the number of shards is not a power of two.
    pub fn new(
        link: &'static mut dyn Link,
        make_room: MakeRoom,
        configuration: &Configuration,
    ) -> Result<Self, &'static mut dyn Link> {
        match Memory::over_device(link, configuration) {
            Ok(memory) => Ok(memory.make(link, make_room, configuration, WokenBy::Device)),
            Err(OutOfResources) => Err(link),
        }
    }

    /// Like [`new`](Self::new), over a loopback. Both ends of a connection are in the same shard, so each shard has a
    /// loopback of its own.
    ///
    /// # Errors
    ///
    /// There is no memory.
    ///
    /// # Panics
    ///
    /// If the number of shards is not a power of two.
    pub fn on_loopback(make_room: MakeRoom, configuration: &Configuration) -> Result<Self, OutOfResources> {
        Self::on_links(Loopback::new, make_room, configuration)
    }

    /// Like [`on_loopback`](Self::on_loopback), with the links that `make_link` makes.
    pub(super) fn on_links<L: Link + 'static>(
        make_link: impl Fn() -> L,
        make_room: MakeRoom,
        configuration: &Configuration,
    ) -> Result<Self, OutOfResources> {
        let flows = flows(configuration);
        let shards = Shards::new(&flows, &make_link())?;
        let mut links = room(flows.shards())?;
        links.resize_with(flows.shards(), make_link);
        let links = links.leak().iter_mut().map(|link| link as _);
        Ok(shards.make(links, None, flows, make_room, configuration, WokenBy::Device))
    }
}

/// Returns which shard has which connections.
///
/// # Panics
/// If the number of shards is not a power of two.
#[track_caller]
fn flows(configuration: &Configuration) -> Flows {
    Flows::new(configuration.shards.max(1), configuration.seed)
}

/// The memory of a stack over a device.
pub(crate) struct Memory<Plat: Platform> {
    shards: Shards<Plat>,
    /// If there are several shards.
    steering: Option<steering::Memory<Plat>>,
    flows: Flows,
}

impl<Plat: Platform> Memory<Plat> {
    /// Allocates the memory for a stack with this configuration, over this device.
    ///
    /// # Errors
    /// There is no memory.
    ///
    /// # Panics
    /// If the number of shards is not a power of two.
    #[track_caller]
    pub(crate) fn over_device(device: &dyn Link, configuration: &Configuration) -> Result<Self, OutOfResources> {
        let flows = flows(configuration);
        let steering = flows.are_divided().then(|| steering::Memory::new(flows.shards(), device.largest()));
        Ok(Self { shards: Shards::new(&flows, device)?, steering: steering.transpose()?, flows })
    }

    /// Makes the stack. The device and the configuration are those for which the memory was allocated.
    /// `woken_by` is who announces the frames of the device.
    pub(crate) fn make(
        self,
        device: &'static mut dyn Link,
        make_room: MakeRoom,
        configuration: &Configuration,
        woken_by: WokenBy,
    ) -> Stack<Plat> {
        let Self { shards, steering, flows } = self;
        let Some(steering) = steering else {
            return shards.make([device].into_iter(), None, flows, make_room, configuration, woken_by);
        };
        let (steering, queues) = steering.make(device, flows.clone(), Wake::new(woken_by));
        let links = queues.iter_mut().map(|queue| queue as _);
        shards.make(links, Some(steering), flows, make_room, configuration, woken_by)
    }
}

/// The memory of the shards of a stack, and of what they have in common.
struct Shards<Plat: Platform> {
    listeners: Reserved<Listeners<Plat>>,
    shards: Vec<Shard<Plat>>,
    states: Vec<state::Memory<Plat>>,
}

impl<Plat: Platform> Shards<Plat> {
    /// Allocates memory for links such as this one.
    fn new(flows: &Flows, link: &dyn Link) -> Result<Self, OutOfResources> {
        let mut states = room(flows.shards())?;
        for shard in 0..flows.shards() {
            states.push(state::Memory::new(shard, link)?);
        }
        Ok(Self { listeners: Reserved::new()?, shards: room(flows.shards())?, states })
    }

    /// Makes the stack, with a link for each shard.
    fn make(
        mut self,
        links: impl Iterator<Item = &'static mut dyn Link>,
        steering: Option<&'static Steering<Plat>>,
        flows: Flows,
        make_room: MakeRoom,
        configuration: &Configuration,
        woken_by: WokenBy,
    ) -> Stack<Plat> {
        let (listeners, now) = (&*self.listeners.fill(Listeners::new(woken_by)), woken_by.now::<Plat>());
        let common = Common { flows, listeners, make_room, woken_by, configuration, now };
        let mut own = Own::default();
        for (number, (memory, link)) in self.states.into_iter().zip(links).enumerate() {
            let mut state = State::new(number, memory, link, &common);
            if number == OWNER {
                own = state.take_news().unwrap_or_default();
            } else {
                state.adopt(own, now);
            }
            self.shards.push(Shard::new(state, Wake::new(woken_by)));
        }
        Stack {
            shards: self.shards,
            steering,
            listeners,
            begun: AtomicUsize::new(0),
            abandoned: Mutex::new(Vec::new()),
            has_abandoned: AtomicBool::new(false),
        }
    }
}
