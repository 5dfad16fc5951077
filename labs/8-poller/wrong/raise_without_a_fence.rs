//! No fence between the store to the raised list and the look for an idle P.
//! fails: who-polls

// ANCHOR: wake_poller
        // Ordering: partners: the fences in `Machine::go_idle` and `Machine::end_poll_duty`.
        let _ = fence;
        Plat::point(Site::DeviceSignal);
        if self.idle_processors.load(Ordering::Relaxed) != 0
            && let Some(machine) = self.poller.load(Ordering::Acquire)
        {
            Plat::unpark_thread(machine);
        } else {
            self.preempt_to_poll();
        }
// ANCHOR_END: wake_poller
