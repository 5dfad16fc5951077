//! A Release fence, as if publishing were enough.
//! fails: submit-and-idle, spinning, waker

// ANCHOR: submitted
        fence(Ordering::Release);
        Plat::point(Site::Idle);
        if self.idle_processors.load(Ordering::Relaxed) != 0 && self.spinning.load(Ordering::Relaxed) == 0 {
            self.wake_processor();
        }
// ANCHOR_END: submitted
