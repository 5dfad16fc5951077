//! Gives the frames of one link to several shards (receive packet steering): a link for each shard, over the device
//! that they share.
//!
//! ```text
//!   device ─▶ serve ─┬─▶ frames of shard 0 ─▶ the G of shard 0
//!      ▲             └─▶ frames of shard 1 ─▶ the G of shard 1, or `serve` itself
//!      └──────────────── what the shards send
//! ```
//!
//! The segments of a connection, and the ICMP messages about them, go to its shard, in the order in which they have
//! arrived. The answers of neighbours go to all shards, because each has asked for itself. Everything else goes to the
//! owner of the UDP sockets and the services.
//!
//! `serve` takes a batch of frames from the device. Then it wakes the Gs of all but one of the shards that get some of
//! them, and does the work of the last one itself. So one stream needs no second G, which another CPU would begin to run
//! for each few frames: that CPU can run the program.
//!
//! The lock of the device is held for one frame at a time, and while it is held, no other lock is taken.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use gmp_sched::platform::{OutOfResources, Platform};
use gmp_sched::sync::Mutex;
use gmp_sched::time::Instant;

use crate::key::{Flows, Protocol};
use crate::link::Link;
use crate::memory::{Reserved, copy, room};
use crate::packet::{Class, answers_question, classify, room_for_frame};
use crate::shard::BATCH;
use crate::stack::OWNER;
use crate::wake::Wake;

/// How many frames wait for a shard at most. More are lost, as at a device whose queue is full.
const FRAMES: usize = 256;

/// A frame that has arrived.
struct Arrived {
    frame: Vec<u8>,
    /// Whether the device knows that it is right.
    is_checked: bool,
}

/// What one shard gets.
struct Part<Plat: Platform> {
    arrived: Mutex<VecDeque<Arrived>, Plat>,
    /// Whether the shard has a frame to send for which the device had no room.
    is_stalled: AtomicBool,
}

/// What the G that serves the device uses.
struct Receiver {
    /// Memory for the frame that arrives.
    room: Vec<u8>,
    /// The frames of a batch, for each shard.
    batches: Vec<Vec<Arrived>>,
}

/// What the links of several shards share.
pub(crate) struct Steering<Plat: Platform> {
    device: Mutex<&'static mut dyn Link, Plat>,
    parts: Vec<Part<Plat>>,
    flows: Flows,
    receiver: Mutex<Receiver, Plat>,
    /// Wakes that G.
    wake: Wake<Plat>,
    is_closed: AtomicBool,
}

/// The memory of a steering, and of the links of its shards.
pub(crate) struct Memory<Plat: Platform> {
    steering: Reserved<Steering<Plat>>,
    parts: Vec<Part<Plat>>,
    receiver: Receiver,
    queues: Vec<Queue<Plat>>,
}

impl<Plat: Platform> Memory<Plat> {
    /// Allocates the memory for so many shards, and frames of at most `largest` bytes.
    ///
    /// # Errors
    /// There is no memory.
    pub(crate) fn new(shards: usize, largest: usize) -> Result<Self, OutOfResources> {
        let (mut parts, queues, mut batches) = (room(shards)?, room(shards)?, room(shards)?);
        parts.resize_with(shards, || Part { arrived: Mutex::new(VecDeque::new()), is_stalled: AtomicBool::new(false) });
        batches.resize_with(shards, Vec::new);
        Ok(Self {
            steering: Reserved::new()?,
            parts,
            receiver: Receiver { room: room_for_frame(largest)?, batches },
            queues,
        })
    }

    /// Makes the steering of a device, and the links of the shards.
    pub(crate) fn make(
        mut self,
        device: &'static mut dyn Link,
        flows: Flows,
        wake: Wake<Plat>,
    ) -> (&'static Steering<Plat>, &'static mut [Queue<Plat>]) {
        let (parts, receiver, is_closed) = (self.parts, Mutex::new(self.receiver), AtomicBool::new(false));
        let steering = Steering { device: Mutex::new(device), parts, flows, receiver, wake, is_closed };
        let steering = &*self.steering.fill(steering);
        self.queues.extend(steering.parts.iter().map(|part| Queue::new(steering, part)));
        (steering, self.queues.leak())
    }
}

impl<Plat: Platform> Steering<Plat> {
    /// Wakes the G that serves the device. Callable from everywhere.
    pub(crate) fn announce(&'static self) {
        self.wake.raise();
    }

