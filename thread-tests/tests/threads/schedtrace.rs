//! The state of a scheduler in Go's format: the text itself, and printing it periodically.

use std::env;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use crate::schedtrace_lines::{Dump, Machine, Rest, parse};
use gmp_sched::native::{self, Context, Native};
use gmp_sched::platform::Pinned;
use gmp_sched::schedtrace::{Printer, Schedtrace};
use gmp_sched::scheduler::Scheduler;
use thread_tests::THREADS;

#[test]
fn parser_accepts_what_go_prints() {
    let lines = parse(include_str!("../schedtrace_lines/go_schedtrace.txt"));
    assert_eq!(lines.len(), 6);
    assert_eq!((lines[1].milliseconds, lines[1].threads), (21, 4));
    assert_eq!(lines[1].rest, Rest::Line { lengths: vec![2, 1], ticks: vec![6, 6] });
    let dumps = parse(include_str!("../schedtrace_lines/go_scheddetail.txt"));
    assert_eq!(dumps.len(), 6);
    let Rest::Detail { processors, machines, goroutines, idle_locked, .. } = &dumps[2].rest else {
        panic!("no details")
    };
    assert_eq!((processors.len(), machines.len(), goroutines.len(), *idle_locked), (2, 6, 12, 1));
    assert_eq!((goroutines[10].reason.as_str(), goroutines[10].locked), ("sleep", Some(2)));
}

#[test]
#[should_panic = "expected SCHED "]
fn parser_refuses_another_order_of_fields() {
    parse(
        "SCHED 0ms: gomaxprocs=2 threads=3 idleprocs=0 spinningthreads=1 needspinning=0 idlethreads=0 runqueue=0 [ 0 0 ] schedticks=[ 0 0 ]",
    );
}

/// Returns the caller's scheduler, and two dumps of its state: the single line and the detailed dump.
fn dumps() -> (&'static Scheduler<Native>, Dump, Dump) {
    let scheduler = Pinned::<Native>::new().machine().scheduler();
    let one = |text: String| {
        let mut dumps = parse(&text);
        assert_eq!(dumps.len(), 1, "{text}");
        dumps.remove(0)
    };
    (scheduler, one(scheduler.schedtrace().to_string()), one(scheduler.scheddetail().to_string()))
}

/// The number of Gs with this status and reason.
fn count(dump: &Dump, status: u32, reason: &str) -> usize {
    let Rest::Detail { goroutines, .. } = &dump.rest else { panic!("no details") };
    goroutines.iter().filter(|goroutine| (goroutine.status, goroutine.reason.as_str()) == (status, reason)).count()
}

/// Calls `dumps` until `condition` is true for the detailed dump. Calls `wait` before each new attempt.
fn dumps_when(condition: impl Fn(&Dump) -> bool, wait: fn()) -> (&'static Scheduler<Native>, Dump, Dump) {
    loop {
        let (scheduler, line, dump) = dumps();
        if condition(&dump) {
            return (scheduler, line, dump);
        }
        wait();
    }
}

/// Checks relations that hold in every detailed dump if nothing changes while it is made.
fn assert_adds_up(dump: &Dump) {
    let Rest::Detail { idle_locked, processors, machines, goroutines, .. } = &dump.rest else {
        panic!("no details: {dump:?}")
    };
    assert_eq!(
        processors.iter().map(|processor| processor.id).collect::<Vec<_>>(),
        Vec::from_iter(0..dump.procs as u64)
    );
    assert_eq!(processors.iter().filter(|processor| processor.status == 0).count(), dump.idle_procs);
    assert_eq!(machines.len(), dump.threads);
    assert_eq!(machines.iter().filter(|machine| machine.is_spinning).count(), dump.spinning_threads);
    assert_eq!(machines.iter().filter(|machine| machine.is_blocked).count(), dump.idle_threads + idle_locked);
    for processor in processors {
        let holders = machines.iter().filter(|machine| machine.processor == Some(processor.id));
        assert_eq!(holders.map(|machine| machine.id).collect::<Vec<_>>(), Vec::from_iter(processor.machine));
    }
    for goroutine in goroutines {
        let runs_it = |machine: &&Machine| machine.goroutine == Some(goroutine.id);
        let on = machines.iter().filter(runs_it).map(|machine| machine.id).collect::<Vec<_>>();
        // A dead G keeps its id until its slot is reused, and no id is used twice, so no M runs a G with the id of a
        // dead one.
        assert_eq!(on, Vec::from_iter(goroutine.machine), "{goroutine:?}");
        let locked_to = machines.iter().filter(|machine| machine.locked == Some(goroutine.id));
        assert_eq!(locked_to.map(|machine| machine.id).collect::<Vec<_>>(), Vec::from_iter(goroutine.locked));
        assert_eq!(goroutine.machine.is_some(), matches!(goroutine.status, 2 | 3), "{goroutine:?}");
    }
}

