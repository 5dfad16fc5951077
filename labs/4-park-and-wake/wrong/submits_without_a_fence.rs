//! No fence between the store of a G and the load of the number of idle Ps.
//! fails: submit-and-idle, spinning, waker

// ANCHOR: submitted
        // Ordering: step 1 of Submit in idle.md; partner: the fence in `Machine::go_idle`.
        let _ = fence;
        Plat::point(Site::Idle);
        if self.idle_processors.load(Ordering::Relaxed) != 0 && self.spinning.load(Ordering::Relaxed) == 0 {
            self.wake_processor();
        }
// ANCHOR_END: submitted
