//! The condition is the wrong way round: nobody is woken unless an M searches already.
//! fails: submit-and-idle, spinning, waker

// ANCHOR: submitted
        // Ordering: step 1 of Submit in idle.md; partner: the fence in `Machine::go_idle`.
        fence(Ordering::SeqCst);
        Plat::point(Site::Idle);
        if self.idle_processors.load(Ordering::Relaxed) != 0 && self.spinning.load(Ordering::Relaxed) != 0 {
            self.wake_processor();
        }
// ANCHOR_END: submitted
