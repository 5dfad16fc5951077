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

/// The seconds of processor time that a compiler may take. That of the scheduler takes less than 60 on a slow computer.
const SECONDS: u64 = 300;
/// The address space that a compiler may use.
const MEMORY: u64 = 8 << 30;
/// The largest file that it may write. The largest that it has to is a tenth of that.
const FILE: u64 = 2 << 30;

/// What cargo says of a compiler that a signal has ended, at a limit, and why that was, as far as it can be known. The
/// signals are SIGXCPU, SIGXFSZ and SIGABRT.
const LIMITS: [(&str, &str); 3] = [
    ("(signal: 24", "it takes too much time to compile"),
    ("(signal: 25", "it makes too large a file when it is compiled"),
    ("(signal: 6,", "the compiler failed, perhaps because it needs too much memory"),
];

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
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// Runs `cargo`, which writes its messages as JSON. Shows the crates that it has compiled.
pub(crate) fn run(mut cargo: Command, progress: &Progress) -> Result<Output> {
    let fails = |error| Error::new(format!("cannot run cargo: {error}"));
    cargo.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = cargo.spawn().map_err(fails)?;
    let process = Pid::from_raw(child.id().cast_signed());
    // The compilers inherit the limits. At the first one of the time, a signal says which limit it was.
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

    /// What the compiler has said, if it is `"error"` or `"warning"`.
    pub(crate) fn said(&self, level: &str) -> String {
        let texts = self.messages.iter().filter_map(|message| message.message.as_ref());
        texts.filter(|text| text.level == level).filter_map(|text| text.rendered.as_deref()).collect()
    }

    /// Why the source is to blame, although the compiler has not said an error: it has ended at a limit.
    pub(crate) fn limit(&self) -> Option<&'static str> {
        limit_in(&self.errors)
    }
}

fn limit_in(errors: &str) -> Option<&'static str> {
    LIMITS.into_iter().find_map(|(signal, reason)| errors.contains(signal).then_some(reason))
}

#[cfg(test)]
mod tests {
    use super::limit_in;

    #[test]
    fn compiler_that_ended_at_a_limit_is_known() {
        assert_eq!(
            limit_in("did not exit successfully: `rustc x` (signal: 24)"),
            Some("it takes too much time to compile")
        );
        assert_eq!(limit_in("did not exit successfully: `rustc x` (signal: 9, SIGKILL: kill)"), None);
    }
}
