//! Models of epochs, which show whether every CPU has flushed its TLB since a change of the page tables. An address is
//! mapped to another page while a CPU may still have the old translation in its TLB. The CPU must flush its TLB before
//! a G uses the address again.

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
    /// The page table's entry for the address.
    entry: AtomicU32,
    /// Whether the address is in use again, by a G that may run on the CPU.
    in_use: AtomicBool,
}

/// A CPU. Its TLB has one entry, which translates the address.
struct Processor<'a> {
    world: &'a World,
    cached: Cell<u32>,
}

impl Processor<'_> {
    /// Handles an interrupt, and then runs Gs.
    fn interrupt(&self) {
        pass_point();
        self.world.cpu.pass(&self.world.epochs, || self.flush());
        self.run_gs();
    }

    /// Halts until `wake`, and then runs Gs.
    fn halt(&self, wake: Wake) {
        let wait = || {
            pass_point();
            // A CPU may load translations of addresses that nothing uses, even while it halts.
            self.look_up();
            match wake {
                Wake::Interrupt => self.world.cpu.pass(&self.world.epochs, || self.flush()),
                Wake::NonMaskable => {}
            }
        };
        self.world.cpu.halt(&self.world.epochs, wait, || self.flush());
        assert!(!self.world.cpu.is_halted(), "a CPU runs Gs, and no epoch waits for it");
        self.run_gs();
    }

    fn flush(&self) {
        pass_point();
        self.cached.set(NO_PAGE);
    }

    /// Runs Gs, which may include the G that uses the address.
    fn run_gs(&self) {
        // A CPU may load and cache a translation before the address is used.
        self.look_up();
        if self.world.in_use.load(Ordering::Acquire) {
            self.look_up();
            assert_eq!(self.cached.get(), NEW, "a CPU accesses a page by a stale translation");
        }
    }

    fn look_up(&self) {
        if self.cached.get() == NO_PAGE {
            pass_point();
            self.cached.set(self.world.entry.load(Ordering::Relaxed));
        }
    }
}

/// What ends a halt.
#[derive(Clone, Copy)]
enum Wake {
    Interrupt,
    /// A non-maskable interrupt, whose handler does not flush the TLB.
    NonMaskable,
}

/// Remaps an address. At the same time a CPU handles interrupts and runs Gs; if `wake` is given, the CPU first halts
/// until `wake`. No G on the CPU may use a stale translation.
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
                let processor = Processor { world: &world, cached: Cell::new(OLD) };
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
fn address_is_reused_after_a_running_cpu_has_flushed() {
    an_address_is_used_again(None);
}

#[test]
fn address_is_reused_while_a_cpu_wakes_by_interrupt() {
    an_address_is_used_again(Some(Wake::Interrupt));
}

#[test]
fn address_is_reused_while_a_cpu_wakes_by_non_maskable_interrupt() {
    an_address_is_used_again(Some(Wake::NonMaskable));
}
