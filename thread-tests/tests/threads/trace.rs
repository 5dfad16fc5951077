//! Tests of traces and latencies: the records agree with what has happened.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{self, Command};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{env, fs, thread};

use gmp_sched::goroutine::WaitReason;
use gmp_sched::native::{self, Native};
use gmp_sched::park::{park, ready};
use gmp_sched::trace::{Event, EventKind, Track, memory};
use thread_tests::THREADS;

#[test]
fn events_read_during_writes_are_whole() {
    THREADS.run_with(2, |scheduler| {
        scheduler.start_trace(64).unwrap();
        let writers: Vec<_> = (0..4)
            .map(|_| {
                native::go(|| {
                    for _ in 0..20_000 {
                        native::yield_now();
                    }
                })
            })
            .collect();
        // A scheduler may be reused by several tests, and the ids of its Gs continue to increase. The Gs of this test
        // have the highest ids.
        let latest = writers.iter().map(|writer| writer.id()).max().unwrap();
        while !writers.iter().all(|writer| writer.is_finished()) {
            for processor in scheduler.processors() {
                let events = processor.trace();
                assert!(events.is_sorted_by_key(|event| event.when), "{events:?}");
                assert!(events.iter().all(|event| event.goroutine.is_none_or(|id| id <= latest)), "{events:?}");
            }
            native::yield_now();
        }
    });
}

/// A P that goes out of use during a trace keeps its track. A P that was not in use has none.
#[test]
fn p_that_goes_out_of_use_keeps_its_track() {
    THREADS.run_with(3, |scheduler| {
        native::set_procs(2).unwrap();
        scheduler.start_trace(1000).unwrap();
        native::set_procs(1).unwrap();
        let tracks = scheduler.traces().into_iter().map(|trace| trace.track);
        let of_ps: Vec<_> = tracks.filter(|track| matches!(track, Track::Processor(_))).collect();
        assert_eq!(of_ps, [Track::Processor(0), Track::Processor(1)]);
    });
}

/// A thread that is not an M readies a G. The event is on the track of callers without a P.
#[test]
fn foreign_thread_that_readies_a_g_is_recorded() {
    THREADS.run_with(1, |scheduler| {
        scheduler.start_trace(1000).unwrap();
        let (to_thread, from_g) = std::sync::mpsc::channel();
        let woken = native::go(move || {
            park::<Native>(WaitReason::Parked, move |_, me| {
                to_thread.send(me).unwrap();
                true
            });
        });
        let id = woken.id();
        // SAFETY: the commit made the G known to this thread only, and uses nothing of the G's stack afterwards.
        let thread = thread::spawn(move || unsafe { ready(from_g.recv().unwrap()) });
        // Main yields instead of joining. If main waited, too, the scheduler would report a deadlock, because it does
        // not know that the thread is going to ready the G.
        while !woken.is_finished() {
            native::yield_now();
        }
        woken.join().unwrap();
        thread.join().unwrap();
        scheduler.stop_trace();
        let traces = scheduler.traces();
        let outside = traces.iter().find(|trace| trace.track == Track::Outside).unwrap();
        let readied = |event: &&Event| event.kind == EventKind::Ready && event.goroutine == Some(id);
        assert_eq!(outside.events.iter().filter(readied).count(), 1, "{outside:?}");
        let on_p = traces.iter().filter(|trace| trace.track != Track::Outside).flat_map(|trace| &trace.events);
        assert_eq!(on_p.filter(readied).count(), 0);
    });
}

#[test]
fn latencies_are_sampled_without_a_trace() {
    THREADS.run_with(1, |scheduler| {
        // The Gs that `passing` spawns share the slice of main, and are sampled when sysmon requests a sample. The Gs
        // that `yielding` spawns begin slices of their own, and are sampled at checks of the global queue.
        let passing = |_| native::go(|| {}).join().unwrap();
        let yielding = |_| native::go(native::yield_now).join().unwrap();
        for spawns in [&passing as &dyn Fn(u64), &yielding] {
            let before = scheduler.latencies().count();
            (0..100_000_000).take_while(|_| scheduler.latencies().count() < before + 10).for_each(spawns);
            assert!(scheduler.latencies().count() >= before + 10);
        }
        assert!(scheduler.latencies().percentile(50).is_some());
    });
}

/// Returns the events of a trace in the layout of [`memory`], with their tracks.
fn events_of_image(bytes: &[u8]) -> Vec<(Track, Event)> {
    let (words, _) = bytes.as_chunks::<8>();
    let word = |index: usize| u64::from_le_bytes(words[index]);
    assert_eq!(word(0), memory::MAGIC);
    let (mut events, mut at) = (Vec::new(), memory::HEADER_WORDS);
    for _ in 0..word(1) {
        let track = Track::from_word(word(at + 2)).unwrap();
        for index in 0..word(at + 1) as usize {
            let begin = (at + memory::RING_HEADER_WORDS + index * memory::EVENT_WORDS) * 8;
            let event = Event::from_bytes(bytes[begin..][..Event::BYTES].try_into().unwrap());
            events.push((track, event.unwrap()));
        }
        at += word(at + 3) as usize;
    }
    events
}

