//! A running G is preempted, although a P is idle.
//! fails: who-polls

// ANCHOR: wake_poller
        fence(Ordering::SeqCst);
        Plat::point(Site::DeviceSignal);
        if self.machines().any(|machine| machine.processor().is_some()) {
            self.preempt_to_poll();
        } else if let Some(machine) = self.poller.load(Ordering::Acquire) {
            Plat::unpark_thread(machine);
        }
// ANCHOR_END: wake_poller