    /// Ends the G that serves the device.
    pub(crate) fn close(&'static self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.wake.raise();
    }

    /// Serves the device until it is closed. Calls `wake` or `serve_now` with the number of a shard that has something to
    /// do. `serve_now` does it, or wakes the G of the shard if that would block.
    pub(crate) fn serve(&'static self, wake: impl Fn(usize), serve_now: impl Fn(usize)) {
        // Ordering: `wake` orders this and `close`.
        while !self.is_closed.load(Ordering::Relaxed) {
            let has_more = self.receive(&wake, &serve_now);
            let (until, can_send, is_broken) = {
                let mut device = self.device.lock();
                device.flush();
                (device.due(), device.can_send(), device.is_broken())
            };
            for (number, part) in self.parts.iter().enumerate() {
                // Ordering: the lock of the device orders this and `Queue::send_held`, so no shard that stalls is
                // missed.
                if is_broken || (can_send && part.is_stalled.swap(false, Ordering::Relaxed)) {
                    wake(number);
                }
            }
            if has_more {
                gmp_sched::yield_now::yield_now::<Plat>();
            } else {
                self.wake.wait_until(until);
            }
        }
    }

    /// Passes on some of the frames that have arrived. Returns whether there may be more.
    fn receive(&'static self, wake: &impl Fn(usize), serve_now: &impl Fn(usize)) -> bool {
        let mut receiver = self.receiver.lock();
        let Receiver { room, batches } = &mut *receiver;
        let mut has_more = true;
        for _ in 0..BATCH {
            let mut device = self.device.lock();
            let Some(bytes) = device.receive(room) else {
                has_more = false;
                break;
            };
            let is_checked = device.is_checked();
            drop(device);
            for shard in self.shards_of(&room[..bytes]) {
                // Without memory the frame is lost.
                if batches[shard].try_reserve(1).is_ok()
                    && let Ok(frame) = copy(&room[..bytes])
                {
                    batches[shard].push(Arrived { frame, is_checked });
                }
            }
        }
        let mut last = None;
        for (number, (part, batch)) in self.parts.iter().zip(batches).enumerate() {
            if part.put(batch)
                && let Some(other) = last.replace(number)
            {
                wake(other);
            }
        }
        drop(receiver);
        last.inspect(|&shard| serve_now(shard));
        has_more
    }

    /// Returns the shards that get a frame.
    fn shards_of(&self, frame: &[u8]) -> core::ops::Range<usize> {
        let shard = match classify(frame) {
            Class::Neighbour if answers_question(frame) => return 0..self.parts.len(),
            Class::Connection(key, _) => self.flows.shard_of(&key),
            Class::Refusal(key, _) if key.protocol == Protocol::Tcp => self.flows.shard_of(&key),
            _ => OWNER,
        };
        shard..shard + 1
    }
}

impl<Plat: Platform> Part<Plat> {
    /// Adds the frames of a batch, which is empty afterwards. Loses frames if there is no room, or no memory. Returns whether
    /// the shard has to be told of them. If older ones wait, it was told of these: a G that takes frames has the lock of the
    /// shard, and before it unlocks, it asks `Queue::due`. If frames are left then, the G of the shard runs.
    fn put(&self, batch: &mut Vec<Arrived>) -> bool {
        if batch.is_empty() {
            return false;
        }
        let mut arrived = self.arrived.lock();
        let is_first = arrived.is_empty();
        batch.truncate(FRAMES.saturating_sub(arrived.len()));
        if arrived.try_reserve(batch.len()).is_ok() {
            arrived.extend(batch.drain(..));
        }
        batch.clear();
        is_first && !arrived.is_empty()
    }
}

/// A frame to send. If the device has to cut it, also the largest number of bytes of data in each segment.
struct Held {
    frame: Vec<u8>,
    segment_bytes: Option<u16>,
}

/// Sends a frame over the device.
fn send_over(device: &mut dyn Link, frame: &[u8], segment_bytes: Option<u16>) {
    match segment_bytes {
        Some(bytes) => device.send_to_cut(frame, bytes),
        None => device.send(frame),
    }
}

