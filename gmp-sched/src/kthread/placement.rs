//! CPU selection, and the idle loop of a CPU. A thread that becomes ready goes to an idle CPU if there is one, and
//! otherwise to the CPU it last ran on. If an interrupt handler makes the thread ready on an idle CPU, the thread runs
//! there, because no other CPU has to be interrupted for that.
//!
//! Work conservation at this level: if a thread is ready while a CPU is idle, that state does not last. A CPU that
//! finds nothing to run sets its idle bit, fences, checks all ready lists, and only then halts. A waker puts the ready
//! thread on a list, fences, and checks the idle bits. So either the CPU sees the thread, or the waker sees the bit. In
//! the second case the waker *claims* the CPU, that is, clears the bit, and kicks the CPU, which checks the lists
//! again. A waker may claim a CPU that has already found another thread. That CPU then claims and kicks the next idle
//! CPU, because the thread for which it was claimed may still be on a list.

use super::{Cpu, CpuState, Thread, Threads};
use crate::base::atomic::{Ordering, fence};
use crate::base::points::Site;

/// Whether a thread that became ready displaces the thread that runs on its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    /// The ready thread displaces the running thread, because the ready thread was woken by an event that it must
    /// handle.
    Displaces,
    /// The ready thread waits in the list of its CPU, because it was displaced itself.
    Waits,
}

impl<C: Cpu> Threads<C> {
    /// Puts `thread` on a ready list and makes sure that a CPU runs it. The thread's context must be saved, and the
    /// thread must be on no list.
    pub(super) fn make_ready(&'static self, thread: &'static Thread<C>, urgency: Urgency) {
        let make = || {
            let here = C::current();
            let last = thread.last_cpu();
            let target = self.find_idle(here, last).unwrap_or(last);
            {
                let mut ready = self.cpus[target].ready.lock();
                ready.push_back(thread);
                self.cpus[target].ready_length.store(ready.len(), Ordering::Relaxed);
            }
            // Ordering: SeqCst; partner: the fence in `take_ready_or_be_idle`. Either the CPU that is about to halt
            // sees the thread, or this CPU sees the idle bit.
            fence(Ordering::SeqCst);
            C::point(Site::ReadyList);
            match self.claim_idle(target, here) {
                // The idle CPU is this one, so this code runs in an interrupt handler that interrupted the idle loop.
                // When the handler returns, the idle loop checks the lists again.
                Some(idle) if idle == here => {}
                Some(idle) => C::kick(idle),
                None if urgency == Urgency::Waits => {}
                None if target == here => {
                    self.cpus[here].is_displaced.store(true, Ordering::Relaxed);
                    C::request_displacement();
                }
                None => C::kick(target),
            }
        };
        #[expect(unsafe_code, reason = "code with interrupts off must not switch threads")]
        // SAFETY: `make` does not switch threads. If the thread that runs here has to give way, `make` only requests
        // that.
        unsafe {
            C::without_interrupts(make);
        }
    }

    /// Returns an idle CPU, preferably `first` or `second`, or `None` if no CPU is idle.
    fn find_idle(&self, first: usize, second: usize) -> Option<usize> {
        self.first_cpu(first, second, |cpu| cpu.idle.load(Ordering::Relaxed))
    }

    /// Clears the idle bit of an idle CPU, preferably `first` or `second`, and returns the CPU. Returns `None` if no
    /// CPU is idle. Unless that is the caller's own CPU, the caller must kick it.
    fn claim_idle(&self, first: usize, second: usize) -> Option<usize> {
        // Ordering: Release publishes the thread on its list; partner: the exchange in `take_ready_or_be_idle`.
        let claim = |cpu: &CpuState<C>| cpu.idle.load(Ordering::Relaxed) && cpu.idle.swap(false, Ordering::AcqRel);
        self.first_cpu(first, second, claim)
    }

    /// Returns the first CPU for which `is_found` returns `true`, in the order `first`, `second`, all CPUs.
    #[inline(always)]
    fn first_cpu(&self, first: usize, second: usize, is_found: impl Fn(&CpuState<C>) -> bool) -> Option<usize> {
        if is_found(&self.cpus[first]) {
            return Some(first);
        }
        if second != first && is_found(&self.cpus[second]) {
            return Some(second);
        }
        self.cpus.iter().position(|cpu| is_found(cpu))
    }

