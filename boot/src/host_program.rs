//! Programs of the host that this process starts and waits for, such as compilers and benchmarks. Like QEMU, these
//! programs end when this process ends (see [`process`](crate::process)).

use core::mem::ManuallyDrop;
use core::time::Duration;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::process::{ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Instant;

use rustix::process::Signal;

use crate::listed_child::{List, ListedChild, lock, send_to_all};
use crate::process::{end_with_this_process, spawn};

/// The process ids of the running programs.
static RUNNING: List<()> = List::new(BTreeMap::new());

/// Ends all programs at once. Called when a signal ends this process.
///
/// This function never releases the lock. So a thread that waits for a program does not continue when the program has
/// ended. Otherwise that thread would report that the program has failed, and could start another program.
pub(crate) fn kill_all() {
    let running = ManuallyDrop::new(lock(&RUNNING));
    send_to_all(&running, Signal::KILL);
}

/// How long to wait for the output of a program that was ended at its time limit. The wait is limited, because the
/// program may have started other programs, which keep the pipe open.
const LAST_OUTPUT: Duration = Duration::from_secs(2);

/// How a program has ended, and what it has printed.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The program's status. `None` if the program was ended because of the time limit.
    pub(crate) status: Option<ExitStatus>,
    /// The program's standard output. Empty if the pipe was still open [`LAST_OUTPUT`] after the time limit.
    pub(crate) output: String,
    /// The program's standard error. Empty in the same case, and if the command has no pipe for standard error.
    pub(crate) errors: String,
}

/// Runs a command without input and with a pipe for its standard output. If there is a time limit, ends the command
/// after this time.
///
/// # Errors
///
/// If the command cannot be started or waited for.
pub(crate) fn run(mut command: Command, limit: Option<Duration>) -> io::Result<Ended> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    end_with_this_process(&mut command);
    let mut child = spawn(command)?;
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    let mut program = ListedChild::new(child, &RUNNING, ());
    let (output, errors) = (output.map(read_in_background), errors.map(read_in_background));
    // A limit that is too long for the clock is never reached.
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    let mut is_late = false;
    let [output, errors] = [output, errors].map(|text| {
        let text = text?;
        receive(&text, deadline).or_else(|| {
            is_late = true;
            program.kill();
            // What the program printed before its end is still useful.
            receive(&text, Some(Instant::now() + LAST_OUTPUT))
        })
    });
    let status = if is_late { None } else { wait(&mut program, deadline)? };
    Ok(Ended { status, output: output.unwrap_or_default(), errors: errors.unwrap_or_default() })
}

/// A program that runs until this value is dropped.
#[derive(Debug)]
pub(crate) struct Started {
    _program: ListedChild<()>,
}

/// Starts a command without input. Returns the program and the pipe of its standard output.
///
/// # Errors
///
/// If the command cannot be started.
pub(crate) fn start(mut command: Command) -> io::Result<(Started, ChildStdout)> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    end_with_this_process(&mut command);
    let mut child = spawn(command)?;
    let output = child.stdout.take().expect("asked for a pipe");
    Ok((Started { _program: ListedChild::new(child, &RUNNING, ()) }, output))
}

/// Waits for a program that has closed its pipes, and returns its status. Returns `None` if the program does not end
/// before the deadline.
fn wait(program: &mut ListedChild<()>, deadline: Option<Instant>) -> io::Result<Option<ExitStatus>> {
    /// The time between two checks of the status. Nearly all programs close their pipes only when they end, so few
    /// checks are needed.
    const INTERVAL: Duration = Duration::from_millis(5);
    let Some(deadline) = deadline else { return program.wait().map(Some) };
    loop {
        let status = program.try_wait()?;
        if status.is_some() || Instant::now() >= deadline {
            return Ok(status);
        }
        thread::sleep(INTERVAL);
    }
}

/// Starts a thread that reads the pipe until all its writers have closed it. The thread then sends the text to the
/// receiver that this function returns.
pub(crate) fn read_in_background(mut pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, text) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is still useful.
        let _ = pipe.read_to_end(&mut bytes);
        // The send fails if the receiver has been dropped, because the text is no longer needed.
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    text
}

/// Waits for a text of [`read_in_background`]. Returns `None` if the text does not come before the deadline.
pub(crate) fn receive(text: &Receiver<String>, deadline: Option<Instant>) -> Option<String> {
    match deadline {
        None => Some(text.recv().unwrap_or_default()),
        Some(deadline) => match text.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(text) => Some(text),
            Err(RecvTimeoutError::Disconnected) => Some(String::new()),
            Err(RecvTimeoutError::Timeout) => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::process::{Pid, test_kill_process};

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stderr(Stdio::piped());
        command
    }

    #[test]
    fn both_streams_and_the_status_are_returned() {
        let ended = run(shell("echo out; echo err >&2; exit 3"), None).expect("a shell");
        assert_eq!((ended.output.as_str(), ended.errors.as_str()), ("out\n", "err\n"));
        assert_eq!(ended.status.and_then(|status| status.code()), Some(3));
    }

    /// Runs a shell that writes its process id to a file and then executes `command`, which does not end by itself.
    /// Asserts that this command is ended at its time limit.
    fn assert_is_ended_at_its_time_limit(command: &str) {
        let directory = tempfile::tempdir().expect("a directory");
        let id = directory.path().join("id");
        // The limit is doubled until the script writes its process id within the limit.
        let ended_id = (0..).find_map(|doublings| {
            let script = format!("echo $$ > {}; exec {command}", id.display());
            let ended = run(shell(&script), Some(Duration::from_millis(50 << doublings))).expect("a shell");
            assert!(ended.status.is_none());
            fs::read_to_string(&id).ok()?.trim().parse().ok().and_then(Pid::from_raw)
        });
        assert!(test_kill_process(ended_id.expect("an id")).is_err(), "it still runs");
    }

    #[test]
    fn program_is_ended_at_its_time_limit() {
        assert_is_ended_at_its_time_limit("sleep 100000");
    }

    #[test]
    fn time_limit_may_be_longer_than_any_time() {
        let ended = run(shell("exit 3"), Some(Duration::MAX)).expect("a shell");
        assert_eq!(ended.status.and_then(|status| status.code()), Some(3));
    }

    #[test]
    fn program_that_closes_its_output_is_ended_at_its_time_limit() {
        assert_is_ended_at_its_time_limit("sleep 100000 >&- 2>&-");
    }
}
