//! Due timers on threads, where no timer interrupt displaces a running G.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::several::spawn_each;
use gmp_sched::native;
use thread_tests::THREADS;

/// The maximum number of sleeps of a G. The test should tell the G to end after about a thousand sleeps. At the limit
/// the G ends by itself, so that a failing test does not hang.
const MOST: usize = 50_000;

/// A G sets a timer and then computes without a call of the scheduler, so its P does not come to the timer. sysmon cannot
/// help, because no signal preempts the G. The timekeeper wakes for the timer, because another P is idle.
#[test]
fn timer_of_a_busy_p_fires_on_an_idle_one() {
    THREADS.run(2, || {
        // Meanwhile the other P becomes idle, and its M parks.
        thread::sleep(Duration::from_millis(50));
        let has_fired = Arc::new(AtomicBool::new(false));
        let fires = has_fired.clone();
        let _timer = native::after_func(Duration::from_millis(1), move || fires.store(true, Ordering::Relaxed));
        let end = Instant::now() + Duration::from_secs(60);
        while !has_fired.load(Ordering::Relaxed) {
            assert!(Instant::now() < end, "the timer does not fire");
            core::hint::spin_loop();
        }
    });
}

/// A P always has a G whose timer is due. Such a G comes from the timing wheel, so the P's ring stays empty.
/// Nevertheless, the P takes Gs from the global queue. The simulator cannot test this, because in the simulator a
/// displaced G goes to `runnext`, which ends the batch of due timers.
#[test]
fn due_timers_do_not_starve_the_global_queue() {
    THREADS.run(1, || {
        let (begun, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let sleepers = spawn_each(0..16, |_| {
            let (begun, is_over) = (begun.clone(), is_over.clone());
            move || {
                begun.fetch_add(1, Ordering::Relaxed);
                let sleeps = (0..MOST).take_while(|_| {
                    native::sleep(Duration::from_nanos(1));
                    !is_over.load(Ordering::Relaxed)
                });
                sleeps.count()
            }
        });
        while begun.load(Ordering::Relaxed) < sleepers.len() {
            native::yield_now();
        }
        // While a locked G is runnable, it waits on a list that Ps check only together with the global queue. So the
        // yields below return only if the P checks the global queue.
        let _locked = native::lock_thread();
        for _ in 0..4 {
            native::yield_now();
        }
        is_over.store(true, Ordering::Relaxed);
        for sleeper in sleepers {
            assert!(sleeper.join().unwrap() < MOST, "the Gs of timers kept their P for themselves");
        }
    });
}
