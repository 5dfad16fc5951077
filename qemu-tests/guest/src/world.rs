//! Tests of stopping the world, of changing the number of Ps, and of locked Gs, on several CPUs.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use gmp_sched::platform::Pinned;
use kernel::disk;
use kernel::platform::{Kernel, scheduler};
use kernel::prelude::*;

use crate::several::{go_each, join_all};

/// While main has stopped the world, no other G runs on any CPU, not even a G that never calls a function. Afterwards
/// the Gs continue.
fn nothing_runs_while_the_world_is_stopped() {
    static STOP: AtomicBool = AtomicBool::new(false);
    static STEPS: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];
    let steps = || STEPS.iter().map(|steps| steps.load(Ordering::SeqCst)).collect::<Vec<_>>();
    let hogs = go_each(0..2 * procs(), move |n| {
        while !STOP.load(Ordering::Relaxed) {
            STEPS[n].fetch_add(1, Ordering::SeqCst);
        }
    });
    for _ in 0..10 {
        // Main sleeps, so that different Gs are running at each stop.
        sleep(Duration::from_millis(3));
        let world = kernel::platform::stop_the_world();
        assert!(scheduler().unwrap().is_stopped());
        let before = steps();
        (0..100_000).for_each(|_| core::hint::spin_loop());
        assert_eq!(steps(), before);
        drop(world);
        let total = before.iter().sum::<u64>();
        while steps().iter().sum::<u64>() == total {
            yield_now();
        }
    }
    STOP.store(true, Ordering::Relaxed);
    join_all(hogs);
    let stops = scheduler().unwrap().stops();
    assert!(stops.count >= 10, "{stops:?}");
}
guest_test!(nothing_runs_while_the_world_is_stopped, smp = &[1, 2, 8], isolated);

/// The number of Ps changes while Gs perform all kinds of operations. Sometimes there are more Ps than CPUs.
fn set_procs_works_under_load() {
    static FINISHED: AtomicUsize = AtomicUsize::new(0);
    fn act(seed: u64) {
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..8 {
            match random.u8(..16) {
                0 => sleep(Duration::from_micros(random.u64(..3000))),
                1 => disk::delay(Duration::from_micros(random.u64(..2000))).unwrap(),
                2 => drop(
                    (0..random.u32(..50_000)).map(f64::from).fold(1.0, |a, b| core::hint::black_box(a * 0.999 + b)),
                ),
                3 => gmp_sched::syscall::syscall::<Kernel, _>(|| ()),
                4 => drop(kernel::platform::stop_the_world()),
                6 => {
                    let _locked = kernel::platform::lock_thread();
                    yield_now();
                    sleep(Duration::from_micros(random.u64(..300)));
                }
                5 => go(yield_now).join().unwrap(),
                _ => yield_now(),
            }
        }
        FINISHED.fetch_add(1, Ordering::Relaxed);
    }
    let original = procs();
    let actors = go_each(0..300, act);
    let mut random = fastrand::Rng::with_seed(0);
    while FINISHED.load(Ordering::Relaxed) < 300 {
        let wanted = random.usize(1..=2 * num_cpu());
        set_procs(wanted).unwrap();
        assert_eq!(procs(), wanted);
        sleep(Duration::from_millis(1));
    }
    join_all(actors);
    set_procs(original).unwrap();
    assert_eq!(procs(), original);
}
guest_test!(set_procs_works_under_load, smp = &[1, 2, 8], seconds = 60, isolated);

/// With more Ps than CPUs, the Ms of the Ps share the CPUs. So all Gs pass the barrier, although each spins until all
/// others have arrived.
fn more_ps_than_cpus_share_the_cpus() {
    static ARRIVED: AtomicUsize = AtomicUsize::new(0);
    let wanted = num_cpu() + 2;
    set_procs(wanted).unwrap();
    join_all(go_each(0..wanted, move |_| {
        ARRIVED.fetch_add(1, Ordering::SeqCst);
        while ARRIVED.load(Ordering::SeqCst) < wanted {
            core::hint::spin_loop();
        }
    }));
}
guest_test!(more_ps_than_cpus_share_the_cpus, smp = &[1, 2], isolated, options = &["slice_us=1000"]);

/// A locked G stays on its M, and this M runs no other G meanwhile, whatever operations the locked G and other Gs
/// perform.
fn no_other_g_runs_on_the_m_of_a_locked_g() {
    fn machine() -> u32 {
        Pinned::<Kernel>::new().machine().id().get()
    }
    static OWNERS: [AtomicUsize; 256] = [const { AtomicUsize::new(0) }; 256];
    let owner = || OWNERS[machine() as usize].load(Ordering::SeqCst);
    let locked = go_each(1..=2 * procs() + 2, move |n| {
        let locked = kernel::platform::lock_thread();
        let before = machine();
        OWNERS[before as usize].store(n, Ordering::SeqCst);
        for round in 0..20 {
            match round % 5 {
                0 => yield_now(),
                1 => sleep(Duration::from_micros(200)),
                2 => disk::delay(Duration::from_micros(200)).unwrap(),
                3 => go(yield_now).join().unwrap(),
                _ => (0..20_000).for_each(|_| core::hint::spin_loop()),
            }
            assert_eq!((machine(), owner()), (before, n));
        }
        OWNERS[before as usize].store(0, Ordering::SeqCst);
        drop(locked);
    });
    let others = go_each(0..4 * procs(), move |_| {
        for _ in 0..50 {
            {
                let _pinned = kernel::percpu::PreemptGuard::new();
                assert_eq!(owner(), 0);
            }
            yield_now();
        }
    });
    locked.into_iter().chain(others).for_each(|handle| handle.join().unwrap());
}
guest_test!(no_other_g_runs_on_the_m_of_a_locked_g, smp = &[1, 2, 8], isolated, options = &["slice_us=1000"]);
