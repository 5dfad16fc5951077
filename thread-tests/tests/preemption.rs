//! Preemption of Gs on threads: a G is interrupted anywhere, and others continue.

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::collections::BTreeMap;
use std::fs::File;
use std::hint::black_box;
use std::io::Write as _;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use gmp_sched::native::{self, Threads, go};
use gmp_sched::preempt;

/// The allocator of the system. Ends the process if a pinned section allocates or frees memory: a preempted G may hold
/// the lock of the allocator. If the pinned section belonged to the code that passes Ps on, this G would never get a P
/// to release the lock.
struct Checked;

fn check() {
    static HAS_FAILED: AtomicBool = AtomicBool::new(false);
    if native::must_not_allocate() && !HAS_FAILED.swap(true, Ordering::Relaxed) {
        let _ = writeln!(std::io::stderr(), "a pinned section allocates:\n{}", Backtrace::force_capture());
        std::process::abort();
    }
}

// SAFETY: the allocator of the system does everything.
unsafe impl GlobalAlloc for Checked {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        check();
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        check();
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Checked = Checked;

/// Turns preemption on, with short slices.
fn threads() -> Threads {
    native::set_slice(Duration::from_millis(1));
    native::set_preemption(true);
    // SAFETY: the Gs of the tests use thread-local variables only within single calls of the standard library.
    unsafe { native::enter() }
}

/// How long a test lasts.
const LONG: Duration = Duration::from_millis(300);

/// Runs `hogs` Gs at the same time on `procs` Ps. Each repeats `work` until all have done it `times` times, without a
/// call of the scheduler. So the test ends only if all make progress. Returns the number of preemptions.
fn hog(procs: usize, hogs: usize, times: u64, work: impl Fn(usize) + Clone + Send + 'static) -> u64 {
    threads().run_with(procs, move |scheduler| {
        let done: Arc<Vec<AtomicU64>> = Arc::new((0..hogs).map(|_| AtomicU64::new(0)).collect());
        let spawn = |hog: usize| {
            let (done, work) = (done.clone(), work.clone());
            go(move || {
                while done.iter().any(|done| done.load(Ordering::Relaxed) < times) {
                    work(hog);
                    done[hog].fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let handles: Vec<_> = (0..hogs).map(spawn).collect();
        handles.into_iter().for_each(|handle| handle.join().unwrap());
        scheduler.counts().preemptions
    })
}

/// Runs 4 Gs at the same time on 1 and on 2 Ps. Each does `work` 5 times, without a call of the scheduler.
fn take_turns(work: impl Fn() + Copy + Send + 'static) {
    for procs in [1, 2] {
        threads().run(procs, move || {
            let handles: Vec<_> = (0..4).map(|_| go(move || (0..5).for_each(|_| work()))).collect();
            handles.into_iter().for_each(|handle| handle.join().unwrap());
        });
    }
}

fn spin(_: usize) {
    (0..1_000).for_each(|n| _ = black_box(n));
}

#[test]
fn loops_that_call_nothing_share_the_ps() {
    for procs in [1, 2] {
        assert!(hog(procs, 5, 1_000, spin) > 0);
    }
}

#[test]
fn hogs_that_allocate_make_progress() {
    let allocate = |hog| {
        let map: BTreeMap<usize, Vec<u8>> = (0..20).map(|n| (n, vec![hog as u8; 100 + 37 * n])).collect();
        assert!(black_box(map).values().all(|bytes| bytes[0] == hog as u8));
    };
    for procs in [1, 2] {
        hog(procs, 6, 3_000, allocate);
    }
}

/// Another thread ends the slices of all Gs ten thousand times a second. So Gs are preempted nearly everywhere: in the
/// allocator, in the handler's own way in and out, and while floating-point registers are in use.
#[test]
fn hogs_in_a_storm_of_preemptions_compute_correctly() {
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    threads().run_with(2, |scheduler| {
        let storm = thread::spawn(move || {
            while !IS_OVER.load(Ordering::Relaxed) {
                scheduler.machines().for_each(preempt::request);
                thread::sleep(Duration::from_micros(100));
            }
        });
        let work = move || {
            let expected = (1..=500).map(f64::from).map(f64::sqrt).sum::<f64>();
            while scheduler.counts().preemptions < 3_000 {
                let roots: Vec<f64> = (1..=500).map(|n| f64::from(black_box(n)).sqrt()).collect();
                assert_eq!(roots.iter().sum::<f64>(), expected);
            }
        };
        let hogs: Vec<_> = (0..5).map(|_| go(work)).collect();
        hogs.into_iter().for_each(|hog| hog.join().unwrap());
        IS_OVER.store(true, Ordering::Relaxed);
        storm.join().unwrap();
    });
}

#[test]
fn std_mutex_held_over_the_end_of_a_slice_is_released() {
    static SHARED: Mutex<u64> = Mutex::new(0);
    take_turns(|| {
        let mut shared = SHARED.lock().unwrap();
        let end = Instant::now() + Duration::from_micros(1_500);
        while Instant::now() < end {}
        *shared += 1;
    });
    assert_eq!(*SHARED.lock().unwrap(), 40);
}

#[test]
fn gs_that_spin_for_a_preempted_g_let_it_continue() {
    static IS_TAKEN: AtomicBool = AtomicBool::new(false);
    take_turns(|| {
        while IS_TAKEN.swap(true, Ordering::Acquire) {}
        let end = Instant::now() + Duration::from_micros(1_500);
        while Instant::now() < end {}
        IS_TAKEN.store(false, Ordering::Release);
    });
}

#[test]
fn hogs_that_print_make_progress() {
    hog(2, 4, 300, |hog| println!("hog {hog} prints"));
}

#[test]
fn hogs_that_panic_make_progress() {
    fn panics(depth: u32) {
        assert!(depth != 0, "on purpose");
        panics(black_box(depth - 1));
    }
    hog(2, 3, 20, |_| {
        assert!(std::panic::catch_unwind(|| panics(10)).is_err());
        spin(0);
    });
}

#[test]
fn hogs_that_start_processes_make_progress() {
    hog(2, 3, 5, |_| {
        let output = Command::new("true").output().unwrap();
        assert!(output.status.success());
        spin(0);
    });
}

/// The hogs end only after the sleeps. How soon each sleep ends depends on what else the computer does. The simulator, which
/// has its own clock, tests that.
#[test]
fn sleepers_run_beside_hogs() {
    threads().run(1, || {
        let stop = Arc::new(AtomicBool::new(false));
        let hogs: Vec<_> = (0..3)
            .map(|_| {
                let stop = stop.clone();
                go(move || while !stop.load(Ordering::Relaxed) {})
            })
            .collect();
        (0..20).for_each(|_| native::sleep(Duration::from_millis(2)));
        stop.store(true, Ordering::Relaxed);
        hogs.into_iter().for_each(|hog| hog.join().unwrap());
    });
}

#[test]
fn world_stops_beside_hogs() {
    threads().run(2, || {
        let stop = Arc::new(AtomicBool::new(false));
        let count = Arc::new(AtomicU64::new(0));
        let hogs: Vec<_> = (0..3)
            .map(|_| {
                let (stop, count) = (stop.clone(), count.clone());
                go(move || {
                    while !stop.load(Ordering::Relaxed) {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        for _ in 0..20 {
            let world = native::stop_the_world();
            let before = count.load(Ordering::Relaxed);
            let end = Instant::now() + Duration::from_millis(1);
            while Instant::now() < end {}
            assert_eq!(count.load(Ordering::Relaxed), before, "a G runs while the world is stopped");
            drop(world);
            native::sleep(Duration::from_micros(100));
        }
        stop.store(true, Ordering::Relaxed);
        hogs.into_iter().for_each(|hog| hog.join().unwrap());
    });
}

#[test]
fn channels_and_spawns_work_beside_hogs() {
    threads().run(2, || {
        let stop = Arc::new(AtomicBool::new(false));
        let hogs: Vec<_> = (0..2)
            .map(|_| {
                let stop = stop.clone();
                go(move || {
                    while !stop.load(Ordering::Relaxed) {
                        go(|| black_box(vec![1_u8; 100])).join().unwrap();
                    }
                })
            })
            .collect();
        let (sender, receiver) = native::channel(1);
        let echo = go(move || receiver.iter().sum::<u64>());
        let end = Instant::now() + LONG;
        let mut sent = 0;
        while Instant::now() < end {
            sender.send(1).unwrap();
            sent += 1;
        }
        drop(sender);
        assert_eq!(echo.join().unwrap(), sent);
        stop.store(true, Ordering::Relaxed);
        hogs.into_iter().for_each(|hog| hog.join().unwrap());
    });
}

#[test]
fn g_left_behind_while_it_is_preempted_releases_what_it_holds() {
    static SHARED: Mutex<u64> = Mutex::new(0);
    static STOP: AtomicBool = AtomicBool::new(false);
    threads().run(1, || {
        for _ in 0..3 {
            go(|| {
                while !STOP.load(Ordering::Relaxed) {
                    let held = SHARED.lock().unwrap();
                    (0..100_000).for_each(|n| _ = black_box(n));
                    drop(held);
                }
            })
            .detach();
        }
        native::sleep(Duration::from_millis(20));
    });
    for _ in 0..20 {
        *SHARED.lock().unwrap() += 1;
        thread::sleep(Duration::from_millis(1));
    }
    STOP.store(true, Ordering::Relaxed);
}

#[test]
fn files_are_written_completely() {
    let path = std::env::temp_dir().join(format!("preemption-{}", std::process::id()));
    let file = Arc::new(Mutex::new(File::create(&path).unwrap()));
    hog(2, 4, 200, move |_| writeln!(file.lock().unwrap(), "a line").unwrap());
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.lines().all(|line| line == "a line"));
    std::fs::remove_file(path).unwrap();
}

/// New threads wait for the lock of the dynamic linker, too. So an M whose thread has not begun must not get the P of a G
/// that holds this lock. (Each G does a fixed amount of work. If all went on until the last has done its share, the one
/// that holds the lock at the end of its slice would nearly always be the same.)
#[test]
fn hogs_that_load_libraries_make_progress() {
    take_turns(|| {
        for _ in 0..100 {
            // SAFETY: the library of mathematical functions runs no code when it is loaded.
            let library = unsafe { libc::dlopen(c"libm.so.6".as_ptr(), libc::RTLD_NOW) };
            assert!(!library.is_null());
            // SAFETY: nothing of the library is in use.
            assert_eq!(unsafe { libc::dlclose(library) }, 0);
        }
    });
}

/// Masks SIGURG for the calling thread, or unmasks it.
fn mask(how: libc::c_int) {
    // SAFETY: a set is an array of integers.
    let mut set: libc::sigset_t = unsafe { core::mem::zeroed() };
    // SAFETY: the set is valid.
    unsafe { libc::sigemptyset(&raw mut set) };
    // SAFETY: the set is valid, and the signal exists.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGURG) };
    // SAFETY: the set is valid.
    assert_eq!(unsafe { libc::pthread_sigmask(how, &raw const set, core::ptr::null_mut()) }, 0);
}

#[test]
fn thread_that_masks_the_signal_is_not_preempted() {
    threads().run(1, || {
        static HAS_RUN: AtomicBool = AtomicBool::new(false);
        mask(libc::SIG_BLOCK);
        go(|| HAS_RUN.store(true, Ordering::Relaxed)).detach();
        let end = Instant::now() + Duration::from_millis(30);
        while Instant::now() < end {}
        let has_run = HAS_RUN.load(Ordering::Relaxed);
        mask(libc::SIG_UNBLOCK);
        // Either a signal is pending and comes now, or sysmon sends another one.
        while !HAS_RUN.load(Ordering::Relaxed) {
            core::hint::spin_loop();
        }
        assert!(!has_run, "the only P was taken from a G whose thread masks the signal");
    });
}

#[test]
fn g_in_a_section_that_forbids_waits_is_not_preempted() {
    threads().run(1, || {
        static HAS_RUN: AtomicBool = AtomicBool::new(false);
        go(|| HAS_RUN.store(true, Ordering::Relaxed)).detach();
        let section = native::forbid_waits("while others spin for a lock");
        let end = Instant::now() + Duration::from_millis(100);
        while Instant::now() < end {}
        let has_run = HAS_RUN.load(Ordering::Relaxed);
        drop(section);
        while !HAS_RUN.load(Ordering::Relaxed) {
            core::hint::spin_loop();
        }
        assert!(!has_run, "the only P was taken from a G that must not wait");
    });
}

#[test]
fn poll_may_be_interrupted_and_sleeps_of_std_last_as_long_as_they_should() {
    threads().run(1, || {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let other = go(|| {
            for _ in 0..200 {
                RUNS.fetch_add(1, Ordering::Relaxed);
                native::yield_now();
            }
        });
        // A G that blocks its thread outside of `blocking` gives way, too. Otherwise this never ends.
        while RUNS.load(Ordering::Relaxed) == 0 {
            // SAFETY: the call waits for no file.
            let polled = unsafe { libc::poll(core::ptr::null_mut(), 0, 50) };
            let error = std::io::Error::last_os_error();
            assert!(polled == 0 || error.kind() == std::io::ErrorKind::Interrupted, "{error}");
        }
        let begin = Instant::now();
        thread::sleep(Duration::from_millis(20));
        assert!(begin.elapsed() >= Duration::from_millis(20));
        other.join().unwrap();
    });
}

#[test]
fn signals_of_a_profiler_come_at_the_same_time() {
    static SAMPLES: AtomicU64 = AtomicU64::new(0);
    extern "C" fn sample(_: libc::c_int) {
        SAMPLES.fetch_add(1, Ordering::Relaxed);
    }
    let every = |microseconds| {
        let interval = libc::timeval { tv_sec: 0, tv_usec: microseconds };
        let timer = libc::itimerval { it_interval: interval, it_value: interval };
        // SAFETY: the timer is valid during the call.
        assert_eq!(unsafe { libc::syscall(libc::SYS_setitimer, libc::ITIMER_PROF, &raw const timer, 0) }, 0);
    };
    // SAFETY: all zeros are a valid action.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = sample as *const () as usize;
    action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: the handler only adds to an atomic.
    assert_eq!(unsafe { libc::sigaction(libc::SIGPROF, &raw const action, core::ptr::null_mut()) }, 0);
    every(1_000);
    let allocate = |hog| assert_eq!(black_box(vec![hog; 500])[499], hog);
    for procs in [1, 2] {
        hog(procs, 4, 20_000, allocate);
    }
    every(0);
    assert!(SAMPLES.load(Ordering::Relaxed) > 0);
}

/// Set in a process whose Gs are preempted one at a time.
const ONE_AT_A_TIME: &str = "GMP_TEST_ONE_PREEMPTED";

/// The limit holds for the whole process, so the test has a process of its own.
#[test]
fn hogs_above_the_limit_of_preempted_gs_take_turns() {
    if std::env::var_os(ONE_AT_A_TIME).is_none() {
        let name = thread::current().name().unwrap().to_string();
        let mut child = Command::new(std::env::current_exe().unwrap());
        let output = child.args(["--exact", &name]).env(ONE_AT_A_TIME, "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    native::set_preempted_limit(1);
    for procs in [1, 2] {
        let begun = threads().run_with(procs, |scheduler| {
            let work = || {
                let end = Instant::now() + Duration::from_millis(20);
                while Instant::now() < end {}
            };
            let hogs: Vec<_> = (0..6).map(|_| go(work)).collect();
            hogs.into_iter().for_each(|hog| hog.join().unwrap());
            scheduler.counts().preemptions
        });
        assert!(begun > 0, "nothing was preempted");
    }
}
