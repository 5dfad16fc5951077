//! The wires of a simulated network: which frames are under way, and what happens to them.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::hash::{BuildHasher as _, Hasher as _};
use core::net::IpAddr;
use core::ptr;

use foldhash::fast::FixedState;
use gmp_sched::platform::Platform;
use gmp_sched::time::Instant;
use hashbrown::HashMap;

use super::Totals;
use super::conditions::Conditions;
use crate::memory::copy;
use crate::stack::Stack;

/// A frame that is under way to a host. The order is that of arrival: of two frames that arrive at the same time, the
/// one that was sent first is the lesser.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct UnderWay {
    arrives: Instant,
    number: u64,
    frame: Vec<u8>,
}

pub(super) struct Host<Plat: Platform> {
    pub(super) address: IpAddr,
    pub(super) stack: &'static Stack<Plat>,
    /// Frames pass only between hosts of the same part of the network.
    part: usize,
    under_way: BinaryHeap<Reverse<UnderWay>>,
    /// The largest number of a frame that the host has got.
    latest: u64,
}

/// One direction between two hosts.
struct Path {
    conditions: Option<Conditions>,
    /// Decides about the frames. Each path has its own, so that what happens on one path does not depend on the others.
    random: fastrand::Rng,
    /// Until when the sender transmits the frames that it has sent so far.
    busy_until: Instant,
}

/// All hosts and what is between them.
pub(super) struct Wires<Plat: Platform> {
    pub(super) hosts: Vec<Host<Plat>>,
    /// The paths by the numbers of the sender and the receiver.
    paths: HashMap<(usize, usize), Path, FixedState>,
    /// The conditions of all paths that have none of their own.
    conditions: Conditions,
    seed: u64,
    /// The number of parts into which the network has been divided since it was whole.
    parts: usize,
    /// How many frames have been under way.
    count: u64,
    pub(super) totals: Totals,
}

/// The MAC address of the host with this number.
pub(super) fn mac(number: usize) -> [u8; 6] {
    let [.., high, low] = number.to_be_bytes();
    [2, 0, 0, 0, high, low]
}

impl<Plat: Platform> Wires<Plat> {
    pub(super) fn new(seed: u64) -> Self {
        let (hosts, totals) = (Vec::new(), Totals::default());
        let paths = HashMap::with_hasher(FixedState::with_seed(0));
        Self { hosts, paths, conditions: Conditions::default(), seed, parts: 0, count: 0, totals }
    }

    /// Adds a host, for which there is room.
    pub(super) fn add(&mut self, address: IpAddr, stack: &'static Stack<Plat>) {
        self.hosts.push(Host { address, stack, part: 0, under_way: BinaryHeap::new(), latest: 0 });
    }

    /// Returns the number of a host.
    ///
    /// # Panics
    /// If the host is none of this network.
    #[track_caller]
    pub(super) fn number(&self, stack: &'static Stack<Plat>) -> usize {
        self.hosts.iter().position(|host| ptr::eq(host.stack, stack)).expect("the stack is no host of this network")
    }

    /// Returns a path, or `None` if there is no memory for it.
    fn path(&mut self, from: usize, to: usize) -> Option<&mut Path> {
        self.paths.try_reserve(1).ok()?;
        let seed = FixedState::with_seed(self.seed).hash_one((from, to));
        let make =
            || Path { conditions: None, random: fastrand::Rng::with_seed(seed), busy_until: Instant::from_nanos(0) };
        Some(self.paths.entry((from, to)).or_insert_with(make))
    }

    /// Sets the conditions of all paths.
    pub(super) fn set_conditions(&mut self, conditions: Conditions) {
        self.conditions = conditions;
        self.paths.values_mut().for_each(|path| path.conditions = None);
    }

    /// Sets the conditions of one path.
    ///
    /// # Panics
    /// If there is no memory for the path.
    #[track_caller]
    pub(super) fn set_path(&mut self, from: usize, to: usize, conditions: Conditions) {
        self.path(from, to).expect("memory for a path between two hosts").conditions = Some(conditions);
    }

