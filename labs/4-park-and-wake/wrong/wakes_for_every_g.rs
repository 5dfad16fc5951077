//! An M is woken for each G while a P is idle, although one searches already.
//! fails: few-wakes

// ANCHOR: submitted
        // Ordering: step 1 of Submit in idle.md; partner: the fence in `Machine::go_idle`.
        fence(Ordering::SeqCst);
        Plat::point(Site::Idle);
        if self.idle_processors.load(Ordering::Relaxed) != 0 {
            self.spinning.fetch_add(1, Ordering::SeqCst);
            self.pass_search_on();
        }
// ANCHOR_END: submitted