#[test]
fn environment_variable_writes_the_trace_of_the_first_run_even_if_the_process_exits_within_it() {
    const IS_CHILD: &str = "GMP_IS_CHILD";
    if env::var_os(IS_CHILD).is_some() {
        THREADS.run(2, || {
            native::go(|| native::sleep(Duration::from_millis(1))).join().unwrap();
            // The second scheduler must not overwrite the trace of the first one.
            thread::spawn(|| THREADS.run(2, || native::mark("second run"))).join().unwrap();
            native::mark("first run");
            process::exit(7);
        });
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("trace-{}", process::id()));
    let name = "trace::environment_variable_writes_the_trace_of_the_first_run_even_if_the_process_exits_within_it";
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .envs([(IS_CHILD, "1".as_ref()), ("GMP_TRACE", file.as_os_str())])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    // The space of the whole file is reserved, so no event finds the disk full.
    let metadata = fs::metadata(&file).unwrap();
    assert!(metadata.blocks() * 512 >= metadata.len(), "{metadata:?}");
    let events = events_of_image(&fs::read(&file).unwrap());
    fs::remove_file(file).unwrap();
    let has = |kind| events.iter().any(|(_, event)| event.kind == kind);
    assert!([EventKind::Spawn, EventKind::Park, EventKind::Timer, EventKind::End].into_iter().all(has), "{events:?}");
    assert_eq!(events.iter().filter(|(_, event)| event.kind == EventKind::Mark).count(), 1, "{events:?}");
}

#[test]
fn file_that_cannot_be_written_is_said_and_the_program_runs() {
    const IS_CHILD: &str = "GMP_IS_CHILD";
    if env::var_os(IS_CHILD).is_some() {
        return THREADS.run(1, || println!("it runs"));
    }
    // A process that maps the file would get SIGBUS if another one emptied it.
    let used = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("used-{}", process::id()));
    fs::write(&used, "the trace of another process").unwrap();
    let lock = fs::File::open(&used).unwrap();
    lock.lock().unwrap();
    for (file, reason) in [
        (Path::new("/no/such/folder/trace"), "No such file"),
        (Path::new("/dev/full"), "not a regular file"),
        (&used, "another process writes a trace to it"),
    ] {
        let output = Command::new(env::current_exe().unwrap())
            .args(["--exact", "trace::file_that_cannot_be_written_is_said_and_the_program_runs", "--nocapture"])
            .envs([(IS_CHILD, "1".as_ref()), ("GMP_TRACE", file.as_os_str())])
            .output()
            .unwrap();
        let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && printed.contains("it runs"), "{output:?}");
        let expected = format!("GMP_TRACE: cannot write the trace to {}: {reason}", file.display());
        assert!(errors.contains(&expected), "{errors}");
    }
    assert_eq!(fs::read_to_string(&used).unwrap(), "the trace of another process");
    fs::remove_file(used).unwrap();
}

