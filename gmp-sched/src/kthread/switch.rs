//! Switching between threads on one CPU. A commit is a function that runs after the switch (on the far side). It makes
//! the previous thread of the CPU visible to other CPUs, which is safe because this thread's context has been saved. Gs
//! use the same technique.

use core::marker::PhantomData;
use core::ops::Range;

use super::placement::Urgency;
use super::token::Token;
use super::{Cpu, Thread, Threads};
use crate::base::atomic::{AtomicU32, AtomicUsize, Ordering};
use crate::base::error::OutOfResources;
use crate::base::forever::make_forever;
use crate::base::reference::AtomicRef;
use crate::base::timing_wheel::WheelEntry;
use crate::context::{self, SavedContext, Start, Transfer, Word};

/// A commit, which is called on the far side with the thread that has left.
type Commit<C> = fn(&'static Threads<C>, &'static Thread<C>);

impl<C: Cpu> Threads<C> {
    /// Makes a thread. When it is first unparked, it calls `entry(argument)` with a preemption-disable depth of one.
    /// Allocates.
    ///
    /// # Errors
    ///
    /// There is no memory for the thread. Nothing uses the stack then.
    ///
    /// # Safety
    ///
    /// `stack` is mapped memory that nothing else ever uses, unless this function returns an error.
    #[expect(unsafe_code, reason = "takes a stack by address")]
    pub unsafe fn create(
        &'static self,
        stack: Range<usize>,
        entry: fn(usize) -> !,
        argument: usize,
    ) -> Result<&'static Thread<C>, OutOfResources> {
        make_forever(|| {
            let context = SavedContext::new();
            // SAFETY: the caller promises that the stack is mapped and that nothing else uses it. The address is rounded
            // down to a multiple of 16. No other flow of control knows the context, which is new.
            unsafe { context::prepare::<ThreadMain<C>>(&context, stack.end & !15) };
            Ok(Thread {
                context,
                stack_end: AtomicUsize::new(stack.end),
                token: Token::parked(),
                last_cpu: AtomicU32::new(u32::try_from(C::current()).unwrap_or(0)),
                link: AtomicRef::none(),
                sleep: WheelEntry::unlinked(),
                entry,
                argument,
            })
        })
    }

    /// Ends the calling thread. [`Cpu::ended`] is called when the thread has left its stack.
    ///
    /// # Panics
    ///
    /// Called from the idle loop.
    ///
    /// # Safety
    ///
    /// The same as for [`park`](Self::park). In addition, nothing on the stack is used any more.
    #[expect(unsafe_code, reason = "leaves the stack of a thread for ever")]
    #[track_caller]
    pub unsafe fn end(&'static self) -> ! {
        let me = self.current().expect("the idle loop does not end");
        let next = self.take_ready();
        // SAFETY: the commit is called when the thread has left its stack, and the thread is not resumed.
        self.switch_from(me, next, |_, ended| unsafe { C::ended(ended, ended.stack_end.load(Ordering::Relaxed)) });
        unreachable!("{me:?} runs after its end")
    }

    /// Makes `thread`, which has [ended](Self::end), begin anew on another stack, as after [`create`](Self::create).
    ///
    /// The thread may have been unparked since its end. Then it begins to run at once.
    ///
    /// # Safety
    ///
    /// [`Cpu::ended`] was called for the thread, and the thread has not been restarted since. `stack` is mapped memory
    /// that nothing else uses until `Cpu::ended` is called again.
    #[expect(unsafe_code, reason = "takes a stack by address")]
    pub unsafe fn restart(&'static self, thread: &'static Thread<C>, stack: Range<usize>) {
        // SAFETY: the caller promises that the stack is mapped and that nothing else uses it. The address is rounded
        // down to a multiple of 16. The thread has ended and its token is not parked, so no CPU resumes the context.
        unsafe { context::prepare::<ThreadMain<C>>(&thread.context, stack.end & !15) };
        thread.stack_end.store(stack.end, Ordering::Relaxed);
        if !thread.token.commit_park() {
            self.make_ready(thread, Urgency::Waits);
        }
    }

    /// Switches from `me`, the calling thread, to `next`, or to the idle loop if `next` is `None`. Returns when `me`
    /// runs again.
    pub(super) fn switch_from(
        &'static self,
        me: &'static Thread<C>,
        next: Option<&'static Thread<C>>,
        commit: Commit<C>,
    ) {
        let to = match next {
            Some(next) => self.start(next),
            None => {
                let cpu = self.here();
                cpu.current.store(None, Ordering::Relaxed);
                #[expect(unsafe_code, reason = "what a CPU runs changes with the switch only")]
                // SAFETY: the switch below is to the idle loop.
                unsafe {
                    C::switching_to_idle();
                }
                &cpu.idle_context
            }
        };
        let transfer = Transfer {
            function: commit as *const () as usize,
            subject: core::ptr::from_ref(me).expose_provenance(),
            argument: Word::uninit(),
        };
        switch::<C>(&me.context, to, transfer);
    }

    /// Switches from the idle loop to `next`. Returns when this CPU has nothing to run.
    pub(super) fn switch_from_idle(&'static self, next: &'static Thread<C>) {
        let to = self.start(next);
        switch::<C>(&self.here().idle_context, to, Transfer { function: 0, subject: 0, argument: Word::uninit() });
    }

    /// Makes `next` the current thread of this CPU, and returns its context for the switch.
    pub(crate) fn start(&'static self, next: &'static Thread<C>) -> &'static SavedContext {
        let cpu = self.here();
        cpu.current.store(Some(next), Ordering::Relaxed);
        if cpu.is_displaced.load(Ordering::Relaxed) {
            // The displacement was requested after `next` was taken but before `next` was the current thread. That
            // request had no effect, so it is repeated here; see `take_ready`.
            C::request_displacement();
        }
        next.last_cpu.store(u32::try_from(C::current()).unwrap_or(0), Ordering::Relaxed);
        let now = C::now();
        cpu.running_since.store(now.as_nanos(), Ordering::Relaxed);
        #[expect(unsafe_code, reason = "what a CPU runs changes with the switch only")]
        // SAFETY: the callers of `start` switch to the returned context.
        unsafe {
            C::switching_to(next, now);
        }
        &next.context
    }
}

