//! A call: a slot of a queue that a G has taken, the requests that the G runs in this slot, and the wait for the
//! answers.

use core::fmt;

use gmp_sched::cancel::ContextError;
use gmp_sched::sync::Permit;
use gmp_sched::time::Instant;
use kernel_virtio::AnswerSlot as _;
use kernel_virtio::block::{Buffers, Refused, Request, RequestError};

use super::device::BlockDevice;
use super::request_queue::{RequestQueue, Slot};
use super::sectors::Locked;
use crate::drivers::disk_access::Mode;
use crate::drivers::disk_error::DiskError;
use crate::sched::blocking::{self, Blocked};
use crate::sched::kthread::{self, KernelThread};
use crate::sched::platform::{Builder, Kernel, Limit};

/// A slot and the buffers that a G has taken. Dropping this value returns them. If a request of the slot is in flight,
/// the G that drops the value first waits for the answer.
struct Held {
    device: &'static BlockDevice,
    queue: &'static RequestQueue,
    slot: u16,
    in_flight: bool,
    /// `None` while a request is in flight, and if the device is broken.
    buffers: Option<Buffers>,
    /// One permit for each buffer. They are released after `drop` has returned the buffers.
    _permits: Permit<'static, Kernel>,
    /// The locks of the sectors that the request changes.
    _locked: Option<Locked>,
}

impl Held {
    fn slot(&self) -> &'static Slot {
        self.queue.slot(self.slot)
    }

    /// Submits a request. When the answer arrives in the slot, the interrupt handler wakes `thread`, or raises the
    /// slot's signal if there is no thread.
    fn submit(&mut self, request: Request, thread: Option<&'static KernelThread>) -> Result<(), RequestError> {
        let buffers = self.buffers.take().ok_or(RequestError::Broken)?;
        if let Err(Refused { buffers, reason }) = self.queue.submit(request, buffers, thread) {
            self.buffers = Some(buffers);
            return Err(reason);
        }
        self.in_flight = true;
        Ok(())
    }

    /// Waits for the answer by calling `wait` repeatedly, and resets the device if it is [silent](BlockDevice::check).
    /// A call of `wait` returns when the slot is woken or the given time has come; it may also return earlier. Returns
    /// `None` if the limit is over before the answer has arrived.
    fn wait(&mut self, limit: &Limit<'_>, wait: impl Fn(Instant)) -> Option<Result<(), RequestError>> {
        let (device, queue) = (self.device, self.queue);
        let mut check = kthread::now() + device.time_limit;
        let mut answered_before = None;
        let park = || {
            wait(check);
            if kthread::now() >= check {
                check = device.check(queue, &mut answered_before);
            }
        };
        let (buffers, result) = self.slot().wait_for_answer(|| limit.err().is_some(), park)?;
        (self.in_flight, self.buffers) = (false, buffers);
        Some(result)
    }

    /// Submits a request, and parks the calling G until the answer has arrived or the limit is over.
    fn run_parked(&mut self, request: Request, limit: &Limit<'_>) -> Option<Result<(), RequestError>> {
        if let Err(failure) = self.submit(request, None) {
            return Some(Err(failure));
        }
        let signal = &self.slot().signal;
        self.wait(limit, |until| {
            signal.wait_until(limit.and(until));
        })
    }

    /// Submits a request, and blocks the thread of the calling G until the answer has arrived or the limit is over.
    fn run_blocked(
        &mut self,
        request: Request,
        limit: &Limit<'_>,
        blocked: &Blocked,
    ) -> Option<Result<(), RequestError>> {
        if let Err(failure) = self.submit(request, Some(blocked.thread())) {
            return Some(Err(failure));
        }
        self.wait(limit, |until| blocked.park(until.min(limit.deadline())))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.in_flight {
            // From now on no thread waits for the answer, so the interrupt handler raises the signal.
            self.slot().forsake();
            let signal = &self.slot().signal;
            self.wait(&Limit::NONE, |until| {
                signal.wait_until(until);
            });
        }
        if let Some(buffers) = self.buffers.take() {
            self.queue.put_back(buffers);
        }
    }
}

/// A slot in which the calling G runs requests.
pub(crate) struct Call<'l> {
    held: Held,
    mode: Mode,
    limit: &'l Limit<'l>,
}

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("slot", &self.held.slot).field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl<'l> Call<'l> {
    /// Waits until a queue has enough buffers for requests with `bytes` bytes of data: see [`BlockDevice::admit`].
    /// Takes these buffers and a slot. `locked` holds the locks of the sectors that the requests change. These locks
    /// are released after the slot has been returned. If this function fails, they are released before it returns.
    ///
    /// # Errors
    /// If the limit ends the wait, or the device is broken.
    ///
    /// # Panics
    /// If `bytes` is more than [`BlockDevice::request_bytes`].
    pub(crate) fn admit(
        device: &'static BlockDevice,
        mode: Mode,
        bytes: usize,
        locked: Option<Locked>,
        limit: &'l Limit<'l>,
    ) -> Result<Self, DiskError> {
        let count = device.properties().buffers_for(bytes);
        let (queue, permits) = device.admit(count as u32, limit)?;
        let buffers = queue.take(count)?;
        let (slot, buffers) = (buffers.slot(), Some(buffers));
        let held = Held { device, queue, slot, in_flight: false, buffers, _permits: permits, _locked: locked };
        Ok(Self { held, mode, limit })
    }

    /// Returns the memory for the data of a request.
    pub(crate) fn buffers(&mut self) -> &mut Buffers {
        self.held.buffers.as_mut().expect("a call has its buffers unless a request is in flight")
    }

    /// Runs a request and waits for the answer. If the limit ends the wait, the request stays in flight. Another G then
    /// waits for the answer, and afterwards returns the slot and releases the locks of the sectors.
    ///
    /// # Errors
    /// See [`DiskError`]. After [`DiskError::Limit`] another G may still hold the slot. After other errors the slot has
    /// been returned.
    pub(crate) fn run(mut self, request: Request) -> Result<Self, DiskError> {
        let (held, limit) = (&mut self.held, self.limit);
        let answer = match self.mode {
            Mode::Asynchronous => held.run_parked(request, limit),
            Mode::Blocking => {
                let permit = blocking::admit(*limit)?;
                let slot = held.slot();
                // When the context of the limit is done, this closure wakes the thread. The deadline of the limit needs
                // no closure, because the thread parks only until the deadline.
                let woken = limit.when_context_is_done(move || slot.interrupt_wait())?;
                let answer = permit.block(|blocked| held.run_blocked(request, limit, blocked));
                if let Some(woken) = woken {
                    woken.stop();
                }
                answer?
            }
        };
        match answer {
            Some(result) => result?,
            None => {
                let error = limit.err().unwrap_or(ContextError::DeadlineExceeded);
                let Self { held, .. } = self;
                // If there is no memory for a G, `try_go` drops the closure, and `held` with it. The drop of `held`
                // then waits for the answer in the calling G.
                if let Ok(waits) = Builder::new().name("late disk request").in_no_bubble().try_go(move || drop(held)) {
                    waits.detach();
                }
                return Err(DiskError::Limit(error));
            }
        }
        Ok(self)
    }
}