/// The limit of the size of files takes the place of a full disk.
#[test]
fn file_without_room_is_said_with_its_size_and_the_program_runs() {
    const IS_CHILD: &str = "GMP_IS_CHILD";
    if env::var_os(IS_CHILD).is_some() {
        return THREADS.run(1, || println!("it runs"));
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("no-room-{}", process::id()));
    let output = Command::new("sh")
        .args(["-c", r#"trap "" XFSZ; ulimit -f 2048; exec "$@""#, "sh"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", "trace::file_without_room_is_said_with_its_size_and_the_program_runs", "--nocapture"])
        .envs([(IS_CHILD, "1".as_ref()), ("GMP_TRACE", file.as_os_str())])
        .output()
        .unwrap();
    let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && printed.contains("it runs"), "{output:?}");
    let expected = format!("GMP_TRACE: cannot write the trace to {}: no room for 128 MiB: ", file.display());
    assert!(errors.contains(&expected), "{errors}");
    assert_eq!(fs::metadata(&file).unwrap().len(), 0);
    fs::remove_file(file).unwrap();
}

/// Each value of a coroutine takes two direct switches, one to the coroutine and one back.
#[cfg(feature = "extras")]
#[test]
fn direct_switches_of_coroutines_are_recorded() {
    THREADS.run_with(1, |scheduler| {
        scheduler.start_trace(1000).unwrap();
        let mut values = native::pull(|yielder| assert!((0..5).all(|value| yielder.yield_value(value))));
        assert!((0..5).all(|value| values.next() == Some(value)));
        assert_eq!(values.next(), None);
        drop(values);
        scheduler.stop_trace();
        let events = scheduler.processors()[0].trace();
        let switches: Vec<_> = events.iter().filter(|event| event.kind == EventKind::Switch).collect();
        let main = switches[0].goroutine.unwrap().get();
        // The coroutine is resumed six times. It yields five times, and then ends, which readies main.
        assert_eq!(switches.len(), 11, "{events:?}");
        for (index, event) in switches.iter().enumerate() {
            let (from, to) = (event.goroutine.unwrap().get(), event.detail);
            assert_eq!(if index % 2 == 0 { from } else { to }, main, "{events:?}");
            assert_ne!(from, to);
        }
        let after: Vec<_> =
            events.iter().skip_while(|event| event.kind != EventKind::End).map(|event| event.kind).collect();
        assert!(after.contains(&EventKind::Start), "main runs again: {events:?}");
    });
}

/// The program, or a program with which it shares the memory of a trace, may write anything to this memory. That must
/// not disturb the recording of later events, because a G records that it parks after it has been queued.
#[test]
fn events_are_recorded_after_shared_memory_was_overwritten() {
    let memory: &'static [AtomicU64] = (0..4000).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak();
    THREADS.run_with(2, move |scheduler| {
        scheduler.start_profile_in(memory).unwrap();
        for word in [u64::MAX, u64::MAX - 1, 1 << 63, 0] {
            memory.iter().for_each(|cell| cell.store(word, Ordering::Relaxed));
            let (sender, receiver) = native::channel(0);
            let sum = native::go(move || receiver.iter().sum::<u64>());
            (0..10).for_each(|number| sender.send(number).unwrap());
            drop(sender);
            assert_eq!(sum.join(), Ok(45));
            assert!(scheduler.traces().len() >= 3, "one ring for callers without a P, and two for Ps");
        }
    });
}

/// Functions that Gs of the library run. Each waits for the gate.
#[cfg(feature = "extras")]
mod functions {
    pub(super) static GATE: gmp_sched::native::Mutex<()> = gmp_sched::native::Mutex::new(());

    pub(super) fn of_wait_group() {
        drop(GATE.lock());
    }

    pub(super) fn of_error_group() -> Result<(), ()> {
        drop(GATE.lock());
        Ok(())
    }

    pub(super) fn of_scope() {
        drop(GATE.lock());
    }

    pub(super) fn of_try_scope() -> Result<(), ()> {
        drop(GATE.lock());
        Ok(())
    }

    pub(super) fn of_timer() {
        drop(GATE.lock());
    }

    pub(super) fn of_context() {
        drop(GATE.lock());
    }
}

#[cfg(feature = "extras")]
#[test]
fn trace_and_list_name_the_function_of_the_program_and_not_that_of_the_library() {
    let (events, list) = THREADS.run_with(1, |scheduler| {
        scheduler.start_trace(10_000).unwrap();
        let gate = functions::GATE.lock();
        let group = std::sync::Arc::new(native::WaitGroup::new());
        group.go(functions::of_wait_group);
        let errors = native::ErrorGroup::new();
        errors.go(functions::of_error_group);
        let background = native::Context::background();
        let timer = native::after_func(Duration::ZERO, functions::of_timer);
        let (context, cancel) = background.with_cancel();
        let end = context.after_func(functions::of_context);
        cancel.cancel();
        let list = native::try_scope(&background, |scope| {
            scope.go(functions::of_try_scope);
            native::scope(|scope| {
                scope.go(functions::of_scope);
                native::sleep(Duration::from_millis(1));
                let list = scheduler.goroutine_list().to_string();
                drop(gate);
                Ok::<_, ()>(list)
            })
        });
        group.wait();
        errors.wait().unwrap();
        // The Gs of both functions have begun when neither can be stopped any more.
        assert!(!timer.stop() && !end.stop());
        scheduler.stop_trace();
        (scheduler.processors()[0].trace(), list.unwrap())
    });
    let mut names: Vec<String> = Vec::new();
    for event in events {
        match event.kind {
            EventKind::TextBegin => names.push(String::new()),
            EventKind::TextBytes => {
                let bytes = event.detail.to_le_bytes().map(char::from);
                names.last_mut().unwrap().extend(bytes.into_iter().filter(|&byte| byte != '\0'));
            }
            _ => {}
        }
    }
    for function in ["wait_group", "error_group", "scope", "try_scope", "timer", "context"].map(|of| format!("of_{of}"))
    {
        let is_named = |name: &String| name.ends_with(&format!("::functions::{function}"));
        assert!(names.iter().any(is_named), "{function}: {names:?}");
        assert!(list.contains(&format!("::functions::{function}\n")), "{function}: {list}");
    }
    assert!(names.iter().all(|name| !name.starts_with("gmp_sched::")), "{names:?}");
}
