//! Runs the tests of checks, and finds out how each of them ended.
//!
//! Each test is a process of its own, so a test that hangs or crashes hides no other.

use core::time::Duration;
use std::fmt;
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};

use crate::compile::Refusal;
use crate::error::{Error, Result};
use crate::lab::{Check, Lab, Proof};
use crate::tree::{NotBuilt, Program, Tree};

/// The word for [`Verdict::NotRun`]. A grade with this verdict is not final.
pub(crate) const NOT_RUN: &str = "not run";

/// How a check ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    Passed,
    /// The property does not hold: the test says why.
    Failed {
        test: String,
        reason: String,
    },
    /// A panic in the files of the scheduler or of the kernel.
    Panicked {
        test: String,
        reason: String,
    },
    Hangs {
        test: String,
    },
    /// A signal ended the process. Which one it was may differ between two runs, because code that crashes may do
    /// anything.
    Crashed {
        test: String,
    },
    /// The process ended, and its test had neither passed nor failed.
    Left {
        test: String,
    },
    /// This computer has failed, so it is not known how the test would have ended.
    Lost {
        test: String,
        reason: String,
    },
    /// This computer does not have what the check needs.
    NotRun {
        reason: String,
    },
}

impl Verdict {
    pub(crate) fn is_passed(&self) -> bool {
        *self == Self::Passed
    }

    /// Whether the check could not be run here.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::NotRun { .. })
    }

    /// The verdict in one word.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Passed => "ok",
            Self::Failed { .. } => "FAILED",
            Self::Panicked { .. } => "PANIC",
            Self::Hangs { .. } => "HANGS",
            Self::Crashed { .. } => "CRASH",
            Self::Left { .. } => "LEFT",
            Self::Lost { .. } => "LOST",
            Self::NotRun { .. } => NOT_RUN,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => Ok(()),
            Self::Failed { test, reason } => write!(formatter, "{test}: {reason}"),
            Self::Panicked { test, reason } => write!(formatter, "{test}: the scheduler panicked at {reason}"),
            Self::Hangs { test } => write!(formatter, "{test} does not end"),
            Self::Crashed { test } => {
                write!(
                    formatter,
                    "{test} was ended by a signal, for example because of a wrong address, or because it had no memory left"
                )
            }
            Self::Left { test } => write!(formatter, "{test} ended its process before its result was known"),
            Self::Lost { test, reason } => write!(formatter, "{test} was not finished: {reason}. Repeat this"),
            Self::NotRun { reason } => write!(formatter, "{reason}"),
        }
    }
}

/// What became of all checks of a lab.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The verdicts, in the order of the checks, and the compiler's warnings.
    Checked(Vec<Verdict>, String),
    /// This program does not compile with the student's code.
    DoesNotCompile(Program, Refusal),
}

/// The seconds of processor time after which a test counts as hanging. Each takes less than two. The time on the clock
/// would depend on what else the computer does.
const LIMIT: u64 = 20;

/// A test that has not ended after this time on the clock waits for something that does not come.
const STANDS_STILL: Duration = Duration::from_secs(600);

/// The address space that a test may use. Code that allocates without end must not fill the computer's memory.
const MEMORY: u64 = 8 << 30;

/// The largest file that a test may write. The checks write no files but traces.
const FILE: u64 = 256 << 20;

/// How many bytes of a test's output are read.
const OUTPUT: u64 = 1 << 20;

/// For how long the end of the output is awaited after the end of the test's process. Another process, which the test has left
/// behind, may keep the output open.
const END_OF_OUTPUT: Duration = Duration::from_secs(60);

/// Builds what the checks of `lab` need in `tree`, and runs them.
pub(crate) fn check(lab: &Lab, tree: &Tree) -> Result<Outcome> {
    let mut paths: Vec<(Program, PathBuf)> = Vec::new();
    let (mut verdicts, mut warnings) = (Vec::new(), String::new());
    for check in &lab.checks {
        let program = lab.program(&check.tests);
        if paths.iter().all(|(built, _)| *built != program) {
            match tree.build(program) {
                Ok(built) => {
                    warnings += &built.warnings;
                    paths.push((program, built.path));
                }
                Err(NotBuilt::DoesNotCompile(refusal)) => return Ok(Outcome::DoesNotCompile(program, refusal)),
                Err(NotBuilt::Error(error)) => return Err(error),
            }
        }
        let (_, path) = paths.iter().find(|(built, _)| *built == program).expect("it was built above");
        let progress = tree.progress();
        progress.show(&format!("check {} of {}: {}", verdicts.len() + 1, lab.checks.len(), check.property));
        verdicts.push(verdict(check, path, tree)?);
    }
    Ok(Outcome::Checked(verdicts, warnings))
}

