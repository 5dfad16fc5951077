//! Each raise wakes all Ms, and preempts all Gs.
//! fails: no-m, who-polls

// ANCHOR: wake_poller
        fence(Ordering::SeqCst);
        Plat::point(Site::DeviceSignal);
        let _ = (Ordering::Relaxed, Self::preempt_to_poll);
        for machine in self.machines() {
            if machine.processor().is_some() {
                Plat::request_preemption(machine);
            } else {
                Plat::unpark_thread(machine);
            }
        }
// ANCHOR_END: wake_poller
