//! The mutants.

use std::fmt;

/// Who notices a mutant.
#[derive(Clone, Copy)]
pub(crate) enum Catcher {
    /// loom models whose path contains this.
    Model(&'static str),
    /// A test of `tests/simulation.rs`, with the seeds of an ordinary run.
    Simulation(&'static str),
    /// A property test, of `tests/run_queue.rs` or in the source.
    Properties(&'static str),
    /// Nobody can, for this reason.
    Nobody(&'static str),
}

/// One small change of the source, after which something is wrong.
pub(crate) struct Mutant {
    /// What is wrong then.
    pub(crate) what: &'static str,
    /// Of `gmp-sched/src`.
    pub(crate) file: &'static str,
    /// What is there, once.
    pub(crate) from: &'static str,
    /// What is put there instead.
    pub(crate) to: &'static str,
    pub(crate) catcher: Catcher,
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.what)
    }
}

use Catcher::{Model, Nobody, Properties, Simulation};

const fn mutant(
    file: &'static str,
    what: &'static str,
    from: &'static str,
    to: &'static str,
    catcher: Catcher,
) -> Mutant {
    Mutant { what, file, from, to, catcher }
}

pub(crate) const MUTANTS: &[Mutant] = &[
    // The ring and `runnext`.
    mutant(
        "run_queue.rs",
        "a push publishes the slot without Release",
        "        // Ordering: Release publishes the slot to the thieves, which load `tail` with Acquire.
        self.tail.store(tail.wrapping_add(1), Ordering::Release);",
        "        self.tail.store(tail.wrapping_add(1), Ordering::Relaxed);",
        Model("run_queue::owner_pushes"),
    ),
    mutant(
        "run_queue.rs",
        "a push writes the slot after the tail",
        "        self.slot(tail).store(Some(item), Ordering::Relaxed);
        // Ordering: Release publishes the slot to the thieves, which load `tail` with Acquire.
        self.tail.store(tail.wrapping_add(1), Ordering::Release);",
        "        self.tail.store(tail.wrapping_add(1), Ordering::Release);
        self.slot(tail).store(Some(item), Ordering::Relaxed);",
        Model("run_queue::owner_pushes"),
    ),
    mutant(
        "run_queue.rs",
        "a push overruns a full ring",
        "        if tail.wrapping_sub(head) >= Self::SIZE {
            return Err(Full);",
        "        if tail.wrapping_sub(head) > Self::SIZE {
            return Err(Full);",
        Properties("behaves_like"),
    ),
    mutant(
        "run_queue.rs",
        "a push after a pop publishes the slot without Release",
        "        // Ordering: as in `push_back`.
        self.tail.store(tail.wrapping_add(1), Ordering::Release);",
        "        self.tail.store(tail.wrapping_add(1), Ordering::Relaxed);",
        Model("run_queue::owner_yields"),
    ),
    mutant(
        "run_queue.rs",
        "a push does not wait for thieves to have read the slot",
        "        let head = self.head.load(Ordering::Acquire);
        let tail = self.tail.load(Ordering::Relaxed);
        if tail.wrapping_sub(head) >= Self::SIZE {",
        "        let head = self.head.load(Ordering::Relaxed);
        let tail = self.tail.load(Ordering::Relaxed);
        if tail.wrapping_sub(head) >= Self::SIZE {",
        Nobody(
            "a thief would have to read what is stored later than the owner sees the thief's claim, which follows that \
             read. The language allows it (load buffering); x86 does not do it, and loom, which runs one step after the \
             other, cannot show it. The Acquire stays for the language.",
        ),
    ),
    mutant(
        "run_queue.rs",
        "pop takes without a claim",
        "            if self.head.compare_exchange(head, head.wrapping_add(1), Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return item.map(|item| (item, Slice::New));
            }",
        "            self.head.store(head.wrapping_add(1), Ordering::Release);
            return item.map(|item| (item, Slice::New));",
        Model("run_queue::two_thieves"),
    ),
    mutant(
        "run_queue.rs",
        "pop takes runnext although a thief has it",
        "        if next.is_some() && self.next.replace(next, None, Ordering::AcqRel, Ordering::Relaxed) {
            // If",
        "        if next.is_some() {
            self.next.store(None, Ordering::Release);
            // If",
        Model("run_queue::run_next"),
    ),
    mutant(
        "run_queue.rs",
        "pop empties runnext without Release",
        "        if next.is_some() && self.next.replace(next, None, Ordering::AcqRel, Ordering::Relaxed) {
            // If",
        "        if next.is_some() && self.next.replace(next, None, Ordering::Acquire, Ordering::Relaxed) {
            // If",
        Model("run_queue::a_queue_with"),
    ),
    mutant(
        "run_queue.rs",
        "is_empty looks at runnext without Acquire",
        "            let next = self.next.load(Ordering::Acquire);",
        "            let next = self.next.load(Ordering::Relaxed);",
        Model("run_queue::a_queue_with"),
    ),
    mutant(
        "run_queue.rs",
        "is_empty does not look at the tail again",
        "            if self.tail.load(Ordering::Acquire) == tail {
                return head == tail && next.is_none();
            }",
        "            return head == tail && next.is_none();",
        Model("run_queue::a_queue_with"),
    ),
    mutant(
        "run_queue.rs",
        "runnext is set without Release",
        "            self.next.store(Some(item), Ordering::Release);",
        "            self.next.store(Some(item), Ordering::Relaxed);",
        Model("run_queue::the_first_run_next"),
    ),
    mutant(
        "run_queue.rs",
        "runnext is exchanged without Release",
        "        self.next.swap(Some(item), Ordering::AcqRel)",
        "        self.next.swap(Some(item), Ordering::Acquire)",
        Model("run_queue::run_next"),
    ),
    mutant(
        "run_queue.rs",
        "what is kicked out of runnext may be a thief's already",
        "        self.next.swap(Some(item), Ordering::AcqRel)",
        "        let kicked = self.next.load(Ordering::Relaxed);
        self.next.store(Some(item), Ordering::Release);
        kicked",
        Model("run_queue::run_next"),
    ),
    mutant(
        "run_queue.rs",
        "a thief takes runnext without a claim",
        "        if next.is_some() && self.next.replace(next, None, Ordering::AcqRel, Ordering::Relaxed) { next } else { None }",
        "        self.next.store(None, Ordering::Release);
        next",
        Model("run_queue::run_next"),
    ),
    mutant(
        "run_queue.rs",
        "a thief takes runnext without Acquire",
        "        if next.is_some() && self.next.replace(next, None, Ordering::AcqRel, Ordering::Relaxed) { next } else { None }",
        "        if next.is_some() && self.next.replace(next, None, Ordering::Release, Ordering::Relaxed) { next } else { None }",
        Model("run_queue::run_next"),
    ),
    mutant(
        "run_queue.rs",
        "a thief looks at the tail without Acquire",
        "            // Ordering: Acquire pairs with the Release store in `push_back`: the slots below `tail` are written.
            let tail = self.tail.load(Ordering::Acquire);",
        "            let tail = self.tail.load(Ordering::Relaxed);",
        Model("run_queue::owner_pushes"),
    ),
    mutant(
        "run_queue.rs",
        "a thief claims without an exchange",
        "            if self.head.compare_exchange(head, head.wrapping_add(half), Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return half;
            }",
        "            self.head.store(head.wrapping_add(half), Ordering::Release);
            return half;",
        Model("run_queue::two_thieves"),
    ),
    mutant(
        "run_queue.rs",
        "a thief copies after its claim",
        "            for offset in 0..half {
                let item = self.slot(head.wrapping_add(offset)).load(Ordering::Relaxed);
                thief.slot(base.wrapping_add(offset)).store(item, Ordering::Relaxed);
            }
            S::point(Site::RunQueue);
            // Ordering: Release keeps the reads of the slots before it; partner: `push_back`.
            if self.head.compare_exchange(head, head.wrapping_add(half), Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return half;
            }",
        "            if self.head.compare_exchange(head, head.wrapping_add(half), Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                for offset in 0..half {
                    let item = self.slot(head.wrapping_add(offset)).load(Ordering::Relaxed);
                    thief.slot(base.wrapping_add(offset)).store(item, Ordering::Relaxed);
                }
                return half;
            }",
        Model("run_queue::owner_wraps"),
    ),
    mutant(
        "run_queue.rs",
        "a thief publishes what it stole without Release",
        "            thief.tail.store(base.wrapping_add(kept), Ordering::Release);",
        "            thief.tail.store(base.wrapping_add(kept), Ordering::Relaxed);",
        Model("run_queue::a_thief_is_robbed"),
    ),
    mutant(
        "run_queue.rs",
        "a thief uses a head and a tail of different moments",
        "            if half > Self::SIZE / 2 {",
        "            if false {",
        Nobody(
            "its claim fails, since the head has moved on; what it wrote meanwhile are slots of its own ring, which is \
             empty. The check saves the copy, and spares everyone this argument.",
        ),
    ),
    mutant(
        "run_queue.rs",
        "half of a full ring is moved away without a claim",
        "        if self.head.compare_exchange(head, head.wrapping_add(half), Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }",
        "        self.head.store(head.wrapping_add(half), Ordering::Release);",
        Model("run_queue::overflow"),
    ),
    // The park token.
    mutant(
        "kthread/token.rs",
        "a token is given without Release",
        "self.state.compare_exchange(state, next, Ordering::AcqRel, Ordering::Relaxed)",
        "self.state.compare_exchange(state, next, Ordering::Acquire, Ordering::Relaxed)",
        Model("token::what"),
    ),
    mutant(
        "kthread/token.rs",
        "whoever makes a thread ready does not see its saved context",
        "self.state.compare_exchange(state, next, Ordering::AcqRel, Ordering::Relaxed)",
        "self.state.compare_exchange(state, next, Ordering::Release, Ordering::Relaxed)",
        Model("token::a_token"),
    ),
    mutant(
        "kthread/token.rs",
        "a context is saved without Release",
        "self.state.compare_exchange(RUNNING, PARKED, Ordering::Release, Ordering::Relaxed)",
        "self.state.compare_exchange(RUNNING, PARKED, Ordering::Relaxed, Ordering::Relaxed)",
        Model("token::a_token"),
    ),
    mutant(
        "kthread/token.rs",
        "a token that came in between is overwritten",
        "        if self.state.compare_exchange(RUNNING, PARKED, Ordering::Release, Ordering::Relaxed).is_ok() {
            return true;
        }",
        "        if self.state.swap(PARKED, Ordering::Release) == RUNNING {
            return true;
        }",
        Model("token::"),
    ),
    mutant(
        "kthread/token.rs",
        "a token is taken without Acquire",
        "self.state.compare_exchange(NOTIFIED, RUNNING, Ordering::Acquire, Ordering::Relaxed)",
        "self.state.compare_exchange(NOTIFIED, RUNNING, Ordering::Relaxed, Ordering::Relaxed)",
        Model("token::what"),
    ),
    mutant(
        "kthread/token.rs",
        "the far side uses a token up without Acquire",
        "        self.state.swap(RUNNING, Ordering::Acquire);",
        "        self.state.swap(RUNNING, Ordering::Relaxed);",
        Model("token::what"),
    ),
    mutant(
        "kthread/token.rs",
        "a token that is there is not given again",
        "            let next = if state == PARKED { RUNNING } else { NOTIFIED };",
        "            if state == NOTIFIED {
                return false;
            }
            let next = if state == PARKED { RUNNING } else { NOTIFIED };",
        Model("token::what"),
    ),
    // Idle and wake: `idle.md`.
    mutant(
        "idle.rs",
        "submit has no fence",
        "        fence(Ordering::SeqCst);
        P::point(Site::Idle);
        if self.idle_processors.load(Ordering::Relaxed) != 0 &&",
        "        P::point(Site::Idle);
        if self.idle_processors.load(Ordering::Relaxed) != 0 &&",
        Model("idle::a_submitter_against_an_idling"),
    ),
    mutant(
        "idle.rs",
        "submit has a fence that is too weak",
        "        fence(Ordering::SeqCst);
        P::point(Site::Idle);
        if self.idle_processors.load(Ordering::Relaxed) != 0 &&",
        "        fence(Ordering::AcqRel);
        P::point(Site::Idle);
        if self.idle_processors.load(Ordering::Relaxed) != 0 &&",
        Model("idle::a_submitter_against_an_idling"),
    ),
    mutant(
        "idle.rs",
        "going idle has no fence",
        "        // Ordering: idle.2 of idle.md; partner: the fence in `submitted`.
        fence(Ordering::SeqCst);",
        "",
        Model("idle::a_submitter_against_an_idling"),
    ),
    mutant(
        "idle.rs",
        "an M that goes idle does not look again",
        "            if self.take_assigned() || scheduler.is_work_visible() && self.take_back() {",
        "            if self.take_assigned() {",
        Model("idle::a_submitter_against_an_idling"),
    ),
    mutant(
        "idle.rs",
        "an M that goes idle does not look at the global queue under the lock",
        "            if !shared.global.is_empty() {
                return;
            }",
        "",
        Nobody(
            "the look at everything in idle.3 comes after the lock hold and finds the G too. The early look saves giving \
             the P up.",
        ),
    ),
    mutant(
        "idle.rs",
        "a waker that finds no idle P does not look again",
        "            self.spinning.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Gives `processor`",
        "            self.spinning.fetch_sub(1, Ordering::SeqCst);
            return;
        }
    }

    /// Gives `processor`",
        Model("idle::a_waker"),
    ),
    mutant(
        "idle.rs",
        "a waker that finds no idle P stays counted",
        "            self.spinning.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Gives `processor`",
        "            return;
        }
    }

    /// Gives `processor`",
        Model("idle::a_waker"),
    ),
    mutant(
        "idle.rs",
        "a woken M is marked as spinning after it can see its P",
        "        machine.spinning.store(errand == Errand::Search, Ordering::Relaxed);
        // Ordering: Release; partner: the Acquire in `take_assigned`, which a spurious wake-up may reach before the
        // unpark.
        machine.next_processor.store(Some(processor), Ordering::Release);",
        "        machine.next_processor.store(Some(processor), Ordering::Release);
        machine.spinning.store(errand == Errand::Search, Ordering::Relaxed);",
        Model("idle::a_submitter_against_an_idling"),
    ),
    mutant(
        "idle.rs",
        "an M is given its P without Release",
        "        machine.next_processor.store(Some(processor), Ordering::Release);",
        "        machine.next_processor.store(Some(processor), Ordering::Relaxed);",
        Model("idle::"),
    ),
    mutant(
        "idle.rs",
        "an M takes its P without Acquire",
        "self.next_processor.load(Ordering::Acquire)",
        "self.next_processor.load(Ordering::Relaxed)",
        Model("idle::"),
    ),
    mutant(
        "idle.rs",
        "an M that finds work stays on the idle list",
        "        shared.idle_machines.remove(self);",
        "",
        Model("idle::a_submitter_against_an_idling"),
    ),
    mutant(
        "idle.rs",
        "an M that finds work overlooks that it was given a P",
        "        if self.next_processor.load(Ordering::Relaxed).is_some() {
            drop(shared);
            return self.take_assigned();
        }",
        "",
        Model("idle::"),
    ),
    mutant(
        "idle.rs",
        "an M that finds work is not counted as spinning",
        "        self.spinning.store(true, Ordering::Relaxed);
        scheduler.spinning.fetch_add(1, Ordering::SeqCst);",
        "",
        Model("idle::a_submitter_of_two"),
    ),
    mutant(
        "idle.rs",
        "a spinning M that goes idle stays counted",
        "            if self.spinning.swap(false, Ordering::Relaxed) {
                scheduler.spinning.fetch_sub(1, Ordering::SeqCst);
            }",
        "",
        Model("idle::a_submitter_against_a_spinning"),
    ),
    mutant(
        "find.rs",
        "a spinning M that finds work does not wake the next",
        "        scheduler.spinning.fetch_sub(1, Ordering::SeqCst);
        scheduler.wake_processor();",
        "        scheduler.spinning.fetch_sub(1, Ordering::SeqCst);",
        Model("idle::a_submitter_against_a_spinner_that_finds_work"),
    ),
    mutant(
        "find.rs",
        "a spinning M that finds work wakes the next before it is off the count",
        "        scheduler.spinning.fetch_sub(1, Ordering::SeqCst);
        scheduler.wake_processor();",
        "        scheduler.wake_processor();
        scheduler.spinning.fetch_sub(1, Ordering::SeqCst);",
        Model("idle::a_submitter_against_a_spinner_that_finds_work"),
    ),
    // Who keeps the time.
    mutant(
        "idle.rs",
        "telling the timekeeper has no fence",
        "        fence(Ordering::SeqCst);
        P::point(Site::Timers);
        // The deadline is",
        "        P::point(Site::Timers);
        // The deadline is",
        Model("timers::a_timer_against"),
    ),
    mutant(
        "idle.rs",
        "the timekeeper has no fence",
        "            // Ordering: partner is the fence in `tell_timekeeper`.
            fence(Ordering::SeqCst);",
        "",
        Model("timers::a_timer_against_a_timekeeper"),
    ),
    mutant(
        "idle.rs",
        "the timekeeper does not look again",
        "            if self.earliest_unkept() >= earliest {
                return (earliest != Instant::NEVER).then_some(earliest);
            }",
        "            return (earliest != Instant::NEVER).then_some(earliest);",
        Model("timers::a_timer_against_a_timekeeper"),
    ),
    mutant(
        "idle.rs",
        "the heir of the timekeeper is not woken",
        "                P::unpark_thread(heir);",
        "                let _ = heir;",
        Model("timers::the_timekeeper_goes_back"),
    ),
    mutant(
        "idle.rs",
        "the timekeeper that goes back to work keeps the role",
        "            scheduler.set_timekeeper(heir);",
        "",
        Model("timers::the_timekeeper_goes_back"),
    ),
    mutant(
        "idle.rs",
        "an M that is not the timekeeper does not tell it of the timers it leaves",
        "                if earliest != Instant::NEVER {
                    self.tell_timekeeper(earliest);
                }
                return None;",
        "                return None;",
        Model("timers::going_idle"),
    ),
    mutant(
        "timers.rs",
        "a timer that is the earliest now is not told",
        "pinned.machine().scheduler().tell_timekeeper(when);",
        "",
        Model("timers::a_timer_against"),
    ),
    mutant(
        "syscall.rs",
        "a hand-off does not tell the timekeeper of the timers it leaves",
        "        self.tell_timekeeper(processor.timers.earliest());",
        "        crate::primitives::fence(Ordering::SeqCst);",
        Model("timers::handing_off"),
    ),
    // System calls.
    mutant(
        "processor.rs",
        "a P is left behind without Release",
        "        self.0.store(status as u32, Ordering::Release);",
        "        self.0.store(status as u32, Ordering::Relaxed);",
        Model("syscall::retake"),
    ),
    mutant(
        "processor.rs",
        "a P is taken from a system call without Acquire",
        "self.0.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed)",
        "self.0.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed)",
        Model("syscall::retake"),
    ),
    mutant(
        "processor.rs",
        "two may take a P from a system call",
        "        self.0.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).is_ok()",
        "        let is_free = self.0.load(Ordering::Acquire) == from;
        if is_free {
            self.0.store(to, Ordering::Relaxed);
        }
        is_free",
        Model("syscall::retake"),
    ),
    mutant(
        "syscall.rs",
        "an M is counted as blocked after its P has been taken",
        "        if self.secure_successor().is_err() {
            return false;
        }
        P::point(Site::Syscall);
        if !processor.status.claim_from_syscall() {
            self.shared.lock().blocked_machines -= 1;
            return false;
        }",
        "        if !processor.status.claim_from_syscall() {
            return false;
        }
        if self.secure_successor().is_err() {
            return false;
        }",
        Model("syscall::retake"),
    ),
    mutant(
        "syscall.rs",
        "a hand-off does not look for work of the others",
        "        if self.is_work_visible() {
            self.wake_processor();
        }",
        "",
        Model("syscall::hand_off"),
    ),
    mutant(
        "syscall.rs",
        "a hand-off leaves a P with work idle",
        "            if has_work || !shared.global.is_empty() {",
        "            if !shared.global.is_empty() {",
        Nobody("the look at everything that follows finds that work and wakes an M for it, which takes longer."),
    ),
    mutant(
        "syscall.rs",
        "an M without a P goes idle before its G is on a queue",
        "        scheduler.put_global(&mut shared, &mut one);
        scheduler.put_idle_machine(&mut shared, machine);
    }",
        "        scheduler.put_idle_machine(&mut shared, machine);
    }
    scheduler.put_global(&mut scheduler.shared.lock(), &mut one);",
        Model("syscall::the_return"),
    ),
    mutant(
        "syscall.rs",
        "an M without a P wakes nobody for its G",
        "    P::point(Site::Idle);
    scheduler.wake_processor();",
        "",
        Nobody("the M itself looks at everything once more before it parks, and takes an idle P. The wake-up is sooner."),
    ),
    mutant(
        "syscall.rs",
        "an M blocks although it is the only one for its P",
        "                if (shared.machines - shared.blocked_machines) as usize > self.procs() {",
        "                if (shared.machines - shared.blocked_machines) as usize >= self.procs() {",
        Model("syscall::every_processor"),
    ),
    mutant(
        "syscall.rs",
        "an M that gets a P back stays counted as blocked",
        "        let processor = self.take_idle_processor_preferring(&mut shared, old)?;
        shared.blocked_machines -= 1;",
        "        let processor = self.take_idle_processor_preferring(&mut shared, old)?;",
        Model("syscall::"),
    ),
    mutant(
        "park.rs",
        "a G that is woken from outside is on no queue for a moment",
        "                let mut shared = scheduler.shared.lock();
                goroutine.set_status(Status::Runnable);",
        "                goroutine.set_status(Status::Runnable);
                let mut shared = scheduler.shared.lock();",
        Model("deadlock::"),
    ),
    // The word between a G and its handle.
    mutant(
        "join.rs",
        "a waiter's context is published without Release",
        "compare_exchange(ATTACHED, waiter, Ordering::Release, Ordering::Relaxed)",
        "compare_exchange(ATTACHED, waiter, Ordering::Relaxed, Ordering::Relaxed)",
        Model("join::a_waiter"),
    ),
    mutant(
        "join.rs",
        "a waiter overwrites the result's mark",
        "    goroutine.completion.compare_exchange(ATTACHED, waiter, Ordering::Release, Ordering::Relaxed).is_ok()",
        "    goroutine.completion.store(waiter, Ordering::Release);
    true",
        Model("join::a_waiter"),
    ),
    mutant(
        "join.rs",
        "a result is published without Release",
        "    match me.completion.swap(RESULT, Ordering::AcqRel) {",
        "    match me.completion.swap(RESULT, Ordering::Acquire) {",
        Model("join::"),
    ),
    mutant(
        "join.rs",
        "a waiter is readied without its context being seen",
        "    match me.completion.swap(RESULT, Ordering::AcqRel) {",
        "    match me.completion.swap(RESULT, Ordering::Release) {",
        Model("join::a_waiter"),
    ),
    mutant(
        "join.rs",
        "a handle looks for a result without Acquire",
        "    matches!(goroutine.completion.load(Ordering::Acquire), RESULT | DONE)",
        "    matches!(goroutine.completion.load(Ordering::Relaxed), RESULT | DONE)",
        Model("join::a_waiter"),
    ),
    mutant(
        "join.rs",
        "a dropped handle drops the result without Acquire",
        "compare_exchange(ATTACHED, DETACHED, Ordering::AcqRel, Ordering::Acquire)",
        "compare_exchange(ATTACHED, DETACHED, Ordering::AcqRel, Ordering::Relaxed)",
        Model("join::a_dropped"),
    ),
    mutant(
        "join.rs",
        "the slot is reused while its result is being read",
        "compare_exchange(RESULT, DETACHED, Ordering::Release, Ordering::Acquire)",
        "compare_exchange(RESULT, DETACHED, Ordering::Relaxed, Ordering::Acquire)",
        Model("join::"),
    ),
    mutant(
        "join.rs",
        "the slot is reused while the G takes its last steps",
        "compare_exchange(RESULT, DETACHED, Ordering::Release, Ordering::Acquire)",
        "compare_exchange(RESULT, DETACHED, Ordering::Release, Ordering::Relaxed)",
        Model("join::"),
    ),
    mutant(
        "join.rs",
        "the handle reuses the slot whether the G has left it or not",
        "    if !far_side_does_it {
        recycle",
        "    let _ = far_side_does_it;
    {
        recycle",
        Model("join::"),
    ),
    mutant(
        "join.rs",
        "the far side marks the end without Release",
        "goroutine.completion.swap(DONE, Ordering::AcqRel) == DETACHED",
        "goroutine.completion.swap(DONE, Ordering::Acquire) == DETACHED",
        Model("join::"),
    ),
    mutant(
        "join.rs",
        "the far side reuses the slot without Acquire",
        "goroutine.completion.swap(DONE, Ordering::AcqRel) == DETACHED",
        "goroutine.completion.swap(DONE, Ordering::Release) == DETACHED",
        Model("join::"),
    ),
    // Kernel threads.
    mutant(
        "kthread/place.rs",
        "making ready has no fence",
        "            // Ordering: partner is the fence in `idle_loop`: either that CPU sees the thread or we see its idle bit.
            fence(Ordering::SeqCst);",
        "",
        Model("kthread::a_ready"),
    ),
    mutant(
        "kthread/place.rs",
        "going idle has no fence",
        "        // Ordering: partner is the fence in `make_ready`.
        fence(Ordering::SeqCst);",
        "",
        Model("kthread::a_ready"),
    ),
    mutant(
        "kthread/place.rs",
        "a CPU looks before it says that it is idle",
        "        cpu.idle.store(true, Ordering::Relaxed);
        // Ordering: partner is the fence in `make_ready`.
        fence(Ordering::SeqCst);
        C::point(Site::ReadyList);
        let next = self.take_ready()?;",
        "        let Some(next) = self.take_ready() else {
            cpu.idle.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            return None;
        };",
        Model("kthread::a_ready"),
    ),
    mutant(
        "kthread/place.rs",
        "a claim of a CPU that found another thread is not passed on",
        "        if claimed && let Some(other) = self.claim_idle(0, 0) {
            C::kick(other);
        }",
        "        let _ = claimed;",
        Model("kthread::"),
    ),
    mutant(
        "kthread/place.rs",
        "the length of a ready list is not told",
        "                ready.push_back(thread);
                self.cpus[target].ready_length.store(ready.len(), Ordering::Relaxed);",
        "                ready.push_back(thread);",
        Model("kthread::a_ready"),
    ),
    mutant(
        "kthread/place.rs",
        "an idle CPU is not kicked",
        "                Some(idle) => C::kick(idle),",
        "                Some(_) => {}",
        Model("kthread::a_ready"),
    ),
    // What only shows when Gs really run.
    mutant(
        "park.rs",
        "a G whose park is called off is not readied",
        "        if !commit(pinned, me) {
            ready_pinned(pinned, me);
        }",
        "        commit(pinned, me);",
        Simulation("trees"),
    ),
    mutant(
        "find.rs",
        "a batch from the global queue loses Gs",
        "        processor.queue.push_back(goroutine).expect(\"an empty ring has room for half of its capacity\");",
        "        let _ = goroutine;",
        Simulation("hogs"),
    ),
    mutant(
        "syscall.rs",
        "the interrupt for a timer that came during a system call is not made up for",
        "    if P::TIMER_INTERRUPTS && earliest != Instant::NEVER {
        P::arm_timer(pinned, processor, earliest);
    }
    true",
        "    let _ = earliest;
    true",
        Simulation("a_system_call_does_not"),
    ),
    mutant(
        "kthread/sleepers.rs",
        "a thread that sleeps anew may be taken off by what woke it last",
        "        C::without_interrupts(|| self.cpus[cpu].sleepers.lock().remove(thread));",
        "        let _ = (cpu, thread);",
        Simulation("trees"),
    ),
];