    /// Takes a ready thread to run on this CPU, if there is one. Prefers a thread of this CPU's list to one of another
    /// CPU's list.
    ///
    /// If a thread runs on this CPU, it leaves the CPU by itself. So this function first withdraws the request to
    /// displace that thread, and clears `is_displaced`. If another CPU [kicks](Cpu::kick) this one afterwards, the
    /// thread that is taken here must give way. The kick sets `is_displaced` and requests the displacement. If the kick
    /// comes before the taken thread is the current one, that request has no effect, and [`start`](Self::start) repeats
    /// it.
    #[inline]
    pub(super) fn take_ready(&self) -> Option<&'static Thread<C>> {
        let here = self.here();
        C::withdraw_displacement();
        here.is_displaced.store(false, Ordering::Relaxed);
        take_from(here).or_else(|| {
            let (before, after) = self.cpus.split_at(C::current());
            after[1..].iter().chain(before).find_map(|cpu| take_from(cpu))
        })
    }

    /// Handles a kick: another CPU has put a thread on this CPU's list, or has claimed this CPU while it was idle, so
    /// that this CPU checks the lists again. Called by the interrupt handler.
    ///
    /// # Safety
    ///
    /// Interrupts are off on this CPU.
    #[expect(unsafe_code, reason = "the state of a CPU changes with interrupts off only")]
    pub unsafe fn reschedule_interrupt(&'static self) {
        if self.make_room() {
            C::request_displacement();
        }
    }

    /// Runs a ready thread instead of the calling one, if the calling one must give way. The calling thread then goes
    /// to an idle CPU or waits in the list of this CPU.
    ///
    /// # Safety
    ///
    /// The same as for [`park`](Self::park). In addition, the caller was in user code, so it holds nothing that other
    /// threads wait for.
    #[expect(unsafe_code, reason = "leaves the stack of a thread")]
    #[inline]
    pub unsafe fn displace(&'static self) {
        if self.here().is_displaced.load(Ordering::Relaxed) {
            self.displace_current();
        }
    }

    fn displace_current(&'static self) {
        let Some(me) = self.current() else { return };
        if self.here().is_displaced.swap(false, Ordering::Relaxed)
            && let Some(next) = take_from(self.here())
        {
            self.switch_from(me, Some(next), |threads, displaced| threads.make_ready(displaced, Urgency::Waits));
        }
    }

    /// The idle loop of a CPU.
    ///
    /// # Safety
    ///
    /// Called once on each CPU, pinned, with interrupts off, on the CPU's idle stack.
    #[expect(unsafe_code, reason = "the stack it is called on becomes the idle stack")]
    pub unsafe fn idle_loop(&'static self) -> ! {
        loop {
            match self.take_ready_or_be_idle() {
                Some(next) => {
                    // SAFETY: this is the idle loop, and it switches to a thread next.
                    unsafe { C::set_interrupts(true) };
                    self.switch_from_idle(next);
                    // SAFETY: this is the idle loop, to which a thread has switched back.
                    unsafe { C::set_interrupts(false) };
                }
                // SAFETY: this is the idle loop, and interrupts are off. An interrupt that comes after the ready lists
                // were checked is not lost: it stays pending until `halt` enables interrupts and halts in one step.
                None => unsafe { C::halt() },
            }
        }
    }

    /// Returns a thread for this CPU to run. If there is none, returns `None` with the idle bit of this CPU set, so
    /// that the CPU is kicked when there is a thread to run.
    pub(crate) fn take_ready_or_be_idle(&self) -> Option<&'static Thread<C>> {
        let cpu = self.here();
        cpu.idle.store(true, Ordering::Relaxed);
        // Ordering: SeqCst; partner: the fence in `make_ready`.
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
    let take = || {
        let mut ready = cpu.ready.lock();
        let thread = ready.pop_front();
        cpu.ready_length.store(ready.len(), Ordering::Relaxed);
        thread
    };
    #[expect(unsafe_code, reason = "code with interrupts off must not switch threads")]
    // SAFETY: `take` only changes a list.
    unsafe {
        C::without_interrupts(take)
    }
}
