//! Models of the children of a scope. The parent leaves the scope only when the last child has ended, sees what the
//! children did, and does not wait for a child whose spawn panicked.

use alloc::sync::Arc;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::checked::Checked;
use super::explore;
use super::platform::{Model, Setting, run_as, spawn_as};
use crate::base::instant::Instant;
use crate::engine::steal::share;
use crate::entities::goroutine::{Goroutine, WaitReason};
use crate::entities::machine::Machine;
use crate::entities::status::{ParkedStatus, Status};
use crate::lifecycle::children::Children;
use crate::lifecycle::new_goroutine::spawn_scoped;
use crate::platform::Pinned;

struct Scene {
    parent: &'static Goroutine<Model>,
    children: Children<Model>,
    /// The memory that each child borrows from the parent.
    borrowed: [Checked; 2],
    /// The parent's frames, which no code uses while the parent waits.
    frames: Checked,
    left: Checked,
}

impl Scene {
    fn new(parent: &'static Machine<Model>) -> Arc<Self> {
        Arc::new(Self {
            parent: parent.running_goroutine(),
            children: Children::new(),
            borrowed: [(); 2].map(|()| Checked::default()),
            frames: Checked::default(),
            left: Checked::default(),
        })
    }

    /// Runs the parent's wait, as in `Children::wait`. Returns when the wait has ended or the parent has parked.
    fn wait(&self, pinned: &Pinned<Model>) {
        if let Some(state) = self.children.prepare_wait(self.parent) {
            self.parent.set_waiting(
                WaitReason::Scope,
                ParkedStatus::unsampled(self.parent.scheduler().number()),
                Instant::from_nanos(0),
            );
            self.frames.used();
            // In the real wait, this code runs on the far side of the switch.
            drop(state);
            return self.run_here(pinned);
        }
        self.borrowed.iter().for_each(Checked::used);
        self.left.used();
    }

    /// Runs the G that was readied on this M, unless it has been stolen.
    fn run_here(&self, pinned: &Pinned<Model>) {
        if let Some((next, _)) = pinned.processor().queue.pop(true) {
            self.run(pinned, next);
        }
    }

    /// Continues the parent, or runs the last steps of the child that [`spawn_child`] made.
    fn run(&self, pinned: &Pinned<Model>, next: &'static Goroutine<Model>) {
        next.set_status(Status::Running);
        if core::ptr::eq(next, self.parent) {
            self.frames.used();
            self.wait(pinned);
        } else {
            self.end_child(pinned, 0);
        }
    }

    /// Runs the last steps of a child, as in `finish::finish`.
    fn end_child(&self, pinned: &Pinned<Model>, child: usize) {
        self.borrowed[child].used();
        self.children.remove(pinned, false);
        self.run_here(pinned);
    }
}

#[test]
fn parent_leaves_when_the_last_of_two_children_has_ended() {
    explore(|| {
        let setting = Setting::new(3);
        let [here, first, second] = [(); 3].map(|()| setting.running_machine());
        let scene = Scene::new(here);
        run_as(here, |pinned| [(); 2].map(|()| scene.children.add(pinned)));
        let children = [(first, 0), (second, 1)].map(|(machine, child)| {
            let ends = scene.clone();
            spawn_as(machine, move |pinned| ends.end_child(pinned, child))
        });
        run_as(here, |pinned| scene.wait(pinned));
        children.into_iter().for_each(|child| child.join().unwrap());
        assert_eq!(scene.left.uses(), 1, "the parent continues once");
        setting.check();
    });
}

/// A child that is not joined panics. When the parent leaves the scope, it knows of this panic, so that it can panic,
/// too.
#[test]
fn parent_that_leaves_knows_of_the_panic_of_a_child() {
    explore(|| {
        let setting = Setting::new(2);
        let (here, other) = (setting.running_machine(), setting.running_machine());
        let scene = Scene::new(here);
        run_as(here, |pinned| scene.children.add(pinned));
        let panics = scene.clone();
        let child = spawn_as(other, move |pinned| {
            panics.borrowed[0].used();
            panics.children.remove(pinned, true);
        });
        run_as(here, |_| {
            if let Some(state) = scene.children.prepare_wait(scene.parent) {
                // The last child readies the parent, and this model ends without continuing the parent.
                scene.parent.set_waiting(
                    WaitReason::Scope,
                    ParkedStatus::unsampled(scene.parent.scheduler().number()),
                    Instant::from_nanos(0),
                );
                drop(state);
            } else {
                assert!(scene.children.have_panicked(), "the parent leaves as if no child had panicked");
            }
        });
        child.join().unwrap();
        assert!(scene.children.have_panicked());
    });
}

/// Spawns a child of the scope. The child's body is never run; [`Scene::end_child`] runs its last steps.
fn spawn_child(scene: &Scene) {
    #[expect(unsafe_code, reason = "spawns a child of a scope")]
    // SAFETY: the body borrows nothing, and is not run.
    let spawned = unsafe { spawn_scoped::<Model, (), _, _>(|| (), &scene.children) };
    core::mem::forget(spawned.expect("the model has memory enough"));
}

#[test]
fn child_is_counted_before_it_can_end() {
    explore(|| {
        let setting = Setting::new(2);
        let (here, other) = (setting.running_machine(), setting.running_machine());
        let scene = Scene::new(here);
        let steals = scene.clone();
        let thief = spawn_as(other, move |pinned| {
            let queue = &here.held_processor().queue;
            if let Some(stolen) = queue.steal_into(&pinned.processor().queue, share, queue.next()) {
                steals.run(pinned, stolen);
            }
        });
        run_as(here, |pinned| {
            spawn_child(&scene);
            scene.wait(pinned);
        });
        thief.join().unwrap();
        assert_eq!(scene.left.uses(), 1, "the parent continues once");
    });
}

#[test]
fn spawn_that_panics_leaves_no_child_to_wait_for() {
    explore(|| {
        let setting = Setting::new(2);
        let (here, other) = (setting.running_machine(), setting.running_machine());
        let scene = Scene::new(here);
        run_as(here, |pinned| scene.children.add(pinned));
        let ends = scene.clone();
        let child = spawn_as(other, move |pinned| ends.end_child(pinned, 0));
        run_as(here, |pinned| {
            // Takes the P away, as in a system call, so that the spawn panics.
            let processor = pinned.processor();
            here.set_processor(None);
            assert!(catch_unwind(AssertUnwindSafe(|| spawn_child(&scene))).is_err());
            here.set_processor(Some(processor));
            scene.wait(pinned);
        });
        child.join().unwrap();
        assert_eq!(scene.left.uses(), 1, "the parent waits for a child that does not exist");
        setting.check();
    });
}
