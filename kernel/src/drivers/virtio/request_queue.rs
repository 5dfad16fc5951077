//! A queue of a block device, with the slots in which the answers to its requests arrive. The interrupt handler of the
//! queue puts each answer into its slot, and wakes the G or the thread that waits there.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use gmp_sched::device_signals::Signal;
use gmp_sched::time::Instant;
use kernel_virtio::block::{Buffers, Completion, Queue, Refused, Request, RequestError};
use kernel_virtio::{AnswerSlot, Doorbell as _, Mail};

use super::transport::Doorbell;
use crate::cpu::cpus;
use crate::cpu::percpu;
use crate::cpu::sync::InterruptMutex;
use crate::sched::kthread::{self, KernelThread};
use crate::sched::platform::{Kernel, Semaphore};

/// Where the answer to a request arrives.
pub(super) struct Slot {
    /// Raised when the answer has arrived, if no thread waits for it.
    pub(super) signal: Signal<Kernel>,
    mail: InterruptMutex<Mail<&'static KernelThread, Answer>>,
}

/// The outcome of a request, with the request's buffers. The buffers are `None` if the device may still access them.
pub(super) type Answer = (Option<Buffers>, Result<(), RequestError>);

impl Slot {
    fn new() -> Self {
        Self { signal: Signal::new(), mail: InterruptMutex::new(Mail::default()) }
    }
}

impl AnswerSlot for &'static Slot {
    type Thread = &'static KernelThread;
    type Answer = Answer;

    fn with_mail<R>(&self, act: impl FnOnce(&mut Mail<&'static KernelThread, Answer>) -> R) -> R {
        act(&mut self.mail.lock())
    }

    /// Unparks `thread`, or raises the signal if there is no thread.
    fn wake(&self, thread: Option<&'static KernelThread>) {
        match thread {
            Some(thread) => thread.unpark(),
            None => self.signal.raise(),
        }
    }
}

/// The state that the queue's lock guards.
pub(super) struct State {
    pub(super) queue: Queue,
    /// How many requests have been answered on each CPU.
    served: Vec<usize>,
    /// When requests were last answered, in ns.
    last_answer: u64,
}

/// A queue of a block device. It has its own lock and slots, so that CPUs with different queues do not wait for each
/// other.
pub(super) struct RequestQueue {
    pub(super) state: InterruptMutex<State>,
    pub(super) doorbell: Doorbell,
    /// A slot for the answer to each request, by the number of the request's [buffers](Buffers::slot).
    slots: Box<[Slot]>,
    /// One permit for each buffer. Gs wait here for the buffers of a request, in the order in which they come. A G gets
    /// all its permits at once. So a G that waits for permits holds none, and Gs cannot wait for each other in a
    /// circle.
    pub(super) permits: Semaphore,
    /// The number of the queue in its device.
    pub(super) number: u16,
}

impl RequestQueue {
    pub(super) fn new(queue: Queue, doorbell: Doorbell) -> Self {
        let slots: Box<[Slot]> = (0..queue.free_buffers()).map(|_| Slot::new()).collect();
        Self {
            doorbell,
            number: queue.number(),
            permits: Semaphore::new(slots.len() as u32),
            state: InterruptMutex::new(State { queue, served: vec![0; cpus::count()], last_answer: 0 }),
            slots,
        }
    }

    /// Returns the number of buffers, which is also the largest number of requests in flight (if each has one buffer).
    pub(super) fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Returns the number of buffers that no G uses.
    pub(super) fn free_buffers(&self) -> usize {
        self.permits.available() as usize
    }

    /// Returns the number of buffers that are never used again, because the broken device may still access them.
    pub(super) fn abandoned_buffers(&self) -> usize {
        self.state.lock().queue.abandoned_buffers()
    }

    /// Returns how many requests have been answered on each CPU.
    pub(super) fn served(&self) -> Vec<usize> {
        let mut served = vec![0; cpus::count()];
        served.copy_from_slice(&self.state.lock().served);
        served
    }

    /// Returns how many requests have been answered, and when the last of them was, in ns.
    pub(super) fn progress(&self) -> (usize, u64) {
        let state = self.state.lock();
        (state.served.iter().sum(), state.last_answer)
    }

    pub(super) fn slot(&'static self, number: u16) -> &'static Slot {
        &self.slots[usize::from(number)]
    }

    /// Takes `count` free buffers and the slot with their number. The queue has them, because the caller has `count`
    /// permits.
    ///
    /// # Errors
    /// If the device is broken. There may then be fewer free buffers than permits, because buffers that were in flight
    /// are never used again.
    pub(super) fn take(&self, count: usize) -> Result<Buffers, RequestError> {
        let state = &mut *self.state.lock();
        if let Some(reason) = state.queue.broken() {
            return Err(reason);
        }
        Ok(state.queue.take_buffers(count).expect("a buffer for each permit"))
    }

    /// Returns buffers and their slot. The caller then releases its permits.
    pub(super) fn put_back(&self, buffers: Buffers) {
        self.state.lock().queue.put_buffers(buffers);
    }

    /// Submits a request. When the answer arrives in the slot of the buffers, the interrupt handler wakes `thread`, or
    /// raises the slot's signal if there is no thread.
    pub(super) fn submit(
        &'static self,
        request: Request,
        buffers: Buffers,
        thread: Option<&'static KernelThread>,
    ) -> Result<(), Refused> {
        self.slot(buffers.slot()).prepare(thread);
        let now = kthread::now().as_nanos();
        self.state.lock().queue.submit(request, buffers, now)?;
        self.doorbell.ring();
        Ok(())
    }

    /// Returns the time at which the oldest request in flight was submitted, or `None` if no request is in flight.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.state.lock().queue.oldest().map(Instant::from_nanos)
    }

    /// Passes on the answers to all completed requests, which are counted for the current CPU. Called by the interrupt
    /// handler.
    ///
    /// # Errors
    /// If the device is broken. The caller must then [`fail`](Self::fail) all queues of the device.
    pub(super) fn serve(&'static self) -> Result<(), RequestError> {
        let mut state = self.state.lock();
        while let Some(completion) = state.queue.complete() {
            state.served[percpu::current().index()] += 1;
            state.last_answer = kthread::now().as_nanos();
            self.deliver(completion);
        }
        state.queue.broken().map_or(Ok(()), Err)
    }

    /// Ends the use of the queue. All Gs that wait for an answer get the error `reason`. Returns the number of these
    /// Gs. Callable from interrupt handlers.
    pub(super) fn fail(&'static self, reason: RequestError) -> usize {
        let mut state = self.state.lock();
        state.queue.fail(reason);
        core::iter::from_fn(|| state.queue.take_failed()).map(|failed| self.deliver(failed)).count()
    }

    pub(super) fn deliver(&'static self, Completion { slot, buffers, result }: Completion) {
        self.slot(slot).deliver_answer((buffers, result));
    }
}
