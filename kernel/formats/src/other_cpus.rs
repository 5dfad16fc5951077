//! Which CPUs the boot CPU starts, and which of them may enter the kernel.
//!
//! The firmware's list of CPUs may be longer than the kernel supports, may contain CPUs that the local APIC cannot
//! address, and may lack the boot CPU. A CPU that is started may be late, or never come. So CPUs get their numbers in
//! the order in which they enter, and after the boot CPU has closed the [`Entrance`], no more CPUs enter.

use core::sync::atomic::{AtomicU32, Ordering};

/// Selects the CPUs to start from the firmware's list, and counts those that are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    boot: u32,
    /// Whether [`takes`](Self::takes) has been called with the id of the boot CPU.
    has_listed_boot: bool,
    /// How many more CPUs can be selected.
    room: usize,
    /// How many CPUs have been left out because the local APIC cannot address them.
    pub unreachable: usize,
    /// How many CPUs have been left out because the kernel supports no more.
    pub surplus: usize,
}

impl Selection {
    /// Returns a selection in which nothing is selected yet. `boot` is the APIC id of the boot CPU. The kernel supports
    /// `most` CPUs. One of them is the boot CPU, even if the firmware's list does not contain it.
    pub fn new(boot: u32, most: usize) -> Self {
        Self { boot, has_listed_boot: false, room: most.saturating_sub(1), unreachable: 0, surplus: 0 }
    }

    /// Returns whether to start the CPU with this APIC id, which is the next one in the firmware's list. `is_in_reach`
    /// is whether the local APIC can address this CPU. Counts the CPU if it is left out. The boot CPU is neither
    /// started nor counted.
    pub fn takes(&mut self, id: u32, is_in_reach: bool) -> bool {
        if id == self.boot {
            self.has_listed_boot = true;
            return false;
        }
        if !is_in_reach {
            self.unreachable += 1;
        } else if self.room == 0 {
            self.surplus += 1;
        } else {
            self.room -= 1;
            return true;
        }
        false
    }

    /// Counts as left out the last `count` CPUs of the firmware's list. Their ids are not known, because the kernel's
    /// copy of the list had no room for them. If no call of [`takes`](Self::takes) has had the id of the boot CPU, one
    /// of these CPUs is assumed to be the boot CPU and is not counted.
    pub fn leave_out_rest(&mut self, count: usize) {
        self.surplus += count.saturating_sub(usize::from(!self.has_listed_boot));
    }
}

/// Counts the CPUs that enter the kernel until the entrance is closed, and those that come later.
#[derive(Debug)]
pub struct Entrance {
    /// The number of CPUs that have entered, and the bit [`CLOSED`].
    entered: AtomicU32,
    /// The number of CPUs that came after the entrance was closed.
    refused: AtomicU32,
}

/// When this bit is set, no more CPUs may enter.
const CLOSED: u32 = 1 << 31;

impl Entrance {
    /// Returns an open entrance.
    #[expect(clippy::new_without_default, reason = "there is one entrance, in a static")]
    pub const fn new() -> Self {
        Self { entered: AtomicU32::new(0), refused: AtomicU32::new(0) }
    }

    /// Called by a CPU that has started. Returns how many CPUs have entered before it. Returns `None` if the entrance
    /// is closed, so that the CPU must halt.
    pub fn enter(&self) -> Option<u32> {
        let increment = |entered| (entered & CLOSED == 0).then_some(entered + 1);
        let entered = self.entered.fetch_update(Ordering::Relaxed, Ordering::Relaxed, increment);
        if entered.is_err() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        entered.ok()
    }

    /// Returns how many CPUs have entered.
    pub fn entered(&self) -> u32 {
        self.entered.load(Ordering::Relaxed) & !CLOSED
    }

    /// Closes the entrance. Returns how many CPUs have entered. From now on this number does not change.
    pub fn close(&self) -> u32 {
        self.entered.fetch_or(CLOSED, Ordering::Relaxed) & !CLOSED
    }

    /// Returns how many CPUs came after the entrance was closed.
    pub fn latecomers(&self) -> u32 {
        self.refused.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::thread;
    use std::vec::Vec;

    use super::*;

    /// Returns the selected ids, and the numbers of CPUs that are unreachable or surplus.
    fn select(boot: u32, most: usize, ids: &[u32]) -> (Vec<u32>, usize, usize) {
        let mut selection = Selection::new(boot, most);
        let selected = ids.iter().copied().filter(|&id| selection.takes(id, id <= 254)).collect();
        (selected, selection.unreachable, selection.surplus)
    }

    #[test]
    fn boot_cpu_is_not_started_and_always_counts() {
        assert_eq!(select(0, 255, &[0, 1, 2]), ([1, 2].into(), 0, 0));
        assert_eq!(select(2, 255, &[0, 1, 2]), ([0, 1].into(), 0, 0));
        // The boot CPU is the last one in the list, so it is beyond the limit.
        assert_eq!(select(9, 3, &[0, 1, 2, 9]), ([0, 1].into(), 0, 1));
        // The list lacks the boot CPU.
        assert_eq!(select(9, 3, &[0, 1, 2]), ([0, 1].into(), 0, 1));
        assert_eq!(select(9, 3, &[]), ([].into(), 0, 0));
        assert_eq!(select(0, 1, &[0, 1]), ([].into(), 0, 1));
    }

    #[test]
    fn boot_cpu_beyond_the_end_of_the_list_is_not_left_out() {
        for (boot, surplus) in [(0, 45), (280, 45)] {
            let mut selection = Selection::new(boot, 255);
            // The firmware lists the CPUs 0 to 299, and the kernel's list has room for 255.
            assert_eq!((0..255).filter(|&id| selection.takes(id, true)).count(), 254);
            selection.leave_out_rest(45);
            assert_eq!(selection.surplus, surplus, "boot CPU {boot}");
        }
        let mut selection = Selection::new(9, 255);
        selection.leave_out_rest(0);
        assert_eq!(selection.surplus, 0);
    }

    #[test]
    fn cpus_out_of_reach_take_no_room() {
        assert_eq!(select(0, 3, &[0, 300, 255, 1, 2, 3]), ([1, 2].into(), 2, 1));
        // The boot CPU does not count as left out, although no other CPU could address it.
        assert_eq!(select(300, 3, &[0, 300, 1]), ([0, 1].into(), 0, 0));
    }

    #[test]
    fn cpus_that_come_after_the_close_are_refused() {
        let entrance = Entrance::new();
        assert_eq!((entrance.enter(), entrance.enter(), entrance.entered()), (Some(0), Some(1), 2));
        assert_eq!(entrance.close(), 2);
        assert_eq!((entrance.enter(), entrance.enter()), (None, None));
        assert_eq!((entrance.entered(), entrance.latecomers(), entrance.close()), (2, 2, 2));
    }

    #[test]
    fn numbers_have_no_gaps_if_cpus_come_while_the_entrance_is_closed() {
        for _ in 0..200 {
            let entrance = Entrance::new();
            let (mut numbers, entered) = thread::scope(|scope| {
                let cpus: Vec<_> = (0..4).map(|_| scope.spawn(|| entrance.enter())).collect();
                let entered = entrance.close();
                let numbers = cpus.into_iter().filter_map(|cpu| cpu.join().expect("it does not panic"));
                (numbers.collect::<Vec<_>>(), entered)
            });
            numbers.sort_unstable();
            assert_eq!(numbers, (0..entered).collect::<Vec<_>>());
            assert_eq!(entrance.latecomers(), 4 - entered);
        }
    }
}
