//! A parser of what Go 1.27 prints with `GODEBUG=schedtrace=20` and `GODEBUG=schedtrace=20,scheddetail=1`. It accepts
//! nothing else. The files beside this one are recorded output of Go 1.27.3.

use std::fmt::Debug;
use std::str::FromStr;

/// The state of a scheduler at one moment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Dump {
    pub(crate) milliseconds: u64,
    pub(crate) procs: usize,
    pub(crate) idle_procs: usize,
    pub(crate) threads: usize,
    pub(crate) spinning_threads: usize,
    pub(crate) idle_threads: usize,
    pub(crate) run_queue: usize,
    pub(crate) rest: Rest,
}

/// The part of the state that depends on `scheddetail`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    Line {
        lengths: Vec<usize>,
        ticks: Vec<u64>,
    },
    Detail {
        is_stopping: bool,
        idle_locked: usize,
        stop_wait: usize,
        processors: Vec<Processor>,
        machines: Vec<Machine>,
        goroutines: Vec<Goroutine>,
    },
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Processor {
    pub(crate) id: u64,
    pub(crate) status: u32,
    pub(crate) tick: u64,
    pub(crate) syscall_tick: u64,
    pub(crate) machine: Option<u64>,
    pub(crate) queue_length: usize,
    pub(crate) free: usize,
    pub(crate) timers: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    pub(crate) id: u64,
    pub(crate) processor: Option<u64>,
    pub(crate) goroutine: Option<u64>,
    pub(crate) is_spinning: bool,
    pub(crate) is_blocked: bool,
    pub(crate) locked: Option<u64>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Goroutine {
    pub(crate) id: u64,
    pub(crate) status: u32,
    pub(crate) reason: String,
    pub(crate) machine: Option<u64>,
    pub(crate) locked: Option<u64>,
}

const SUMMARY: &str =
    "SCHED {}ms: gomaxprocs={} idleprocs={} threads={} spinningthreads={} needspinning={} idlethreads={} runqueue={} ";
const LINE: &str = "[ {} ] schedticks=[ {} ]";
const DETAIL: &str = "gcwaiting={} nmidlelocked={} stopwait={} sysmonwait={}";
const PROCESSOR: &str = "  P{}: status={} schedtick={} syscalltick={} m={} runqsize={} gfreecnt={} timerslen={}";
const MACHINE: &str =
    "  M{}: p={} curg={} mallocing={} throwing={} preemptoff={} locks={} dying={} spinning={} blocked={} lockedg={}";
const GOROUTINE: &str = "  G{}: status={}({}) m={} lockedm={}";

/// Parses a sequence of dumps.
///
/// # Panics
///
/// Panics if the text has another form.
pub(crate) fn parse(text: &str) -> Vec<Dump> {
    let mut lines = text.lines().peekable();
    let mut dumps = Vec::new();
    while let Some(line) = lines.next() {
        let end = line.find(" runqueue=").and_then(|at| Some(at + 1 + line[at + 1..].find(' ')? + 1));
        let (summary, rest) = line.split_at(end.unwrap_or_else(|| panic!("no summary: {line}")));
        let [milliseconds, procs, idle_procs, threads, spinning_threads, needs_spinning, idle_threads, run_queue] =
            fields(SUMMARY, summary);
        let _: u32 = number(needs_spinning);
        let rest = if rest.starts_with('[') {
            let [lengths, ticks] = fields(LINE, rest);
            Rest::Line {
                lengths: lengths.split(' ').map(number).collect(),
                ticks: ticks.split(' ').map(number).collect(),
            }
        } else {
            let [is_stopping, idle_locked, stop_wait, sysmon_waits] = fields(DETAIL, rest);
            let _ = truth(sysmon_waits);
            let mut of_kind = |start: &str| {
                let lines = std::iter::from_fn(|| lines.next_if(|line| line.starts_with(start)));
                lines.collect::<Vec<_>>()
            };
            Rest::Detail {
                is_stopping: truth(is_stopping),
                idle_locked: number(idle_locked),
                stop_wait: number(stop_wait),
                processors: of_kind("  P").into_iter().map(processor).collect(),
                machines: of_kind("  M").into_iter().map(machine).collect(),
                goroutines: of_kind("  G").into_iter().map(goroutine).collect(),
            }
        };
        dumps.push(Dump {
            milliseconds: number(milliseconds),
            procs: number(procs),
            idle_procs: number(idle_procs),
            threads: number(threads),
            spinning_threads: number(spinning_threads),
            idle_threads: number(idle_threads),
            run_queue: number(run_queue),
            rest,
        });
    }
    dumps
}

fn processor(line: &str) -> Processor {
    let [id, status, tick, syscall_tick, machine, queue_length, free, timers] = fields(PROCESSOR, line);
    Processor {
        id: number(id),
        status: number(status),
        tick: number(tick),
        syscall_tick: number(syscall_tick),
        machine: number_or_nil(machine),
        queue_length: number(queue_length),
        free: number(free),
        timers: number(timers),
    }
}

fn machine(line: &str) -> Machine {
    let [id, processor, goroutine, allocates, throws, no_preemption, locks, dying, is_spinning, is_blocked, locked] =
        fields(MACHINE, line);
    let _: [u32; 4] = [allocates, throws, locks, dying].map(number);
    assert!(!no_preemption.contains(' '), "{line}");
    Machine {
        id: number(id),
        processor: number_or_nil(processor),
        goroutine: number_or_nil(goroutine),
        is_spinning: truth(is_spinning),
        is_blocked: truth(is_blocked),
        locked: number_or_nil(locked),
    }
}

fn goroutine(line: &str) -> Goroutine {
    let [id, status, reason, machine, locked] = fields(GOROUTINE, line);
    Goroutine {
        id: number(id),
        status: number(status),
        reason: reason.to_owned(),
        machine: number_or_nil(machine),
        locked: number_or_nil(locked),
    }
}

/// Returns the parts of `line` that are at the places of `{}` in `pattern`. All other bytes must be equal.
fn fields<'a, const N: usize>(pattern: &str, line: &'a str) -> [&'a str; N] {
    let wrong = || -> ! { panic!("expected {pattern}\n     got {line}") };
    let mut literals = pattern.split("{}");
    let first = literals.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { wrong() };
    let mut found = Vec::new();
    for literal in literals {
        // The last field extends to the end of the line.
        let end = if literal.is_empty() { Some(rest.len()) } else { rest.find(literal) };
        let Some(end) = end else { wrong() };
        found.push(&rest[..end]);
        rest = &rest[end + literal.len()..];
    }
    match found.try_into() {
        Ok(found) if rest.is_empty() => found,
        _ => wrong(),
    }
}

fn number<T: FromStr<Err: Debug>>(text: &str) -> T {
    assert!(text.bytes().all(|byte| byte.is_ascii_digit()), "`{text}` is not a number");
    text.parse().unwrap()
}

fn number_or_nil(text: &str) -> Option<u64> {
    (text != "nil").then(|| number(text))
}

fn truth(text: &str) -> bool {
    text.parse().unwrap_or_else(|_| panic!("`{text}` is neither true nor false"))
}
