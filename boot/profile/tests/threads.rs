//! Profiles of programs on threads. There is one P, so the order of the Gs is known. No test depends on time.

use core::time::Duration;
use std::fs::{self, File};
use std::sync::atomic::{AtomicU32, Ordering};

use gmp_sched::goroutine::WaitReason;
use gmp_sched::native::{self, Condvar, Mutex, RwLock, channel, go, yield_now};
use profile::pprof::PprofProfile;
use profile::symbols::Symbols;
use profile::{Profile, Sample};

/// Runs `program` with one P, and returns its profile.
fn profile_of(program: impl FnOnce() + Send + 'static) -> Profile {
    // SAFETY: no G uses a thread-local variable.
    let threads = unsafe { native::enter() };
    let traces = threads.run_with(1, move |scheduler| {
        scheduler.start_profile(10_000).expect("memory for a profile");
        program();
        scheduler.stop_trace();
        scheduler.traces()
    });
    Profile::new(&traces)
}

/// Lets all other Gs run until they wait.
fn let_others_wait() {
    (0..10).for_each(|_| yield_now());
}

thread_local! {
    // The symbols are kept, because reading them takes most of the time of a test.
    static SYMBOLS: Symbols = Symbols::of_this_program();
}

/// The samples whose call stack contains the function.
fn of<'a>(samples: &'a [Sample], function: &str) -> Vec<&'a Sample> {
    let frames = |address| SYMBOLS.with(|symbols| symbols.frames(address)).unwrap_or_default();
    let has = |&&address: &&u64| frames(address).iter().any(|frame| frame.function.ends_with(function));
    samples.iter().filter(|sample| sample.stack.iter().find(has).is_some()).collect()
}

/// Returns the number of waits for this reason, and the sum of their times.
fn waits(profile: &Profile, reason: WaitReason) -> (u64, u64) {
    let samples = profile.block.iter().filter(|sample| sample.reason == Some(reason));
    samples.fold((0, 0), |(count, time), sample| (count + sample.count, time + sample.nanoseconds))
}

#[inline(never)]
fn hold_long(mutex: &Mutex<u32>) {
    let mut value = mutex.lock();
    let_others_wait();
    *value += 1;
    drop(value);
    // Because of this call, the unlock is not the last call in this function. Otherwise the unlock could be a tail
    // call, and this function would not be on the call stack of the unlock.
    std::hint::black_box(&mutex);
}

#[inline(never)]
fn wait_for_holder(mutex: &Mutex<u32>) {
    *mutex.lock() += 1;
    std::hint::black_box(&mutex);
}

#[test]
fn time_that_gs_wait_for_a_mutex_is_charged_to_its_holder() {
    static MUTEX: Mutex<u32> = Mutex::new(0);
    let profile = profile_of(|| {
        let holder = go(|| hold_long(&MUTEX));
        while !MUTEX.is_locked() {
            yield_now();
        }
        let waiting = [(); 3].map(|()| go(|| wait_for_holder(&MUTEX)));
        waiting.into_iter().for_each(|handle| handle.join().expect("no panic"));
        holder.join().expect("no panic");
    });
    assert_eq!(*MUTEX.lock(), 4);
    assert_eq!(profile.lost, 0);
    let (_, waited) = waits(&profile, WaitReason::MutexLock);
    let waiters: u64 = of(&profile.block, "wait_for_holder").iter().map(|sample| sample.nanoseconds).sum();
    assert_eq!((waited, profile.waiting), (waiters, 0), "{profile:?}");
    let charged: u64 = profile.mutex.iter().map(|sample| sample.nanoseconds).sum();
    assert_eq!(charged, waited, "all time is charged, and none twice");
    let holder = of(&profile.mutex, "hold_long");
    assert_eq!(holder.iter().map(|sample| sample.count).sum::<u64>(), 1, "{profile:?}");
    assert!(of(&profile.block, "hold_long").is_empty(), "it has not waited");
}

#[test]
fn wait_that_ends_at_its_limit_is_charged_to_nobody() {
    static MUTEX: Mutex<u32> = Mutex::new(0);
    let profile = profile_of(|| {
        let held = MUTEX.lock();
        let hasty = go(|| MUTEX.try_lock_for(Duration::from_nanos(1)).is_some());
        while !hasty.is_finished() {
            yield_now();
        }
        drop(held);
        assert!(!hasty.join().expect("no panic"));
    });
    assert_eq!(profile.mutex, []);
}

#[inline(never)]
fn wait_for_a_notification(mutex: &Mutex<bool>, condvar: &Condvar) {
    let mut is_set = mutex.lock();
    // Meanwhile the other G begins to wait for the mutex.
    let_others_wait();
    while !*is_set {
        condvar.wait(&mut is_set);
    }
    std::hint::black_box(&mutex);
}

