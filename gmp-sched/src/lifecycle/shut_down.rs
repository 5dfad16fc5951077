//! The end of a scheduler, and of the thread of an M.

use crate::entities::machine::EndedMachine;
use crate::entities::scheduler::Scheduler;
use crate::platform::Platform;

impl<Plat: Platform> Scheduler<Plat> {
    /// Makes each M end, by [`Platform::exit_thread`], when it next finds no work. Gs that are runnable still run,
    /// except that the Gs of a P may stay in its queue if the P is handed off when the other Ms have already ended.
    /// After that, a G that still waits may never run again, even if it is readied. The scheduler cannot be started
    /// again. It is not freed, because handles and wakers may refer to its Gs.
    ///
    /// Platforms call this after the main G has ended. Callable from any thread and any G; does not block or allocate.
    /// Does not compile for a platform whose [`CAN_SHUT_DOWN`](Platform::CAN_SHUT_DOWN) is `false`.
    pub fn shut_down(&'static self) {
        const { assert!(Plat::CAN_SHUT_DOWN, "schedulers of this platform cannot be shut down") }
        self.end_machines();
    }
}

impl<Plat: Platform> EndedMachine<Plat> {
    /// Allows the scheduler to use the M again, with a new thread. The scheduler may call [`Platform::start_thread`]
    /// before this function returns. The calling thread must no longer use the M: [`Platform::current_machine`] returns
    /// `None` on this thread. If this function is not called, the M is not used again. If the thread has ended because of a
    /// [shutdown](Scheduler::shut_down), the call has no effect.
    ///
    /// Does not block or allocate.
    pub fn reuse(self) {
        let machine = self.machine();
        if machine.is_retired() {
            machine.scheduler().reuse_machine(machine);
        }
    }
}