    /// Makes these hosts a part of the network.
    ///
    /// # Panics
    /// If a host is none of this network. Nothing has changed then.
    #[track_caller]
    pub(super) fn divide(&mut self, hosts: &[&'static Stack<Plat>]) {
        hosts.iter().for_each(|host| _ = self.number(host));
        self.parts += 1;
        for host in hosts {
            let number = self.number(host);
            self.hosts[number].part = self.parts;
        }
    }

    /// Makes the network whole again.
    pub(super) fn heal(&mut self) {
        self.parts = 0;
        self.hosts.iter_mut().for_each(|host| host.part = 0);
    }

    /// Sends a frame of the host `from`. Returns when it is transmitted.
    pub(super) fn send(&mut self, from: usize, frame: &[u8], now: Instant) -> Instant {
        let is_for_all = frame[0] & 1 != 0;
        let mut end = now;
        for to in (0..self.hosts.len()).filter(|&to| to != from) {
            if is_for_all || frame.starts_with(&mac(to)) {
                end = end.max(self.pass(from, to, frame, now));
            }
        }
        end
    }

    /// Sends a frame from one host to another. Returns when it is transmitted.
    fn pass(&mut self, from: usize, to: usize, frame: &[u8], now: Instant) -> Instant {
        let (of_all, is_whole) = (self.conditions, self.hosts[from].part == self.hosts[to].part);
        let Some(path) = self.path(from, to) else {
            self.totals.sent += 1;
            self.totals.lost += 1;
            return now;
        };
        let conditions = path.conditions.unwrap_or(of_all);
        // Each frame takes the same number of random numbers, so that a change of one of the conditions does not change
        // what the others do.
        let [lost, duplicate, reorder] = core::array::from_fn(|_| path.random.f64());
        let jitters = [path.random.f64(), path.random.f64()].map(|share| conditions.jitter.mul_f64(share));
        let transmitted = path.busy_until.max(now) + conditions.transmission(frame.len());
        path.busy_until = transmitted;
        self.totals.sent += 1;
        if !is_whole || lost < conditions.loss {
            self.totals.lost += 1;
            return transmitted;
        }
        let held_back = if reorder < conditions.reorder {
            conditions.delay.saturating_add(Conditions::HELD_BACK)
        } else {
            Default::default()
        };
        let copies = 1 + usize::from(duplicate < conditions.duplicate);
        self.totals.duplicated += copies as u64 - 1;
        for jitter in jitters.into_iter().take(copies) {
            self.put(to, frame, transmitted + conditions.delay + held_back + jitter);
        }
        transmitted
    }

    /// Puts a frame under way. The host sleeps until the arrival of the first frame that it knows of. So if this frame
    /// arrives earlier, wakes the host.
    fn put(&mut self, to: usize, frame: &[u8], arrives: Instant) {
        self.count += 1;
        let host = &mut self.hosts[to];
        // As with any Ethernet, a frame for which there is no memory is lost.
        let (Ok(frame), Ok(())) = (copy(frame), host.under_way.try_reserve(1)) else {
            self.totals.lost += 1;
            return;
        };
        let is_first = host.under_way.peek().is_none_or(|Reverse(first)| arrives < first.arrives);
        host.under_way.push(Reverse(UnderWay { arrives, number: self.count, frame }));
        if is_first {
            host.stack.announce();
        }
    }

    /// Returns when the next frame for a host arrives.
    pub(super) fn next(&self, host: usize) -> Instant {
        self.hosts[host].under_way.peek().map_or(Instant::NEVER, |Reverse(first)| first.arrives)
    }

    /// Takes the next frame for a host that has arrived.
    pub(super) fn take(&mut self, host: usize, now: Instant) -> Option<Vec<u8>> {
        if self.next(host) > now {
            return None;
        }
        let Host { under_way, latest, .. } = &mut self.hosts[host];
        let Reverse(UnderWay { arrives, number, frame }) = under_way.pop()?;
        self.totals.reordered += u64::from(number < *latest);
        *latest = number.max(*latest);
        self.totals.note(arrives, host, &frame);
        Some(frame)
    }

    /// Forgets the frames that are under way.
    pub(super) fn clear(&mut self) {
        self.hosts.iter_mut().for_each(|host| host.under_way = BinaryHeap::new());
    }
}

impl Totals {
    /// Counts a frame that a host has got.
    fn note(&mut self, arrives: Instant, host: usize, frame: &[u8]) {
        self.delivered += 1;
        let mut hash = FixedState::with_seed(self.digest).build_hasher();
        hash.write_u64(arrives.as_nanos());
        hash.write_usize(host);
        hash.write(frame);
        self.digest = hash.finish();
    }
}
