//! A Release fence, as if publishing were enough.
//! fails: submit-and-idle, spinning, waker

// ANCHOR: submitted
        // Ordering: step 1 of Submit in idle.md; partner: the fence in `Machine::go_idle`.
        fence(Ordering::Release);
        Plat::point(Site::Idle);
        if self.idle_processors.load(Ordering::Relaxed) != 0 && self.spinning.load(Ordering::Relaxed) == 0 {
            self.wake_processor();
        }
// ANCHOR_END: submitted
