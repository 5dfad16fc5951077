//! loom models of the wait for an answer: a thread that blocks against the interrupt that brings the answer, and a
//! cancellation against both. Each model explores all orders of the steps with at most two preemptions. A lost wakeup
//! is a deadlock, which loom reports.
//!
//! Each model also runs with a slot in which one step is wrong, and must then fail.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use kernel_virtio::{AnswerSlot, Mail};
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

/// One wakeup that is kept until the next wait, like that of a kernel thread or of a signal.
struct Token {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Token {
    fn new() -> Self {
        Self { is_set: Mutex::new(false), changed: Condvar::new() }
    }

    fn set(&self) {
        *self.is_set.lock().unwrap() = true;
        self.changed.notify_one();
    }

    fn wait(&self) {
        let mut is_set = self.is_set.lock().unwrap();
        while !*is_set {
            is_set = self.changed.wait(is_set).unwrap();
        }
        *is_set = false;
    }
}

/// The steps that a model can do wrongly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mutant {
    None,
    /// The handler wakes the thread before the answer is in the mail.
    WakesBeforeTheAnswer,
    /// The handler reads the thread and puts the answer in two steps instead of one.
    TakesTheThreadApart,
    /// The new owner of the slot waits without a call of `forsake`.
    KeepsTheThread,
    /// A cancellation wakes nobody.
    CancelsSilently,
}

/// A slot. Threads are represented by the numbers of their tokens. The last token is that of a caller without a thread.
struct Model {
    mail: Mutex<Mail<usize, u32>>,
    tokens: [Token; 3],
    is_cancelled: AtomicBool,
    mutant: Mutant,
}

const NO_THREAD: usize = 2;

impl AnswerSlot for Model {
    type Thread = usize;
    type Answer = u32;

    fn with_mail<R>(&self, act: impl FnOnce(&mut Mail<usize, u32>) -> R) -> R {
        act(&mut self.mail.lock().unwrap())
    }

    fn wake(&self, thread: Option<usize>) {
        self.tokens[thread.unwrap_or(NO_THREAD)].set();
    }
}

impl Model {
    fn new(mutant: Mutant) -> Arc<Self> {
        Arc::new(Self {
            mail: Mutex::new(Mail::default()),
            tokens: [Token::new(), Token::new(), Token::new()],
            is_cancelled: AtomicBool::new(false),
            mutant,
        })
    }

    fn interrupt(slot: &Arc<Self>, answer: u32) -> thread::JoinHandle<()> {
        let slot = Arc::clone(slot);
        thread::spawn(move || match slot.mutant {
            Mutant::WakesBeforeTheAnswer => {
                slot.interrupt_wait();
                slot.with_mail(|mail| mail.answer = Some(answer));
            }
            Mutant::TakesTheThreadApart => {
                let thread = slot.with_mail(|mail| mail.thread);
                slot.with_mail(|mail| mail.answer = Some(answer));
                slot.wake(thread);
            }
            _ => slot.deliver_answer(answer),
        })
    }

    fn cancel(slot: &Arc<Self>) -> thread::JoinHandle<()> {
        let slot = Arc::clone(slot);
        thread::spawn(move || {
            slot.is_cancelled.store(true, Ordering::SeqCst);
            if slot.mutant != Mutant::CancelsSilently {
                slot.interrupt_wait();
            }
        })
    }

    /// Waits like a call of the driver: until the answer or the cancellation.
    fn wait_until_cancelled(&self, token: usize) -> Option<u32> {
        self.wait_for_answer(|| self.is_cancelled.load(Ordering::SeqCst), || self.tokens[token].wait())
    }

    /// Waits like the G that gets the slot after a cancellation.
    fn wait_for_late_answer(&self) -> u32 {
        if self.mutant != Mutant::KeepsTheThread {
            self.forsake();
        }
        self.wait_for_answer(|| false, || self.tokens[NO_THREAD].wait()).expect("the wait has no limit")
    }
}

/// Runs a model in all orders with up to two preemptions.
fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

/// A thread blocks, or a caller waits without a thread, while the interrupt comes.
fn block_against_interrupt(mutant: Mutant) {
    for thread in [Some(0), None] {
        explore(move || {
            let slot = Model::new(mutant);
            slot.prepare(thread);
            let interrupt = Model::interrupt(&slot, 7);
            assert_eq!(slot.wait_until_cancelled(thread.unwrap_or(NO_THREAD)), Some(7));
            interrupt.join().unwrap();
        });
    }
}

/// A call is cancelled while the answer arrives. Either the call gets the answer, or the new owner of the slot does.
/// Afterwards the slot serves the request of another thread.
fn cancel_against_completion(mutant: Mutant) {
    static IN_TIME: AtomicUsize = AtomicUsize::new(0);
    static LATE: AtomicUsize = AtomicUsize::new(0);
    explore(move || {
        let slot = Model::new(mutant);
        slot.prepare(Some(0));
        let (interrupt, cancel) = (Model::interrupt(&slot, 7), Model::cancel(&slot));
        let (answer, count) = match slot.wait_until_cancelled(0) {
            Some(answer) => (answer, &IN_TIME),
            None => (slot.wait_for_late_answer(), &LATE),
        };
        assert_eq!(answer, 7);
        count.fetch_add(1, Relaxed);
        // The cancellation may still be under way, and wake the next user of the slot without a reason.
        slot.prepare(Some(1));
        interrupt.join().unwrap();
        let next = Model::interrupt(&slot, 8);
        assert_eq!(slot.wait_for_answer(|| false, || slot.tokens[1].wait()), Some(8));
        next.join().unwrap();
        cancel.join().unwrap();
    });
    assert!(IN_TIME.load(Relaxed) > 0 && LATE.load(Relaxed) > 0, "both ends of the race occur");
}

/// The device does not answer before the call has been cancelled.
fn cancel_before_completion(mutant: Mutant) {
    explore(move || {
        let slot = Model::new(mutant);
        slot.prepare(Some(0));
        let cancel = Model::cancel(&slot);
        assert_eq!(slot.wait_until_cancelled(0), None);
        let interrupt = Model::interrupt(&slot, 7);
        assert_eq!(slot.wait_for_late_answer(), 7);
        interrupt.join().unwrap();
        cancel.join().unwrap();
    });
}

#[test]
fn block_against_interrupt_ends() {
    block_against_interrupt(Mutant::None);
}

#[test]
fn cancel_against_completion_ends_once() {
    cancel_against_completion(Mutant::None);
}

#[test]
fn late_answer_is_found_after_a_cancellation() {
    cancel_before_completion(Mutant::None);
}

#[test]
#[should_panic(expected = "deadlock")]
fn model_finds_a_wakeup_before_the_answer() {
    block_against_interrupt(Mutant::WakesBeforeTheAnswer);
}

#[test]
#[should_panic(expected = "deadlock")]
fn model_finds_a_thread_that_is_read_too_early() {
    cancel_against_completion(Mutant::TakesTheThreadApart);
}

#[test]
#[should_panic(expected = "deadlock")]
fn model_finds_a_thread_that_is_not_forgotten() {
    cancel_before_completion(Mutant::KeepsTheThread);
}

#[test]
#[should_panic(expected = "deadlock")]
fn model_finds_a_cancellation_that_wakes_nobody() {
    cancel_before_completion(Mutant::CancelsSilently);
}
