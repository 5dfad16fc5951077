//! Models of a coroutine whose two sides switch through the run queues, as they do if one of them is locked to its
//! thread, or directly. Each side may run on any M, but only on one M at a time, and sees what the other side did.

use alloc::sync::Arc;

use super::checked::Checked;
use super::explore;
use super::platform::{Model, Setting, run_as, spawn_as};
use crate::base::instant::Instant;
use crate::engine::enqueue::requeue_last;
use crate::engine::ready::ready_pinned;
use crate::engine::steal::share;
use crate::engine::switch::set_running;
use crate::entities::current::CurrentGoroutine;
use crate::entities::goroutine::{Goroutine, WaitReason};
use crate::entities::machine::Machine;
use crate::entities::status::{ParkedStatus, Status};
use crate::library::coroutine::{Shared, hand_over};
use crate::lifecycle::join::{Finished, JoinHandle, finished, has_result};
use crate::lifecycle::storage::put_result;
use crate::platform::Pinned;

/// A yielded value. Both sides access its memory.
struct Value(Arc<Checked>);

/// How the two sides switch to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Switch {
    ThroughQueues,
    /// The M that runs one side also runs the other. The inner G yields to others before it yields a value, so another
    /// M may steal it there.
    Direct,
}

struct Scene {
    switch: Switch,
    outer: &'static Goroutine<Model>,
    inner: &'static Goroutine<Model>,
    shared: Shared<Value, Model>,
    /// The join handle of the inner G. It is never dropped, so that the slot of this G is not released.
    handle: core::mem::ManuallyDrop<JoinHandle<(), Model>>,
    outer_frames: Checked,
    inner_frames: Checked,
    value: Arc<Checked>,
    /// The number of times that the inner G has given way to others.
    yields: Checked,
    finished: Checked,
}

impl Scene {
    fn new(switch: Switch, setting: &Setting, outer: &'static Machine<Model>) -> Arc<Self> {
        let inner = setting.goroutine();
        Arc::new(Self {
            switch,
            outer: outer.running_goroutine(),
            inner,
            shared: Shared::new(),
            handle: core::mem::ManuallyDrop::new(JoinHandle::new(inner)),
            outer_frames: Checked::default(),
            inner_frames: Checked::default(),
            value: Arc::default(),
            yields: Checked::default(),
            finished: Checked::default(),
        })
    }

    /// The outer G asks for a value, as in `Shared::resume` and `switch_through_queues`.
    fn ask(&self, pinned: &Pinned<Model>) {
        self.shared.register_outer(self.outer, &self.handle);
        self.leave(pinned, (self.outer, &self.outer_frames), self.inner);
    }

    /// Continues the outer G. This G takes a value and asks for the next value, or finds that the coroutine has ended.
    fn continue_outer(&self, pinned: &Pinned<Model>) {
        self.outer_frames.used();
        match self.shared.take_value() {
            Some(Value(value)) => {
                value.used();
                self.ask(pinned);
            }
            None => {
                assert!(has_result(self.inner), "resumed without a value before the coroutine has ended");
                self.inner_frames.used();
                self.finished.used();
            }
        }
    }

    /// Runs the next step of the inner G. The steps are, in this order: a yield to other Gs (`yield_now`), if the
    /// switches are direct; a yield of a value (`Yielder::yield_value`); the end.
    fn continue_inner(&self, pinned: &Pinned<Model>) {
        self.inner_frames.used();
        if self.switch == Switch::Direct && self.yields.uses() == 0 {
            self.yields.used();
            self.inner_frames.used();
            requeue_last(pinned, pinned.processor(), self.inner);
            self.run_here(pinned);
        } else if self.value.uses() == 0 {
            self.value.used();
            let outer = self.shared.store_value(self.inner, Value(self.value.clone()));
            self.leave(pinned, (self.inner, &self.inner_frames), outer);
        } else {
            put_result(self.inner, Ok(()));
            self.inner_frames.used();
            let Finished::Awaited(outer) = finished(self.inner) else { panic!("the outer G waits") };
            ready_pinned(pinned, outer);
            self.run_here(pinned);
        }
    }

    /// Parks `me`, one G of the coroutine. If the switch is direct, this M then runs `next`, the coroutine's other G.
    /// Otherwise the commit of the park readies `next`, and this M runs it unless it has been stolen.
    fn leave(
        &self,
        pinned: &Pinned<Model>,
        (me, frames): (&'static Goroutine<Model>, &Checked),
        next: &'static Goroutine<Model>,
    ) {
        if self.switch == Switch::Direct {
            let caller = CurrentGoroutine::new();
            assert!(core::ptr::eq(caller.me, me) && hand_over(&caller, next), "the switch need not be special");
            frames.used();
            set_running(caller.machine, me, Some(next));
            return self.continue_either(pinned, next);
        }
        me.set_waiting(WaitReason::Coroutine, ParkedStatus::unsampled(me.scheduler().number()), Instant::from_nanos(0));
        frames.used();
        ready_pinned(pinned, next);
        self.run_here(pinned);
    }

    /// Runs the G that was readied on this M, unless it has been stolen.
    fn run_here(&self, pinned: &Pinned<Model>) {
        if let Some((next, _)) = pinned.processor().queue.pop(true) {
            self.run(pinned, next);
        }
    }

    fn run(&self, pinned: &Pinned<Model>, next: &'static Goroutine<Model>) {
        assert_eq!(next.status(), Status::Runnable);
        next.set_status(Status::Running);
        pinned.machine().set_current(Some(next));
        self.continue_either(pinned, next);
    }

    fn continue_either(&self, pinned: &Pinned<Model>, next: &'static Goroutine<Model>) {
        if core::ptr::eq(next, self.outer) { self.continue_outer(pinned) } else { self.continue_inner(pinned) }
    }

    /// Steals and runs a G that was readied on the other M, if there is one.
    fn steal(&self, pinned: &Pinned<Model>, from: &'static Machine<Model>) {
        let queue = &from.held_processor().queue;
        if let Some(next) = queue.steal_into(&pinned.processor().queue, share, queue.next()) {
            self.run(pinned, next);
        }
    }
}

fn explore_switch(switch: Switch) {
    explore(move || {
        let setting = Setting::new(2);
        let (here, other) = (setting.running_machine(), setting.running_machine());
        let scene = Scene::new(switch, &setting, here);
        let steals = scene.clone();
        let thief = spawn_as(other, move |pinned| steals.steal(pinned, here));
        run_as(here, |pinned| scene.ask(pinned));
        thief.join().unwrap();
        assert_eq!(scene.finished.uses(), 1, "the outer G runs to its end once");
        setting.check();
    });
}

#[test]
fn sides_of_a_coroutine_alternate_on_any_m() {
    explore_switch(Switch::ThroughQueues);
}

#[test]
fn side_that_is_stolen_switches_directly_to_the_other_side() {
    explore_switch(Switch::Direct);
}