fn switch<C: Cpu>(save: &SavedContext, to: &SavedContext, transfer: Transfer) {
    #[expect(unsafe_code, reason = "the context switch")]
    // SAFETY: `to` is the context of a thread that this CPU took off a ready list, or of its own idle loop, so no other
    // CPU resumes it. The saved context becomes visible to others only by the commit.
    let transfer = unsafe { context::switch(save, to, transfer) };
    arrive::<C>(transfer);
}

/// Runs the commit of a switch, if there is one. Called on the far side.
fn arrive<C: Cpu>(transfer: Transfer) {
    if transfer.function == 0 {
        return;
    }
    #[expect(unsafe_code, reason = "turns a word of a transfer back into what it was made from")]
    // SAFETY: threads switch only to threads and idle loops with the same `C`, and `switch_from` made every transfer
    // that has a function.
    let commit = unsafe { core::mem::transmute::<usize, Commit<C>>(transfer.function) };
    #[expect(unsafe_code, reason = "turns a word of a transfer back into what it was made from")]
    // SAFETY: `switch_from` put the address of a thread into the transfer, and threads are never freed.
    let thread = unsafe { &*core::ptr::with_exposed_provenance::<Thread<C>>(transfer.subject) };
    commit(C::threads(), thread);
}

/// What every thread runs.
struct ThreadMain<C: Cpu>(PhantomData<C>);

impl<C: Cpu> Start for ThreadMain<C> {
    extern "sysv64" fn arrive(subject: usize, argument: Word, function: usize) {
        arrive::<C>(Transfer { function, subject, argument });
    }

    extern "sysv64" fn run(_: usize) -> ! {
        let me = C::threads().current().expect("a thread runs as the current one of its CPU");
        (me.entry)(me.argument)
    }
}
