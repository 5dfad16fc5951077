//! Models of the cell that a G in [`block_on`](crate::library::future::block_on) shares with its waker. No call of the
//! waker is lost, the G is readied once, and the next poll sees what the caller of the waker did before the call.

use alloc::sync::Arc;
use alloc::task::Wake;

use super::checked::Checked;
use super::explore;
use super::platform::{Model, Setting, run_as, spawn_as};
use crate::base::atomic::{AtomicU32, Ordering};
use crate::base::instant::Instant;
use crate::entities::goroutine::{Goroutine, WaitReason};
use crate::entities::status::{ParkedStatus, Status};
use crate::library::future::Cell;
use crate::platform::Pinned;

/// A future that becomes ready when its values have been stored, and the G that polls it.
struct Scene {
    goroutine: &'static Goroutine<Model>,
    cell: Arc<Cell<Model>>,
    /// Written by the callers of the waker before they call it.
    values: [Checked; 2],
    is_there: [AtomicU32; 2],
    /// The stack frames of the G.
    frames: Checked,
    finished: Checked,
}

impl Scene {
    /// Makes the shared state of a model. The G that runs on the calling M polls the future.
    fn new(pinned: &Pinned<Model>) -> Arc<Self> {
        Arc::new(Self {
            goroutine: pinned.goroutine(),
            cell: Arc::new(Cell::new()),
            values: [(); 2].map(|()| Checked::default()),
            is_there: [(); 2].map(|()| AtomicU32::new(0)),
            frames: Checked::default(),
            finished: Checked::default(),
        })
    }

    /// Runs the loop of `block_on` for a future with `values` values, after a poll that returned pending. Returns when
    /// the future is ready, or when the G has parked.
    fn wait(&self, pinned: &Pinned<Model>, values: usize) {
        loop {
            self.goroutine.set_waiting(
                WaitReason::Future,
                ParkedStatus::unsampled(self.goroutine.scheduler().number()),
                Instant::from_nanos(0),
            );
            self.frames.used();
            if self.cell.commit() {
                return self.run_woken(pinned, values);
            }
            self.goroutine.set_status(Status::Running);
            if self.poll(values) {
                return;
            }
        }
    }

    /// Continues the G if it was readied on this M. Otherwise the other M runs it.
    fn run_woken(&self, pinned: &Pinned<Model>, values: usize) {
        if pinned.processor().queue.pop(true).is_some() {
            self.goroutine.set_status(Status::Running);
            if !self.poll(values) {
                self.wait(pinned, values);
            }
        }
    }

    /// Polls the future in the G after a wait; returns whether the future is ready. If there is only one value, the
    /// wakeup was for that value, so the value must have been stored.
    fn poll(&self, values: usize) -> bool {
        self.frames.used();
        self.cell.resumed();
        // Ordering: Relaxed, because the cell must order these loads after the stores in `wake`.
        let is_there = self.is_there[..values].iter().all(|is_there| is_there.load(Ordering::Relaxed) == 1);
        assert!(values > 1 || is_there, "woken before its value was there");
        if is_there {
            if values == 1 {
                self.values[0].used();
            }
            self.finished.used();
        }
        is_there
    }

    /// Stores a value and calls the waker, as the code that completes the future does. Then this M runs the G, if the
    /// G was readied on this M.
    fn wake(&self, pinned: &Pinned<Model>, value: usize, values: usize) {
        self.values[value].used();
        self.is_there[value].store(1, Ordering::Relaxed);
        self.cell.wake_by_ref();
        self.run_woken(pinned, values);
    }
}

#[test]
fn waker_against_a_wait_readies_the_g_after_its_value() {
    explore(|| {
        let setting = Setting::new(2);
        let (here, other) = (setting.running_machine(), setting.running_machine());
        let scene = run_as(here, |pinned| Scene::new(pinned)).unwrap();
        let wakes = scene.clone();
        let waker = spawn_as(other, move |pinned| wakes.wake(pinned, 0, 1));
        run_as(here, |pinned| scene.wait(pinned, 1));
        waker.join().unwrap();
        assert_eq!(scene.finished.uses(), 1, "the G runs to its end once");
        setting.check();
    });
}

#[test]
fn two_calls_of_a_waker_ready_the_g_once() {
    explore(|| {
        let setting = Setting::new(3);
        let [here, first, second] = [(); 3].map(|()| setting.running_machine());
        let scene = run_as(here, |pinned| Scene::new(pinned)).unwrap();
        let wakers = [(first, 0), (second, 1)].map(|(machine, value)| {
            let wakes = scene.clone();
            spawn_as(machine, move |pinned| wakes.wake(pinned, value, 2))
        });
        run_as(here, |pinned| scene.wait(pinned, 2));
        wakers.into_iter().for_each(|waker| waker.join().unwrap());
        assert_eq!(scene.finished.uses(), 1, "the G runs to its end once");
        setting.check();
    });
}