/// Like [`check`], in a copy of a checkout. If a submission does not compile there, but the starter does, the fault is in the
/// submission. If the starter does not compile either, the checkout or this computer is broken. Nobody may lose points for
/// that, so the result is an error. For the same reason, [`Verdict::Lost`] is an error.
pub(crate) fn check_copy(lab: &Lab, copy: &Tree) -> Result<Outcome> {
    let outcome = check(lab, copy)?;
    match &outcome {
        Outcome::DoesNotCompile(program, _) => starter_compiles(lab, copy, *program)?,
        Outcome::Checked(verdicts, _) => {
            if let Some(lost) = verdicts.iter().find(|verdict| matches!(verdict, Verdict::Lost { .. })) {
                return Err(Error::new(lost.to_string()));
            }
        }
    }
    Ok(outcome)
}

/// Returns an error if `program` does not compile with the starter, which is put into the holes of `copy`.
pub(crate) fn starter_compiles(lab: &Lab, copy: &Tree, program: Program) -> Result<()> {
    lab.starter()?.fill(copy.root(), &lab.holes)?;
    match copy.build(program) {
        Ok(_) => Ok(()),
        Err(NotBuilt::Error(error)) => Err(error),
        Err(NotBuilt::DoesNotCompile(refusal)) => Err(Error::new(format!(
            "lab {} does not compile in this checkout, also with the starter in its holes, so nothing is judged. The first error:\n\n{}\n\
             `git status` and `git diff` show what is changed here; a compiler of another version is chosen with `rustup default`",
            lab.number,
            refusal.first.trim_end()
        ))),
    }
}

/// Runs the tests of a check one after the other, until one of them does not pass.
fn verdict(check: &Check, program: &Path, tree: &Tree) -> Result<Verdict> {
    match &check.tests {
        Proof::Tests(tests) => first_failure(tests, |name| test(program, name, None)),
        Proof::Models(models) => first_failure(models, |model| test(program, &format!("models::{model}"), None)),
        Proof::Threads(runs) => first_failure(runs, |run| run.on_threads(program)),
        Proof::Machine(runs) => first_failure(runs, |run| run.on_machine(program, tree)),
    }
}

fn first_failure<T>(tests: &[T], run: impl Fn(&T) -> Result<Verdict>) -> Result<Verdict> {
    for test in tests {
        let verdict = run(test)?;
        if !verdict.is_passed() {
            return Ok(verdict);
        }
    }
    Ok(Verdict::Passed)
}

/// Runs one test. If there is a file for a trace, a test on a simulated machine writes the trace of its last run there.
pub(crate) fn test(program: &Path, test: &str, trace: Option<&Path>) -> Result<Verdict> {
    let (ended, text) = execute(program, test, trace)?;
    let test = test.strip_prefix("models::").unwrap_or(test).to_string();
    Ok(ended.map_or_else(|| Verdict::Hangs { test: test.clone() }, |status| verdict_of(test.clone(), status, &text)))
}

/// Runs a test that answers a question. Returns the answer that it prints, or `None` if it does not print one, or does not pass.
pub(crate) fn answer(program: &Path, test: &str, trace: Option<&Path>) -> Result<Option<String>> {
    let (ended, text) = execute(program, test, trace)?;
    Ok(ended.and_then(|status| answer_of(test, status, &text)))
}

/// The answer of a test whose process ended with `status` and printed `text`. The test must have passed, because the message of
/// a panic in a student's code may look like an answer, too.
fn answer_of(test: &str, status: ExitStatus, text: &str) -> Option<String> {
    if !verdict_of(test.to_string(), status, text).is_passed() {
        return None;
    }
    // The harness may have begun the line.
    text.lines().find_map(|line| Some(line.split_once("answer: ")?.1.trim().to_string()))
}