#[test]
fn unlock_by_a_wait_for_a_condition_variable_is_charged_to_that_wait() {
    static MUTEX: Mutex<bool> = Mutex::new(false);
    static CONDVAR: Condvar = Condvar::new();
    let profile = profile_of(|| {
        let waiting = go(|| wait_for_a_notification(&MUTEX, &CONDVAR));
        while !MUTEX.is_locked() {
            yield_now();
        }
        let notifier = go(|| {
            *MUTEX.lock() = true;
            CONDVAR.notify_one();
        });
        notifier.join().expect("no panic");
        waiting.join().expect("no panic");
    });
    let charged = of(&profile.mutex, "wait_for_a_notification");
    assert_eq!((charged.len(), profile.mutex.len()), (1, 1), "{profile:?}");
    assert_eq!(charged[0].nanoseconds, waits(&profile, WaitReason::MutexLock).1);
    assert_eq!(waits(&profile, WaitReason::CondvarWait).0, 1);
}

#[inline(never)]
fn write_long(lock: &RwLock<u32>) {
    let mut value = lock.write();
    let_others_wait();
    *value += 1;
    drop(value);
    std::hint::black_box(&lock);
}

#[test]
fn time_that_readers_wait_is_charged_to_the_writer() {
    static LOCK: RwLock<u32> = RwLock::new(0);
    let profile = profile_of(|| {
        let writer = go(|| write_long(&LOCK));
        while !LOCK.is_locked() {
            yield_now();
        }
        let readers = [(); 2].map(|()| go(|| assert_eq!(*LOCK.read(), 1)));
        readers.into_iter().for_each(|handle| handle.join().expect("no panic"));
        writer.join().expect("no panic");
    });
    let (count, waited) = waits(&profile, WaitReason::RwLockRead);
    assert_eq!(count, 2, "{profile:?}");
    let charged: u64 = of(&profile.mutex, "write_long").iter().map(|sample| sample.nanoseconds).sum();
    assert_eq!(charged, waited, "{profile:?}");
}

#[inline(never)]
fn receive(receiver: &native::Receiver<u32>) -> Option<u32> {
    std::hint::black_box(receiver.recv().ok())
}

#[test]
fn written_files_name_the_functions() {
    let profile = profile_of(|| {
        let (sender, receiver) = channel(0);
        let receiving = go(move || receive(&receiver));
        let_others_wait();
        sender.send(7).expect("there is a receiver");
        assert_eq!(receiving.join().expect("no panic"), Some(7));
    });
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path().join("new/profiles");
    let written = profile::write(&profile, &Symbols::of_this_program(), "threads", &directory).expect("files");
    let text = written.to_string();
    assert!(text.contains("mutex: no unlock has ended the wait of a G") && text.contains("0 events lost"), "{text}");
    assert!(text.contains("cpu: threads have no timer interrupts"), "{text}");
    let folded = fs::read_to_string(directory.join("block.folded")).expect("folded stacks");
    let line = folded.lines().find(|line| line.contains("threads::receive")).expect("the wait");
    assert!(line.contains("[chan receive] "), "{line}");
    assert!(!line.contains("call_stack") && !line.contains("engine::"), "{line}");
    let svg = fs::read_to_string(directory.join("block.svg")).expect("a flame graph");
    assert!(svg.contains("threads::receive"));
    let pprof = PprofProfile::read(File::open(directory.join("block.pb.gz")).expect("a file")).expect("a profile");
    let types: Vec<_> = pprof.sample_type.iter().map(|kind| (pprof.text(kind.r#type), pprof.text(kind.unit))).collect();
    assert_eq!(types, [("contentions", "count"), ("delay", "nanoseconds")]);
    let sample = pprof.sample.iter().find(|sample| pprof.functions(sample).contains(&"threads::receive"));
    let sample = sample.expect("the wait");
    let labels: Vec<_> = sample.label.iter().map(|label| (pprof.text(label.key), pprof.text(label.str))).collect();
    assert_eq!(labels, [("reason", "chan receive")]);
    assert_eq!(format!(" {}", sample.value[1]), line[line.rfind(' ').expect("a time")..]);
    let empty = PprofProfile::read(File::open(directory.join("cpu.pb.gz")).expect("a file")).expect("a profile");
    assert_eq!((empty.sample.len(), empty.sample_type.len()), (0, 2));
    assert!(fs::read_to_string(directory.join("cpu.svg")).expect("a picture").contains("nothing was recorded"));
}

#[test]
fn trace_after_a_profile_has_no_call_stacks() {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    // SAFETY: no G uses a thread-local variable.
    let threads = unsafe { native::enter() };
    let traces = threads.run_with(1, |scheduler| {
        scheduler.start_profile(1000).expect("memory for a profile");
        scheduler.stop_trace();
        scheduler.start_trace(1000).expect("memory for a trace");
        go(|| COUNT.fetch_add(1, Ordering::Relaxed)).join().expect("no panic");
        scheduler.stop_trace();
        scheduler.traces()
    });
    let block = Profile::new(&traces).block;
    assert_eq!(block.iter().map(|sample| sample.stack.len()).collect::<Vec<_>>(), [0], "{block:?}");
    assert_eq!(COUNT.load(Ordering::Relaxed), 1);
}