/// The link of one shard.
pub(crate) struct Queue<Plat: Platform> {
    steering: &'static Steering<Plat>,
    part: &'static Part<Plat>,
    mac: [u8; 6],
    may_damage: bool,
    largest: usize,
    largest_to_send: usize,
    largest_to_cut: Option<usize>,
    /// Whether the device knows that the last frame is right, and whether a further one had arrived with it.
    is_checked: bool,
    has_arrived: bool,
    /// Whether frames were sent since the last `flush`. The device need not look at them before the next one.
    has_sent: bool,
    /// The frames for which the device had no room. There are few, because then the shard sends no more.
    held: VecDeque<Held>,
}

impl<Plat: Platform> Queue<Plat> {
    fn new(steering: &'static Steering<Plat>, part: &'static Part<Plat>) -> Self {
        let device = steering.device.lock();
        let (mac, may_damage) = (device.mac(), device.may_damage());
        let (largest, largest_to_send, largest_to_cut) =
            (device.largest(), device.largest_to_send(), device.largest_to_cut());
        let [is_checked, has_arrived, has_sent] = [false; 3];
        let held = VecDeque::new();
        Self {
            steering,
            part,
            mac,
            may_damage,
            largest,
            largest_to_send,
            largest_to_cut,
            is_checked,
            has_arrived,
            has_sent,
            held,
        }
    }

    /// Sends what was held. Returns whether all was sent.
    fn send_held(&mut self) -> bool {
        let mut device = self.steering.device.lock();
        while device.can_send()
            && let Some(Held { frame, segment_bytes }) = self.held.pop_front()
        {
            send_over(&mut **device, &frame, segment_bytes);
        }
        // It may take long until somebody else calls `flush`.
        device.flush();
        // Under the lock of the device: see `Steering::serve`.
        self.part.is_stalled.store(!self.held.is_empty(), Ordering::Relaxed);
        self.held.is_empty()
    }

    fn pass(&mut self, frame: &[u8], segment_bytes: Option<u16>) {
        if self.can_send() {
            let mut device = self.steering.device.lock();
            if device.can_send() {
                send_over(&mut **device, frame, segment_bytes);
                self.has_sent = true;
                return;
            }
        }
        if self.held.try_reserve(1).is_ok()
            && let Ok(frame) = copy(frame)
        {
            self.held.push_back(Held { frame, segment_bytes });
        }
    }
}

impl<Plat: Platform> Link for Queue<Plat> {
    fn mac(&self) -> [u8; 6] {
        self.mac
    }

    fn is_up(&self) -> bool {
        self.steering.device.lock().is_up()
    }

    fn is_broken(&self) -> bool {
        self.steering.device.lock().is_broken()
    }

    fn may_damage(&self) -> bool {
        self.may_damage
    }

    fn largest(&self) -> usize {
        self.largest
    }

    fn largest_to_send(&self) -> usize {
        self.largest_to_send
    }

    fn largest_to_cut(&self) -> Option<usize> {
        self.largest_to_cut
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> Option<usize> {
        if !self.can_send() {
            return None;
        }
        let mut arrived = self.part.arrived.lock();
        let Arrived { frame: received, is_checked } = arrived.pop_front()?;
        (self.is_checked, self.has_arrived) = (is_checked, !arrived.is_empty());
        drop(arrived);
        *frame = received;
        Some(frame.len())
    }

    fn has_arrived(&self) -> bool {
        self.has_arrived
    }

    fn is_checked(&self) -> bool {
        self.is_checked
    }

    /// Until a frame is held, the device is taken to have room: asking it would need its lock.
    fn can_send(&mut self) -> bool {
        self.held.is_empty() || self.send_held()
    }

    fn send(&mut self, frame: &[u8]) {
        self.pass(frame, None);
    }

    fn send_to_cut(&mut self, frame: &[u8], segment_bytes: u16) {
        self.pass(frame, Some(segment_bytes));
    }

    fn flush(&mut self) {
        if core::mem::take(&mut self.has_sent) {
            self.steering.device.lock().flush();
        }
    }

    /// A frame that has arrived is due at once.
    fn due(&mut self) -> Instant {
        if self.held.is_empty() {
            let has_arrived = !self.part.arrived.lock().is_empty();
            return if has_arrived { Instant::from_nanos(0) } else { Instant::NEVER };
        }
        let mut device = self.steering.device.lock();
        let due = device.due();
        // If there is room now, the last call of `can_send`, which may be another shard's, may have returned true. In this case
        // `due` is not about room.
        if device.can_send() { Instant::from_nanos(0) } else { due }
    }
}
