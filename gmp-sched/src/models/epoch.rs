//! An address that loses its page and gets another one, and a CPU that remembers the first.

use alloc::sync::Arc;
use core::cell::Cell;
use core::iter;

use super::{explore_every_point, pass_point};
use crate::base::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::kthread::epoch::{CpuEpoch, Epochs};

const NO_PAGE: u32 = 0;
const OLD: u32 = 1;
const NEW: u32 = 2;

struct World {
    epochs: Epochs,
    cpu: CpuEpoch,
    /// What the page tables say of the address.
    entry: AtomicU32,
    /// The address is in use again, by a G that may run on the CPU.
    in_use: AtomicBool,
}

/// What the CPU's cache says of the address.
struct Processor<'a> {
    world: &'a World,
    remembered: Cell<u32>,
}

impl Processor<'_> {
    /// An interrupt, after which Gs run.
    fn interrupt(&self) {
        pass_point();
        self.world.cpu.pass(&self.world.epochs, || self.forget());
        self.run_gs();
    }

    /// A halt that `wake` ends, after which Gs run.
    fn halt(&self, wake: Wake) {
        let wait = || {
            pass_point();
            // Processors look up addresses that nothing uses, also while they halt.
            self.look_up();
            match wake {
                Wake::Interrupt => self.world.cpu.pass(&self.world.epochs, || self.forget()),
                Wake::NonMaskable => {}
            }
        };
        self.world.cpu.halt(&self.world.epochs, wait, || self.forget());
        assert!(!self.world.cpu.is_halted(), "a CPU runs Gs, and no epoch waits for it");
        self.run_gs();
    }

    fn forget(&self) {
        pass_point();
        self.remembered.set(NO_PAGE);
    }

    /// The G that owns the address may run here.
    fn run_gs(&self) {
        // Processors look up addresses also before they are used, and remember what is there.
        self.look_up();
        if self.world.in_use.load(Ordering::Acquire) {
            self.look_up();
            assert_eq!(self.remembered.get(), NEW, "a CPU goes to a page that is somebody else's");
        }
    }

    fn look_up(&self) {
        if self.remembered.get() == NO_PAGE {
            pass_point();
            self.remembered.set(self.world.entry.load(Ordering::Relaxed));
        }
    }
}

/// What ends a halt.
#[derive(Clone, Copy)]
enum Wake {
    Interrupt,
    /// Its handler does nothing here.
    NonMaskable,
}

/// The CPU halts first, if `wake` says what ends that.
fn an_address_is_used_again(wake: Option<Wake>) {
    explore_every_point(move || {
        let world = Arc::new(World {
            epochs: Epochs::new(),
            cpu: CpuEpoch::new(),
            entry: AtomicU32::new(OLD),
            in_use: AtomicBool::new(false),
        });
        let cpu = {
            let world = world.clone();
            loom::thread::spawn(move || {
                let processor = Processor { world: &world, remembered: Cell::new(OLD) };
                match wake {
                    Some(wake) => processor.halt(wake),
                    None => processor.interrupt(),
                }
                processor.interrupt();
            })
        };
        world.entry.store(NO_PAGE, Ordering::Relaxed);
        let epoch = world.epochs.begin();
        pass_point();
        if world.epochs.has_passed(epoch, iter::once(&world.cpu)) {
            world.entry.store(NEW, Ordering::Relaxed);
            world.in_use.store(true, Ordering::Release);
        }
        cpu.join().expect("the model holds");
    });
}

#[test]
fn an_address_waits_for_a_cpu_that_runs() {
    an_address_is_used_again(None);
}

#[test]
fn an_address_waits_for_a_cpu_that_wakes() {
    an_address_is_used_again(Some(Wake::Interrupt));
}

#[test]
fn an_address_waits_for_a_cpu_that_a_non_maskable_interrupt_wakes() {
    an_address_is_used_again(Some(Wake::NonMaskable));
}
