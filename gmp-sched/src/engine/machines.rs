//! Making Ms.

use alloc::vec::Vec;

use crate::base::atomic::{Ordering, fence};
use crate::base::error::OutOfResources;
use crate::base::id::MachineId;
use crate::base::reference::push_forever;
use crate::entities::machine::{Machine, NewMachine};
use crate::entities::scheduler::Scheduler;
use crate::platform::Platform;

/// Ms at most. Go: `maxmcount`, 10000.
const MACHINE_LIMIT: u32 = 10_000;

impl<P: Platform> Scheduler<P> {
    /// Makes an M and puts it on the idle list. The caller is pinned, or nothing runs yet. Go: `newm`.
    pub(crate) fn add_machine(&'static self) -> Result<(), OutOfResources> {
        {
            let mut shared = self.shared.lock();
            if shared.machines >= MACHINE_LIMIT {
                return Err(OutOfResources);
            }
            shared.machines += 1;
            // Counted as blocked until it can take a P.
            shared.blocked_machines += 1;
        }
        let started = self.new_machine();
        let mut shared = self.shared.lock();
        shared.blocked_machines -= 1;
        let machine = started.inspect_err(|_| shared.machines -= 1)?;
        self.put_idle_machine(&mut shared, machine);
        drop(shared);
        // Not before it is on the idle list: code that finds an M may unpark its thread, which then takes itself off that list
        // if there is work.
        push_forever(&self.all_machines, machine, |machine| &machine.all_link);
        // Ordering: partner: the fence in `shut_down`. Either that function finds this M, or the flag is seen here. Without
        // the fences both loads could miss the other side's store, and the thread would stay parked.
        fence(Ordering::SeqCst);
        if self.is_shut_down() {
            P::unpark_thread(machine);
        }
        Ok(())
    }

    /// Makes an M whose thread waits to be unparked for the first time. Only the caller knows it.
    fn new_machine(&'static self) -> Result<&'static Machine<P>, OutOfResources> {
        // An M that got no thread before is tried again, since it cannot be freed.
        let machine = match self.spare_machine.swap(None, Ordering::AcqRel) {
            Some(machine) => machine,
            None => {
                let mut slot = Vec::new();
                slot.try_reserve_exact(1).map_err(|_| OutOfResources)?;
                let id = MachineId(self.next_machine_id.fetch_add(1, Ordering::Relaxed));
                slot.push(Machine::new(id, self));
                &slot.leak()[0]
            }
        };
        match P::start_thread(NewMachine::new(machine)) {
            Ok(thread) => machine.set_thread(thread),
            Err(error) => {
                self.spare_machine.store(Some(machine), Ordering::Release);
                return Err(error);
            }
        }
        Ok(machine)
    }
}
