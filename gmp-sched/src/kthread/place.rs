//! Where a ready thread goes: an idle CPU first, else the CPU it last ran on.
//!
//! Work conservation at this level: it is never stable that a thread is ready and a CPU is idle. A CPU that finds
//! nothing to run sets its idle bit, fences, looks at all ready lists, and only then halts; whoever makes a thread ready
//! puts it on a list, fences, and looks at the idle bits. So either the CPU sees the thread, or the bit is seen, cleared
//! ("claimed") and the CPU kicked, and it looks again. A CPU that finds another thread at the moment at which it is
//! claimed passes the claim on to the next idle CPU: the thread that it was claimed for stands on a list already.

use super::{Cpu, CpuState, Thread, Threads};
use crate::base::atomic::{Ordering, fence};
use crate::platform::Site;

/// Whether a thread that became ready takes the CPU from the one that runs there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    /// It was woken: something has happened that it is to deal with.
    Displaces,
    /// It was displaced itself, or never came to park: it waits its turn.
    Waits,
}

impl<C: Cpu> Threads<C> {
    /// Has `thread`, whose context is saved and which is on no list, run soon.
    pub(super) fn make_ready(&'static self, thread: &'static Thread<C>, urgency: Urgency) {
        C::without_interrupts(|| {
            let here = C::current();
            let last = thread.last_cpu();
            let target = self.find_idle(last, here).unwrap_or(last);
            {
                let mut ready = self.cpus[target].ready.lock();
                ready.push_back(thread);
                self.cpus[target].ready_length.store(ready.len(), Ordering::Relaxed);
            }
            // Ordering: partner is the fence in `idle_loop`: either that CPU sees the thread or we see its idle bit.
            fence(Ordering::SeqCst);
            C::point(Site::ReadyList);
            match self.claim_idle(target, here) {
                // The idle loop looks again when the interrupt that we are in returns.
                Some(idle) if idle == here => {}
                Some(idle) => C::kick(idle),
                None if urgency == Urgency::Waits => {}
                None if target == here => {
                    self.cpus[here].is_displaced.store(true, Ordering::Relaxed);
                    C::request_displacement();
                }
                None => C::kick(target),
            }
        });
    }

    /// An idle CPU: one of the two given ones if they are.
    fn find_idle(&self, first: usize, second: usize) -> Option<usize> {
        [first, second].into_iter().chain(0..self.cpus.len()).find(|&cpu| self.cpus[cpu].idle.load(Ordering::Relaxed))
    }

    /// Clears the idle bit of an idle CPU, which the caller kicks.
    fn claim_idle(&self, first: usize, second: usize) -> Option<usize> {
        [first, second].into_iter().chain(0..self.cpus.len()).find(|&cpu| {
            let idle = &self.cpus[cpu].idle;
            // Ordering: Release: the thread is on its list; partner: the exchange in `idle_loop`.
            idle.load(Ordering::Relaxed) && idle.swap(false, Ordering::AcqRel)
        })
    }

    /// A thread for this CPU to run: from its own list, else from another's.
    pub(super) fn take_ready(&self) -> Option<&'static Thread<C>> {
        let here = C::current();
        let count = self.cpus.len();
        (here..count).chain(0..here).find_map(|cpu| take_from(&self.cpus[cpu]))
    }

    /// Another CPU put a thread on this CPU's list. Called by the interrupt handler.
    ///
    /// # Safety
    ///
    /// Interrupts are off on this CPU.
    #[expect(unsafe_code, reason = "the state of a CPU changes with interrupts off only")]
    pub unsafe fn reschedule_interrupt(&'static self) {
        // Also while the CPU is on its way out of the idle loop, with a thread that is to be displaced at once.
        if self.make_room() {
            C::request_displacement();
        }
    }

    /// Lets a ready thread run in place of the calling one, if that is to make room; the calling one goes to another CPU or
    /// waits its turn.
    ///
    /// # Safety
    ///
    /// As for [`park`](Self::park); and the caller was in user code: nothing that other threads wait for is held.
    #[expect(unsafe_code, reason = "leaves the stack of a thread")]
    pub unsafe fn displace(&'static self) {
        let Some(me) = self.current() else { return };
        if self.here().is_displaced.load(Ordering::Relaxed)
            && let Some(next) = take_from(self.here())
        {
            self.switch_from(me, Some(next), |threads, displaced| threads.make_ready(displaced, Urgency::Waits));
        }
    }

    /// What a CPU does while it has no thread.
    ///
    /// # Safety
    ///
    /// Called once on each CPU, pinned, with interrupts off, on the stack that is to be its idle stack.
    #[expect(unsafe_code, reason = "the stack it is called on becomes the idle stack")]
    pub unsafe fn idle_loop(&'static self) -> ! {
        loop {
            match self.take_ready_or_be_idle() {
                Some(next) => {
                    C::set_interrupts(true);
                    self.switch_from_idle(next);
                    C::set_interrupts(false);
                }
                // An interrupt between the look and here is not lost: it stays pending until `halt` enables interrupts
                // in one step with halting.
                None => C::halt(),
            }
        }
    }

    /// A thread for this CPU to run; if there is none the CPU is known to be idle, and kicked when there is one.
    pub(crate) fn take_ready_or_be_idle(&self) -> Option<&'static Thread<C>> {
        let cpu = self.here();
        cpu.idle.store(true, Ordering::Relaxed);
        // Ordering: partner is the fence in `make_ready`.
        fence(Ordering::SeqCst);
        C::point(Site::ReadyList);
        let next = self.take_ready()?;
        // Ordering: Acquire; partner: the exchange in `claim_idle`.
        let claimed = !cpu.idle.swap(false, Ordering::AcqRel);
        if claimed && let Some(other) = self.claim_idle(0, 0) {
            C::kick(other);
        }
        Some(next)
    }
}

fn take_from<C: Cpu>(cpu: &CpuState<C>) -> Option<&'static Thread<C>> {
    if cpu.ready_length.load(Ordering::Relaxed) == 0 {
        return None;
    }
    C::without_interrupts(|| {
        let mut ready = cpu.ready.lock();
        let thread = ready.pop_front();
        cpu.ready_length.store(ready.len(), Ordering::Relaxed);
        thread
    })
}
