//! Runs cargo, with limits: what a student hands in must not keep the compiler busy for ever, nor fill the memory or
//! the disk of the grader's computer.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::progress::Progress;

/// The seconds of processor time that a compiler may take. For the scheduler it takes less than 60 on a slow computer.
const SECONDS: u64 = 300;
/// The address space that a compiler may use.
const MEMORY: u64 = 8 << 30;
/// The largest file that a compiler may write: ten times the largest one that it has to write.
const FILE: u64 = 2 << 30;

/// What cargo prints if a signal has ended a compiler at a limit, and the reason. The signals are SIGXCPU, SIGXFSZ and SIGABRT.
/// The compiler aborts if it gets no memory, but also for other reasons.
const LIMITS: [(&str, &str); 3] = [
    ("(signal: 24", "it takes too much time to compile"),
    ("(signal: 25", "it makes too large a file when it is compiled"),
    ("(signal: 6,", "the compiler failed, perhaps because it needs too much memory"),
];

/// If an error without a place in the source contains one of these texts, the computer is to blame: a disk is full, a
/// file cannot be written, or the linker was killed, for example because no memory was left.
const OF_COMPUTER: [&str; 4] = ["(os error ", "No space left on device", "signal 9", "signal: 9"];

/// What cargo has said.
pub(crate) struct Output {
    pub(crate) status: ExitStatus,
    messages: Vec<Message>,
    pub(crate) errors: String,
}

/// What a line of cargo's output says, as far as it is used here.
#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
    message: Option<Diagnostic>,
    target: Option<Target>,
    #[serde(default)]
    fresh: bool,
}

#[derive(Deserialize)]
struct Diagnostic {
    level: String,
    rendered: Option<String>,
    #[serde(default)]
    spans: Vec<Span>,
}

#[derive(Deserialize)]
struct Span {
    file_name: String,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// Why a source does not compile.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// All that the compiler says.
    pub(crate) text: String,
    /// Its first error.
    pub(crate) first: String,
    /// The files with errors, as the compiler names them.
    pub(crate) files: Vec<String>,
}

/// Runs `cargo`, which writes its messages as JSON. Shows the crates that it has compiled.
pub(crate) fn run(mut cargo: Command, progress: &Progress) -> Result<Output> {
    let fails = |error| Error::new(format!("cannot run cargo: {error}"));
    cargo.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = cargo.spawn().map_err(fails)?;
    let process = Pid::from_raw(child.id().cast_signed());
    // The compilers inherit the limits. The time has two limits. At the first, SIGXCPU ends a compiler, and this signal says
    // that it was the limit of the time. At the second, 10 s later, SIGKILL would end a compiler that ignores SIGXCPU.
    for (resource, limit) in [(Resource::Cpu, SECONDS), (Resource::As, MEMORY), (Resource::Fsize, FILE)] {
        let maximum = if resource == Resource::Cpu { limit + 10 } else { limit };
        // This fails only if the process has already ended.
        let _ = prlimit(process, resource, Rlimit { current: Some(limit), maximum: Some(maximum) });
    }
    let mut stderr = child.stderr.take().expect("it is a pipe");
    let errors = thread::spawn(move || {
        let mut text = Vec::new();
        stderr.read_to_end(&mut text).map(|_| String::from_utf8_lossy(&text).into_owned())
    });
    let (mut messages, mut count) = (Vec::new(), 0);
    for line in BufReader::new(child.stdout.take().expect("it is a pipe")).lines().map_while(core::result::Result::ok) {
        let Ok(message) = serde_json::from_str::<Message>(&line) else { continue };
        if let Some(target) = message.target.as_ref().filter(|_| !message.fresh && message.message.is_none()) {
            count += 1;
            progress.show(&format!("compiled {} ({count})", target.name));
        }
        messages.push(message);
    }
    let status = child.wait().map_err(fails)?;
    Ok(Output { status, messages, errors: errors.join().expect("it does not panic").unwrap_or_default() })
}

impl Output {
    /// The program that was built.
    pub(crate) fn executable(&self) -> Option<PathBuf> {
        self.messages.iter().find_map(|message| message.executable.clone())
    }

    /// The compiler's warnings.
    pub(crate) fn warnings(&self) -> String {
        self.said("warning").filter_map(|warning| warning.rendered.as_deref()).collect()
    }

    /// Why the compiler refuses the source: its errors, or the limit at which it was ended. `None` if the source is not to
    /// blame.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        let is_of_computer = |error: &Diagnostic| {
            let text = error.rendered.as_deref().unwrap_or_default();
            error.spans.is_empty() && OF_COMPUTER.iter().any(|words| text.contains(words))
        };
        if self.said("error").any(is_of_computer) {
            return None;
        }
        let texts: Vec<&str> = self.said("error").filter_map(|error| error.rendered.as_deref()).collect();
        let Some(first) = texts.first() else {
            let first = limit_in(&self.errors)?.to_string();
            return Some(Refusal { text: format!("{first}\n{}", self.errors), first, files: Vec::new() });
        };
        let files = self.said("error").flat_map(|error| &error.spans).map(|span| span.file_name.clone()).collect();
        Some(Refusal { text: texts.concat(), first: (*first).to_string(), files })
    }

    /// What cargo and the compiler have said, if the source is not to blame.
    pub(crate) fn failure(&self) -> String {
        self.said("error").filter_map(|error| error.rendered.as_deref()).chain([self.errors.as_str()]).collect()
    }

    fn said<'a>(&'a self, level: &'static str) -> impl Iterator<Item = &'a Diagnostic> {
        self.messages.iter().filter_map(|message| message.message.as_ref()).filter(move |said| said.level == level)
    }
}

fn limit_in(errors: &str) -> Option<&'static str> {
    LIMITS.into_iter().find_map(|(signal, reason)| errors.contains(signal).then_some(reason))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    use super::{Output, limit_in};

    fn said(message: &str) -> Output {
        let messages = vec![serde_json::from_str(message).unwrap()];
        Output { status: ExitStatus::from_raw(101 << 8), messages, errors: "cargo's".to_string() }
    }

    #[test]
    fn source_is_not_to_blame_for_a_full_disk_or_a_linker_that_was_killed() {
        for text in [
            "failed to write `a.rmeta`: No space left on device (os error 28)",
            "linking with `cc` failed: exit status: 1\\n  = note: collect2: fatal error: ld terminated with signal 9 [Killed]",
            "linking with `cc` failed: exit status: 1\\n  = note: ld: final link failed: No space left on device",
        ] {
            let output = said(&format!(
                "{{\"message\": {{\"level\": \"error\", \"rendered\": \"error: {text}\", \"spans\": []}}}}"
            ));
            assert!(output.refusal().is_none(), "{text}");
            assert!(output.failure().starts_with("error: ") && output.failure().ends_with("cargo's"));
        }
        // An error with a place in the source is the source's, even if its text looks like an error of the computer.
        let refusal = said(
            "{\"message\": {\"level\": \"error\", \"rendered\": \"error: (os error 28)\", \"spans\": [{\"file_name\": \"a.rs\"}]}}",
        );
        assert_eq!(refusal.refusal().unwrap().files, ["a.rs"]);
    }

    #[test]
    fn compiler_that_ended_at_a_limit_is_known() {
        assert_eq!(
            limit_in("did not exit successfully: `rustc x` (signal: 24)"),
            Some("it takes too much time to compile")
        );
        assert_eq!(limit_in("did not exit successfully: `rustc x` (signal: 9, SIGKILL: kill)"), None);
    }
}