#[test]
fn values_add_up_while_the_world_is_stopped() {
    /// The number of Gs that are spawned while the world is stopped. It is more than a ring holds.
    const RUNNABLE: usize = 300;
    const FAR: Duration = Duration::from_secs(1_000_000);
    THREADS.run(3, || {
        let (end, ended) = native::channel::<()>(0);
        let (end_call, call) = mpsc::channel::<()>();
        let (context, cancel) = Context::background().with_cancel();
        let mut others = Vec::new();
        for _ in 0..2 {
            let ended = ended.clone();
            others.push(native::go(move || ended.recv().is_err()));
        }
        for _ in 0..5 {
            let context = context.clone();
            others.push(native::go(move || context.sleep(FAR).is_err()));
        }
        others.push(native::go(move || {
            let _locked = native::lock_thread();
            ended.recv().is_err()
        }));
        others.push(native::go(move || native::blocking(|| call.recv().is_err())));
        let is_set_up = |dump: &Dump| {
            let counts = (count(dump, 4, "chan receive"), count(dump, 4, "context"), count(dump, 3, ""));
            counts == (3, 5, 1) && matches!(dump.rest, Rest::Detail { idle_locked: 1, .. })
        };
        dumps_when(is_set_up, native::yield_now);
        let world = native::stop_the_world();
        let runnable: Vec<_> = (0..RUNNABLE).map(|_| native::go(|| ())).collect();
        // If an M was searching for work when its P was stopped, it may count as spinning for a short time longer.
        let (scheduler, line, dump) = dumps_when(|dump| dump.spinning_threads == 0, thread::yield_now);
        assert_adds_up(&dump);
        assert_eq!((dump.procs, dump.idle_procs, dump.threads), (3, 0, scheduler.machines().count()));
        let Rest::Detail { is_stopping, idle_locked, stop_wait, processors, goroutines, .. } = &dump.rest else {
            panic!("no details")
        };
        assert_eq!((*is_stopping, *idle_locked, *stop_wait), (true, 1, 0));
        let mut statuses: Vec<_> = processors.iter().map(|processor| processor.status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [1, 3, 3], "only the stopper has a P");
        assert_eq!(goroutines.len(), scheduler.goroutines().count());
        let living = goroutines.iter().filter(|goroutine| !matches!(goroutine.status, 0 | 6)).count();
        assert_eq!(living, scheduler.num_goroutine());
        assert_eq!((count(&dump, 1, ""), count(&dump, 2, "")), (RUNNABLE, 1));
        // As in Go, the length of a local queue does not include the G in `runnext`.
        let queued: usize = processors.iter().map(|processor| processor.queue_length).sum();
        assert!(dump.run_queue > 0, "the ring has overflowed: {dump:?}");
        assert_eq!(queued + dump.run_queue, RUNNABLE - 1);
        assert_eq!(processors.iter().map(|processor| processor.timers).sum::<usize>(), 5);
        let lengths = processors.iter().map(|processor| processor.queue_length).collect();
        let ticks = scheduler.processors().iter().map(|processor| processor.tick()).collect();
        assert_eq!(line.rest, Rest::Line { lengths, ticks });
        assert_eq!(line.run_queue, dump.run_queue);
        drop(world);
        runnable.into_iter().for_each(|goroutine| goroutine.join().unwrap());
        cancel.cancel();
        drop((end, end_call));
        assert!(others.into_iter().all(|goroutine| goroutine.join().unwrap()));
        let (_, _, dump) = dumps();
        let Rest::Detail { processors, .. } = &dump.rest else { panic!("no details") };
        assert!(processors.iter().all(|processor| processor.timers == 0), "{dump:?}");
    });
}

#[test]
fn text_is_due_once_a_millisecond_at_most() {
    THREADS.run_with(1, |scheduler| {
        let mut printer = Printer::new(scheduler, Schedtrace { interval: Duration::ZERO, detailed: false });
        let before = native::now();
        assert!(printer.text_if_due().is_some());
        assert!(printer.next() >= before + Duration::from_millis(1));
    });
}

const IS_CHILD: &str = "GMP_IS_CHILD";

/// Runs two Gs that never wait, on two Ps, until standard input has ended. Before the first byte of standard input, all
/// Ps are idle.
fn idle_then_busy() {
    THREADS.run(2, || {
        let read = || native::blocking(|| std::io::stdin().read(&mut [0]).unwrap());
        assert_eq!(read(), 1);
        let is_over = Arc::new(AtomicBool::new(false));
        let hogs: Vec<_> = (0..2)
            .map(|_| {
                let is_over = is_over.clone();
                native::go(move || while !is_over.load(Ordering::Relaxed) {})
            })
            .collect();
        // A thread outside of the scheduler waits for the end of standard input, because the hogs keep both Ps.
        thread::spawn(move || {
            while std::io::stdin().read(&mut [0]).unwrap() > 0 {}
            is_over.store(true, Ordering::Relaxed);
        });
        hogs.into_iter().for_each(|hog| hog.join().unwrap());
    });
}

#[test]
fn environment_variable_prints_while_all_ps_are_idle_and_while_all_are_busy() {
    if env::var_os(IS_CHILD).is_some() {
        return idle_then_busy();
    }
    let name = "schedtrace::environment_variable_prints_while_all_ps_are_idle_and_while_all_are_busy";
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .envs([(IS_CHILD, "1"), ("GMP_DEBUG", "schedtrace=5,scheddetail=1")])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut seen = String::new();
    // Reads until a dump in which this number of Ps is idle. Such a dump is printed at some time, because the child
    // stays in that state until it reads more input.
    let mut read_until_idle = |number: usize| {
        let line = lines.find(|line| {
            seen.extend([line, "\n"]);
            line.starts_with("SCHED ") && line.contains(&format!(" idleprocs={number} "))
        });
        assert!(line.is_some(), "the child has ended: {seen}");
    };
    (0..3).for_each(|_| read_until_idle(2));
    input.write_all(b"\n").unwrap();
    (0..3).for_each(|_| read_until_idle(0));
    drop(input);
    seen.extend(lines.flat_map(|line| [line, "\n".into()]));
    assert!(child.wait().unwrap().success(), "{seen}");
    let dumps = parse(&seen);
    assert_eq!(dumps[0].milliseconds, 0, "the time is that since the first text");
    assert!(dumps.windows(2).all(|pair| pair[1].milliseconds - pair[0].milliseconds >= 4), "{seen}");
}
