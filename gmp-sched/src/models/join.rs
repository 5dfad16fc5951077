//! Models of the completion word between a G and its join handle. No result is read before it is stored, no waiter is
//! lost, and the slot is released once, when neither side needs it any more.

use alloc::sync::Arc;

use super::checked::Checked;
use super::explore;
use super::platform::{Model, Setting, run_as, spawn_as};
use crate::base::instant::Instant;
use crate::engine::ready::{make_runnable, ready_pinned};
use crate::engine::steal::share;
use crate::entities::goroutine::{Goroutine, WaitReason};
use crate::entities::machine::Machine;
use crate::entities::status::Status;
use crate::lifecycle::finish::release;
use crate::lifecycle::join::{Finished, JoinHandle, finished, has_result, release_slot, switches_to_joiner, wait_for};
use crate::lifecycle::storage::{put_result, take_result};
use crate::platform::Pinned;

/// Checked memory that represents the stack of the G that finishes and the stack of the G that waits for it.
#[derive(Default)]
struct Stacks {
    result: Checked,
    frames: Checked,
    reused: Checked,
    waiter: Checked,
    woken: Checked,
}

/// The result of the G that finishes. This G or the holder of the join handle takes or drops the result exactly once.
struct Output(Arc<Stacks>);

impl Drop for Output {
    fn drop(&mut self) {
        self.0.result.used();
    }
}

/// How a G that ends switches to its joiner.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Switch {
    /// Without the queue.
    Direct,
    /// By `runnext`, from which the other M may steal the joiner.
    ByQueue,
}

/// Two Ms. One of them runs a G that is about to finish.
struct Finishing {
    setting: Setting,
    stacks: Arc<Stacks>,
    goroutine: &'static Goroutine<Model>,
    runs_on: &'static Machine<Model>,
    other: &'static Machine<Model>,
}

impl Finishing {
    fn new() -> Self {
        let setting = Setting::new(2);
        let (runs_on, other) = (setting.running_machine(), setting.running_machine());
        let goroutine = runs_on.running_goroutine();
        let stacks = Arc::new(Stacks::default());
        put_result(goroutine, Ok(Output(stacks.clone())));
        Self { setting, stacks, goroutine, runs_on, other }
    }

    /// Starts a loom thread that acts as the M on which the G runs. The thread ends the G as the engine does, and
    /// switches to the joiner as `switch` says. Then it calls `then` with the joiner, if this M continues with it.
    fn finish(
        &self,
        switch: Switch,
        then: impl FnOnce(&Pinned<Model>, Option<&'static Goroutine<Model>>) + Send + 'static,
    ) -> loom::thread::JoinHandle<()> {
        let (goroutine, stacks) = (self.goroutine, self.stacks.clone());
        spawn_as(self.runs_on, move |pinned| {
            stacks.result.used();
            stacks.frames.used();
            let mut next = None;
            match finished(goroutine) {
                Finished::Detached => drop(take_result::<Output, Model>(goroutine)),
                Finished::Attached => {}
                Finished::Awaited(joiner) if switch == Switch::Direct => {
                    next = make_runnable(pinned, joiner);
                    switches_to_joiner(goroutine);
                }
                Finished::Awaited(joiner) => ready_pinned(pinned, joiner),
            }
            // Until here the G is on its own stack; what follows is the far side of its last switch.
            stacks.frames.used();
            release(pinned, goroutine);
            then(pinned, next.or_else(|| pinned.processor().queue.pop(true).map(|(joiner, _)| joiner)));
            reuse(pinned, &stacks);
        })
    }

    fn check(&self) {
        assert_eq!(self.stacks.result.uses(), 2, "the result is made and taken once");
        assert_eq!(self.stacks.reused.uses(), 1, "the slot is reused once");
        self.setting.check();
    }
}

/// If the free list of this P has a slot, takes the slot and overwrites the stack of its G, as a spawn would.
fn reuse(pinned: &Pinned<Model>, stacks: &Stacks) {
    if pinned.processor().free.pop().is_some() {
        stacks.frames.used();
        assert_eq!(stacks.result.uses(), 2, "reused before its result was taken");
        stacks.reused.used();
    }
}

#[test]
fn dropped_handle_against_the_end_of_its_g() {
    explore(|| {
        let scene = Finishing::new();
        let handle: JoinHandle<Output, Model> = JoinHandle::new(scene.goroutine);
        let finishes = scene.finish(Switch::ByQueue, |_, _| {});
        run_as(scene.other, |pinned| {
            drop(handle);
            reuse(pinned, &scene.stacks);
        });
        finishes.join().unwrap();
        scene.check();
    });
}

/// Takes the result, as `JoinHandle::join` does after the waiter was readied.
fn take(pinned: &Pinned<Model>, goroutine: &'static Goroutine<Model>, stacks: &Stacks) {
    assert!(has_result(goroutine), "readied without a result");
    drop(take_result::<Output, Model>(goroutine));
    release_slot(pinned, goroutine);
    reuse(pinned, stacks);
}

/// One G begins to wait for another G while that G ends. The waiter's context is saved before the waiter can run, and
/// the waiter is readied exactly once. The ending G readies the waiter while the ending G itself still runs on its own
/// stack, so the waiter may already run at that time.
#[test]
fn waiter_against_the_end_of_its_g() {
    explore(|| waiter_against_the_end(Switch::ByQueue));
}

/// Like [`waiter_against_the_end_of_its_g`], but if the waiter parks in time, the ending G switches to it without the
/// queue. Then the waiter always releases the slot.
#[test]
fn waiter_against_the_end_of_a_g_that_switches_to_it() {
    explore(|| waiter_against_the_end(Switch::Direct));
}

fn waiter_against_the_end(switch: Switch) {
    let scene = Finishing::new();
    let (goroutine, runs_on) = (scene.goroutine, scene.runs_on);
    let waiter = scene.other.running_goroutine();
    let stacks = scene.stacks.clone();
    // If the waiter was not stolen, it continues on the M that readied it.
    let finishes = scene.finish(switch, move |pinned, joiner| {
        if joiner.is_some() {
            stacks.waiter.used();
            stacks.woken.used();
            take(pinned, goroutine, &stacks);
        }
    });
    run_as(scene.other, |pinned| {
        let stacks = &scene.stacks;
        if has_result(goroutine) {
            stacks.woken.used();
            return take(pinned, goroutine, stacks);
        }
        waiter.set_waiting(WaitReason::Join, pinned.machine().unsampled(), Instant::from_nanos(0));
        stacks.waiter.used();
        if !wait_for(goroutine, waiter) {
            waiter.set_status(Status::Running);
            stacks.woken.used();
            return take(pinned, goroutine, stacks);
        }
        let queue = &runs_on.held_processor().queue;
        if queue.steal_into(&pinned.processor().queue, share, queue.next()).is_some() {
            stacks.waiter.used();
            stacks.woken.used();
            take(pinned, goroutine, stacks);
        }
    });
    finishes.join().unwrap();
    scene.check();
    assert_eq!(scene.stacks.woken.uses(), 1, "the waiter continues once");
}
