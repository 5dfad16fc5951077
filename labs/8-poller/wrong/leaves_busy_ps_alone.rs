//! If no P is idle, the raise waits until some M picks.
//! fails: busy, who-polls

// ANCHOR: wake_poller
        // Ordering: partners: the fences in `Machine::go_idle` and `Machine::end_poll_duty`.
        fence(Ordering::SeqCst);
        Plat::point(Site::DeviceSignal);
        if self.idle_processors.load(Ordering::Relaxed) != 0
            && let Some(machine) = self.poller.load(Ordering::Acquire)
        {
            Plat::unpark_thread(machine);
        }
// ANCHOR_END: wake_poller
