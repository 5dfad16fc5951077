//! The wait for an answer: the wait ends once, by the answer or by a limit, and no waiter misses the answer.
//!
//! ```text
//!  caller                          mail of the slot               interrupt handler
//!  prepare ────────────────────────▶ thread
//!  submit the request
//!  wait: take the answer, or park    thread, answer ◀───────────── deliver: put the answer, take the thread
//!        ▲                                                               │
//!        └───────────────────────────── wake ◀───────────────────────────┘
//! ```
//!
//! A lock guards the mail, so each step is atomic. The caller looks for the answer before it parks, and a wakeup that
//! comes between the two makes the park return at once. So the caller finds the answer whether the answer arrives
//! before or after the park begins.
//!
//! If a limit ends the wait, the request stays in flight. The new owner of the slot calls [`AnswerSlot::forsake`], and
//! waits without a thread. If the handler has taken the thread before, the answer is in the mail already, and the new
//! owner finds the answer before it parks. The thread is then woken although it does not wait for this answer any more.
//! So a thread or a signal may be woken without a reason. Hence a waiter looks into the mail again after each wakeup.
//!
//! The tests in `tests/slot.rs` explore all orders of these steps with at most two preemptions.

/// What a slot contains, guarded by the slot's lock. `T` is a thread, `A` an answer.
#[derive(Debug)]
pub struct Mail<T, A> {
    /// The thread that waits for the answer. `None` if the caller waits without a thread, and after the answer has
    /// arrived.
    pub thread: Option<T>,
    /// The answer, from its arrival until the caller takes it.
    pub answer: Option<A>,
}

impl<T, A> Default for Mail<T, A> {
    fn default() -> Self {
        Self { thread: None, answer: None }
    }
}

/// Where the answer to a request arrives. One request at a time uses a slot.
pub trait AnswerSlot {
    /// A thread that can wait.
    type Thread: Copy;
    /// An answer.
    type Answer;

    /// Calls `act` with the mail of the slot. Meanwhile the mail is locked, and no interrupt handler runs on this CPU.
    fn with_mail<R>(&self, act: impl FnOnce(&mut Mail<Self::Thread, Self::Answer>) -> R) -> R;

    /// Wakes the waiter for the answer: `thread`, or if this is `None`, the caller that waits without a thread. If the
    /// waiter has not parked yet, its next park returns at once. Callable from interrupt handlers.
    fn wake(&self, thread: Option<Self::Thread>);

    /// Prepares the slot for a request, before the request is submitted. `thread` is the thread that will wait for the
    /// answer, or `None` if the caller will wait without a thread.
    fn prepare(&self, thread: Option<Self::Thread>) {
        self.with_mail(|mail| *mail = Mail { thread, answer: None });
    }

    /// Puts the answer into the slot, and wakes the waiter. Callable from interrupt handlers.
    fn deliver_answer(&self, answer: Self::Answer) {
        let thread = self.with_mail(|mail| {
            mail.answer = Some(answer);
            mail.thread.take()
        });
        self.wake(thread);
    }

    /// Wakes the waiter, so that it checks whether its limit is over. Callable from interrupt handlers.
    fn interrupt_wait(&self) {
        self.wake(self.with_mail(|mail| mail.thread));
    }

    /// Records that no thread waits for the answer any more, because the new owner of the slot waits without a thread.
    fn forsake(&self) {
        self.with_mail(|mail| mail.thread = None);
    }

    /// Waits for the answer by calling `park` repeatedly. A call of `park` returns if the slot has been woken since the
    /// last call. It may also return for other reasons. `wait_for_answer` returns `None` if `is_over` has returned true,
    /// and no answer had arrived before.
    fn wait_for_answer(&self, mut is_over: impl FnMut() -> bool, mut park: impl FnMut()) -> Option<Self::Answer> {
        loop {
            if let Some(answer) = self.with_mail(|mail| mail.answer.take()) {
                return Some(answer);
            }
            if is_over() {
                return None;
            }
            park();
        }
    }
}