/// Runs one test. Returns how it ended, or `None` if it was still running after [`STANDS_STILL`], and what it printed.
fn execute(program: &Path, test: &str, trace: Option<&Path>) -> Result<(Option<ExitStatus>, String)> {
    let mut command = Command::new(program);
    command.env_remove("GMP_LAB_TRACE").envs(trace.map(|trace| ("GMP_LAB_TRACE", trace)));
    // The harness must not capture the output, because captured output is lost if the process ends before the test does.
    command.args([test, "--exact", "--test-threads=1", "--nocapture"]);
    command.env("LOOM_MAX_PREEMPTIONS", "2").env("RUST_BACKTRACE", "0");
    limited(command, Outputs::Both)
}

/// Which outputs of a program are read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Outputs {
    Standard,
    /// The standard output and the standard error, in the order in which they come.
    Both,
}

/// Runs a command with limits on its time and memory. Returns how it ended, or `None` if it stood still, and what it
/// printed.
pub(crate) fn limited(mut command: Command, outputs: Outputs) -> Result<(Option<ExitStatus>, String)> {
    let program = PathBuf::from(command.get_program());
    let fails = |error| Error::file("run", &program, &error);
    let (output, end) = io::pipe().map_err(fails)?;
    command.stderr(match outputs {
        Outputs::Standard => Stdio::null(),
        Outputs::Both => end.try_clone().map_err(fails)?.into(),
    });
    command.stdin(Stdio::null()).stdout(end);
    let mut child = command.spawn().map_err(fails)?;
    // The reader below sees the end of the output when all copies of the pipe's other end are closed. `command` has copies.
    drop(command);
    let process = Pid::from_raw(child.id().cast_signed());
    // At the first limit of the time the process gets SIGXCPU, by which this end is recognised. At the second limit it
    // gets SIGKILL.
    for (resource, limit, maximum) in [
        (Resource::As, MEMORY, MEMORY),
        (Resource::Cpu, LIMIT, LIMIT + 10),
        (Resource::Fsize, FILE, FILE),
        (Resource::Core, 0, 0),
    ] {
        // This fails only if the process has already ended.
        let _ = prlimit(process, resource, Rlimit { current: Some(limit), maximum: Some(maximum) });
    }
    let (sender, text) = mpsc::channel();
    thread::spawn(move || {
        let mut text = Vec::new();
        let read = output.take(OUTPUT).read_to_end(&mut text);
        // This fails only if the receiver has stopped waiting.
        let _ = sender.send(read.map_or_else(|_| String::new(), |_| String::from_utf8_lossy(&text).into_owned()));
    });
    let ended = wait(&mut child).map_err(|error| Error::file("wait for", &program, &error))?;
    Ok((ended, text.recv_timeout(END_OF_OUTPUT).unwrap_or_default()))
}

