//! Making Ms. (`refinements::retire` ends idle Ms that are not needed.)

use crate::base::atomic::{Ordering, fence};
use crate::base::error::OutOfResources;
use crate::base::forever::make_forever;
use crate::base::id::MachineId;
use crate::base::reference::push_forever;
use crate::entities::machine::{Machine, NewMachine};
use crate::entities::scheduler::Scheduler;
use crate::platform::{Pinned, Platform};

/// How many Ms a scheduler may have. Go: `maxmcount`, 10000.
const MACHINE_LIMIT: u32 = 10_000;

impl<Plat: Platform> Scheduler<Plat> {
    /// Makes an M and puts it on the idle list. Allocates, so the caller should not be pinned. Go: `newm`.
    pub(crate) fn add_machine(&'static self) -> Result<(), OutOfResources> {
        let pinned = Pinned::<Plat>::of_scheduler();
        let retired = {
            let mut shared = self.shared.lock();
            if shared.machines >= MACHINE_LIMIT {
                return Err(OutOfResources);
            }
            shared.retired_machines.pop_front()
        };
        drop(pinned);
        let (machine, is_new) = self.start_machine(retired)?;
        let _pinned = Pinned::<Plat>::of_scheduler();
        let mut shared = self.shared.lock();
        // One critical section: otherwise the check for a deadlock could mistake the new M for a busy one.
        shared.machines += 1;
        machine.set_retired(false);
        self.put_idle_machine(&mut shared, machine);
        drop(shared);
        self.note_growth();
        if is_new {
            // The M is published only now that it is on the idle list. Code that finds an M may unpark its thread, and
            // the thread then takes itself off that list if there is work.
            push_forever(&self.all_machines, machine, |machine| &machine.all_link);
        }
        // Ordering: partner: the fence in `end_machines`. Either that function finds this M, or this one sees that the
        // scheduler is shut down. Otherwise the thread of this M would stay parked.
        fence(Ordering::SeqCst);
        if self.is_shut_down() {
            Plat::unpark_thread(machine);
        }
        Ok(())
    }

    /// Starts a thread for `retired`, or for a new M if that is `None`. The thread waits to be unparked for the first
    /// time. Returns the M, which only the caller uses so far, and whether the M never had a thread before.
    fn start_machine(
        &'static self,
        retired: Option<&'static Machine<Plat>>,
    ) -> Result<(&'static Machine<Plat>, bool), OutOfResources> {
        let machine = match retired {
            Some(machine) => machine,
            None => make_forever(|| {
                let id = MachineId(self.next_machine_id.fetch_add(1, Ordering::Relaxed));
                Ok(Machine::new(id, self))
            })?,
        };
        let is_new = machine.thread().is_none();
        match Plat::start_thread(NewMachine::new(machine)) {
            Ok(thread) => machine.set_thread(thread),
            Err(error) => {
                let _pinned = Pinned::<Plat>::of_scheduler();
                self.reuse_machine(machine);
                return Err(error);
            }
        }
        Ok((machine, is_new))
    }

    /// Keeps an M for reuse. Its thread could not be made, has ended, or is about to end and no longer uses the M.
    pub(crate) fn reuse_machine(&self, machine: &'static Machine<Plat>) {
        self.shared.lock().retired_machines.push_front(machine);
    }
}