/// Waits until the process has ended. Returns `None` if it stands still; in that case it has been killed.
fn wait(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    let begin = Instant::now();
    while begin.elapsed() < STANDS_STILL {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(Duration::from_millis(5));
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

/// How a test ended whose process ended with `status` and printed `text`.
fn verdict_of(test: String, status: ExitStatus, text: &str) -> Verdict {
    if let Some(signal) = status.signal() {
        let verdict = verdict_of_signal(&test, signal);
        // Where the scheduler must not unwind, a panic ends the process by a signal.
        let panic = verdict_of_panic(&test, text).filter(|_| matches!(verdict, Verdict::Crashed { .. }));
        return panic.unwrap_or(verdict);
    }
    // The end of a process with status 0 alone proves nothing: the code under test may have ended it.
    if status.success() && text.contains("test result: ok. 1 passed; 0 failed;") {
        return Verdict::Passed;
    }
    verdict_of_panic(&test, text).unwrap_or(Verdict::Left { test })
}

/// How a test ended whose process was ended by `signal`.
pub(crate) fn verdict_of_signal(test: &str, signal: i32) -> Verdict {
    let test = test.to_string();
    match signal {
        _ if signal == Signal::XCPU.as_raw() => Verdict::Hangs { test },
        // SIGXCPU ends the process before it reaches the second limit of the time. So something else has sent this signal.
        _ if signal == Signal::KILL.as_raw() => Verdict::Lost {
            test,
            reason: "something killed it, perhaps because this computer had no memory left".to_string(),
        },
        _ => Verdict::Crashed { test },
    }
}

/// The verdict on a test that has panicked, as `text` reports. `None` if it reports no panic.
fn verdict_of_panic(test: &str, text: &str) -> Option<Verdict> {
    let ((place, reason), test) = (panic_in(text)?, test.to_string());
    let is_scheduler = place.starts_with("gmp-sched/") || place.starts_with("kernel/");
    if is_scheduler && !place.starts_with("gmp-sched/src/models/") {
        return Some(Verdict::Panicked { test, reason: format!("{place}: {reason}") });
    }
    Some(Verdict::Failed { test, reason })
}

/// The place and the message of the first panic that `text` reports.
fn panic_in(text: &str) -> Option<(String, String)> {
    let (_, report) = text.split_once(" panicked at ")?;
    let (place, message) = report.split_once('\n')?;
    let ends = ["\nnote: run with `RUST_BACKTRACE", "\n\nfailures:", "\n\nthread '"];
    let end = ends.iter().filter_map(|end| message.find(end)).min().unwrap_or(message.len());
    Some((place.trim_end_matches(':').to_string(), message[..end].trim_end().to_string()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    use super::{Verdict, answer_of, verdict_of};

    fn ended(code: i32, text: &str) -> Verdict {
        verdict_of("a".to_string(), ExitStatus::from_raw(code), text)
    }

    #[test]
    fn only_a_test_that_passed_passes() {
        let passed = "running 1 test\ntest a ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored\n";
        assert_eq!(ended(0, passed), Verdict::Passed);
        // Code that ends the process, and a filter that selects no test.
        assert_eq!(ended(0, "running 1 test\n"), Verdict::Left { test: "a".to_string() });
        let none = "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored\n";
        assert_eq!(ended(0, none), Verdict::Left { test: "a".to_string() });
        assert_eq!(ended(11, passed), Verdict::Crashed { test: "a".to_string() });
    }

    #[test]
    fn only_a_limit_of_time_is_a_hang() {
        assert_eq!(ended(24, ""), Verdict::Hangs { test: "a".to_string() });
        let killed = ended(9, "");
        assert!(matches!(killed, Verdict::Lost { .. }) && !killed.is_missing(), "{killed:?}");
    }

    #[test]
    fn only_a_test_that_passed_answers() {
        let passed = "test a ... answer: 174\nok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored\n";
        assert_eq!(answer_of("a", ExitStatus::from_raw(0), passed).as_deref(), Some("174"));
        let panicked = "thread 'a' (7) panicked at labs/policy/src/lib.rs:1:2:\nanswer: 1\n";
        assert_eq!(answer_of("a", ExitStatus::from_raw(101 << 8), panicked), None);
    }

    #[test]
    fn panic_is_of_the_test_or_of_the_scheduler() {
        let report = |place: &str| {
            format!(
                "---- a stdout ----\n\nthread 'a' (7) panicked at {place}:\nwhy\nand how\nnote: run with `RUST_BACKTRACE=1`"
            )
        };
        let reason = "why\nand how".to_string();
        let failed = Verdict::Failed { test: "a".to_string(), reason: reason.clone() };
        assert_eq!(ended(101 << 8, &report("labs/checks/tests/checks/a.rs:1:2")), failed);
        assert_eq!(ended(101 << 8, &report("gmp-sched/src/models/a.rs:1:2")), failed);
        let reason = format!("gmp-sched/src/engine/a.rs:1:2: {reason}");
        let panicked = Verdict::Panicked { test: "a".to_string(), reason };
        assert_eq!(ended(101 << 8, &report("gmp-sched/src/engine/a.rs:1:2")), panicked);
        // By a signal, where the scheduler must not unwind.
        assert_eq!(ended(6, &report("gmp-sched/src/engine/a.rs:1:2")), panicked);
    }
}
