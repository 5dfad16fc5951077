//! Runs one test, either on a machine that it shares with other tests or on a machine of its own.

use core::time::Duration;
use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::time::Instant;

use boot::qemu::{Configuration, Firmware, shell_quoted};
use boot::session::{Ending, Event, Session};
use boot_protocol::input::Kind;
use boot_protocol::report::{Report, SERVE};

use crate::guest::{BOOT_TIME, Guest, PATH, firmware_time};
use crate::outcome::{Cause, Failure, meaning};
use crate::pool::Pool;
use crate::test::Test;
use crate::transcript::Transcript;

/// Runs tests. Its methods may be called from many threads, but at most two machines run at the same time.
#[derive(Debug)]
pub struct Runner {
    guest: Guest,
    pool: Pool<Configuration, Machine>,
    echo: bool,
}

/// A machine that runs tests one after the other.
#[derive(Debug)]
struct Machine {
    session: Session,
    transcript: Transcript,
    /// The tests that this machine has run.
    before: Vec<String>,
    echo: bool,
}

/// What a machine does next.
enum Next {
    Line(String),
    Ended(Ending),
    TimedOut,
}

impl Runner {
    /// Makes a runner for the tests of `guest`. If `echo` is set, the runner copies the output of the machines to
    /// standard error.
    pub fn new(guest: Guest, echo: bool) -> Self {
        Self { guest, pool: Pool::new(), echo }
    }

    /// Runs `test` on `cpus` CPUs.
    ///
    /// # Errors
    ///
    /// Returns an error if the test failed.
    ///
    /// A shared machine is kept for other tests if the test returned an error or did not print its texts, or if the
    /// test program has no such test. After any other failure the machine has been ended.
    pub fn run(&self, test: &Test, firmware: Firmware, cpus: u32) -> Result<(), Box<Failure>> {
        let mut configuration = test.configuration(firmware, cpus);
        configuration.memory += self.guest.memory_of_firmware(firmware, configuration.memory);
        // A test with counted instructions runs on a machine of its own. A shared machine would get the names of its
        // tests as input, at a different time in each run. Without input, the command that the report of a failure
        // shows repeats the run to the byte.
        if test.isolated || test.icount {
            self.run_alone(test, &configuration)
        } else {
            self.run_among_others(test, configuration)
        }
    }

    fn run_among_others(&self, test: &Test, configuration: Configuration) -> Result<(), Box<Failure>> {
        let fail = |cause, transcript: &Transcript, before: &[String]| {
            Box::new(Failure::new(test, &configuration, cause, transcript.text().into_owned(), before))
        };
        let (permit, machine) = self.pool.acquire(Some(&configuration));
        let mut machine = match machine {
            Some(machine) => machine,
            None => Machine::serving(&self.guest, &configuration, self.echo)
                .map_err(|(cause, transcript)| fail(cause, &transcript, &[]))?,
        };
        machine.transcript.forget();
        match machine.serve(test) {
            Ok(result) => {
                let result = result.map_err(|cause| fail(cause, &machine.transcript, &machine.before));
                machine.before.push(test.name.clone());
                permit.release(configuration, machine);
                result
            }
            Err(cause) => Err(fail(cause, &machine.transcript, &machine.before)),
        }
    }

    fn run_alone(&self, test: &Test, configuration: &Configuration) -> Result<(), Box<Failure>> {
        let _permit = self.pool.acquire(None);
        let mut transcript = Transcript::default();
        let result = match self.guest.boot(configuration, &arguments_alone(&[], test)) {
            Ok(session) => {
                let mut machine = Machine::new(session, self.echo);
                let result = machine.run_to_the_end(test, firmware_time(configuration));
                transcript = machine.transcript;
                result
            }
            Err(error) => Err(error.into()),
        };
        result.map_err(|cause| Box::new(Failure::new(test, configuration, cause, transcript.text().into_owned(), &[])))
    }
}

impl Machine {
    fn new(session: Session, echo: bool) -> Self {
        Self { session, transcript: Transcript::default(), before: Vec::new(), echo }
    }

    /// Boots a machine that waits for the names of tests.
    fn serving(guest: &Guest, configuration: &Configuration, echo: bool) -> Result<Self, (Cause, Transcript)> {
        let session =
            guest.boot(configuration, &[SERVE.to_owned()]).map_err(|error| (error.into(), Transcript::default()))?;
        let mut machine = Self::new(session, echo);
        let limit = BOOT_TIME + firmware_time(configuration);
        let why = match machine.next_report(Instant::now() + limit, |report| report == Report::Ready) {
            Next::Line(_) => return Ok(machine),
            Next::Ended(ending) => format!("the machine did not get as far as to run tests: {}", meaning(&ending)),
            Next::TimedOut => format!("the machine did not get as far as to run tests within {limit:?}"),
        };
        Err((Cause::NoMachine(why), machine.transcript))
    }

    /// Runs the test on this machine. The inner result is that of the test. If the outer result is an error, the test
    /// has failed, too, and the machine cannot be used any more.
    fn serve(&mut self, test: &Test) -> Result<Result<(), Cause>, Cause> {
        let deadline = deadline(test);
        // The machine is ready, so it accepts the name at once. If the machine has ended meanwhile, sending may fail.
        // The error is ignored, because the next event shows that the machine has ended.
        drop(self.session.input().send((Kind::Bytes, format!("{}\n", test.name).into_bytes())));
        let name = test.name.as_str();
        let mine = |report: Report<'_>| matches!(report, Report::Passed(of) | Report::Failed(of) | Report::Unknown(of) if of == name);
        let line = self.report_or_cause(deadline, test, mine)?;
        let missing = self.transcript.missing(&test.texts);
        let result = match Report::parse(&line) {
            Some(Report::Passed(_)) => missing.map_or(Ok(()), |text| Err(Cause::DidNotPrint(text.to_owned()))),
            Some(Report::Unknown(_)) => Err(Cause::NoMachine(format!("the machine knows no test {name}"))),
            _ => Err(Cause::ReturnedError),
        };
        // If the machine fails after the end of the test but before it is ready again, this test has failed.
        self.report_or_cause(deadline, test, |report| report == Report::Ready)?;
        Ok(result)
    }

    /// Waits for a report for which `wanted` returns true. If the machine ends or the deadline passes before such a
    /// report, the test has failed, and the cause is returned as the error.
    fn report_or_cause(
        &mut self,
        deadline: Instant,
        test: &Test,
        wanted: impl Fn(Report<'_>) -> bool,
    ) -> Result<String, Cause> {
        match self.next_report(deadline, wanted) {
            Next::Line(line) => Ok(line),
            Next::Ended(ending) => Err(Cause::MachineEnded(ending)),
            Next::TimedOut => Err(Cause::TimedOut(test.seconds)),
        }
    }

    /// Runs a machine that was started for this test alone, until the machine ends.
    /// The time limit of the test begins after `firmware_time`.
    fn run_to_the_end(&mut self, test: &Test, firmware_time: Duration) -> Result<(), Cause> {
        let deadline = deadline(test) + firmware_time;
        let mut last = None;
        let ending = loop {
            match self.next(deadline) {
                Next::Line(line) => last = is_report_of(&line, &test.name).or(last),
                Next::Ended(ending) => break ending,
                Next::TimedOut => return Err(Cause::TimedOut(test.seconds)),
            }
        };
        match (test.status, last) {
            (Some(status), _) if ending == Ending::Status(status) => {}
            (Some(_), Some(Verdict::Passed)) => return Err(Cause::MachineGoesOn),
            (_, Some(Verdict::Failed)) => return Err(Cause::ReturnedError),
            (None, Some(Verdict::Passed)) if ending == Ending::Status(0) => {}
            _ => return Err(Cause::MachineEnded(ending)),
        }
        let missing = self.transcript.missing(&test.texts);
        missing.map_or(Ok(()), |text| Err(Cause::DidNotPrint(text.to_owned())))
    }

    fn next_report(&mut self, deadline: Instant, wanted: impl Fn(Report<'_>) -> bool) -> Next {
        loop {
            match self.next(deadline) {
                Next::Line(line) if !Report::parse(&line).is_some_and(&wanted) => {}
                next => return next,
            }
        }
    }

    /// Returns the next line or another event. At the deadline, makes the machine report what its CPUs execute, and
    /// ends the machine.
    fn next(&mut self, deadline: Instant) -> Next {
        loop {
            if let Some(line) = self.transcript.next_line() {
                return Next::Line(line);
            }
            match self.session.next(Some(deadline)) {
                Event::Output(_, bytes) => take(&mut self.transcript, &bytes, self.echo),
                Event::Ended(ending) => return Next::Ended(ending),
                Event::TimedOut => {
                    let (transcript, echo) = (&mut self.transcript, self.echo);
                    self.session.last_words(|_, bytes| take(transcript, bytes, echo));
                    return Next::TimedOut;
                }
            }
        }
    }
}

/// The result that a test reported.
enum Verdict {
    Passed,
    Failed,
}

fn is_report_of(line: &str, name: &str) -> Option<Verdict> {
    match Report::parse(line)? {
        Report::Passed(of) if of == name => Some(Verdict::Passed),
        Report::Failed(of) if of == name => Some(Verdict::Failed),
        _ => None,
    }
}

fn take(transcript: &mut Transcript, bytes: &[u8], echo: bool) {
    transcript.push(bytes);
    if echo {
        // Errors are ignored, because a test must not fail if the reader has closed the output.
        drop(io::stderr().write_all(bytes));
    }
}

fn deadline(test: &Test) -> Instant {
    Instant::now() + Duration::from_secs(test.seconds.into())
}

/// Returns the arguments with which the program runs the tests `before` and then `test`.
fn arguments_alone(before: &[String], test: &Test) -> Vec<String> {
    let mut arguments = before.to_vec();
    arguments.push(test.name.clone());
    if !test.arguments.is_empty() {
        arguments.push("--".to_owned());
        arguments.extend(test.arguments.iter().cloned());
    }
    arguments
}

impl Failure {
    fn new(test: &Test, configuration: &Configuration, cause: Cause, console: String, before: &[String]) -> Self {
        let command = |before: &[String]| command(configuration, &arguments_alone(before, test));
        let with_before = (!before.is_empty()).then(|| (before.to_vec(), command(before)));
        // A machine that boots from an image reads it from a virtual disk, whose answers come when the host is ready.
        let is_exact = configuration.icount && configuration.firmware == Firmware::Pvh;
        Self { cause, console, command: command(&[]), is_exact, before: with_before }
    }
}

/// Returns the command with which a user boots the guest in the same way, from the root of the workspace.
fn command(configuration: &Configuration, arguments: &[String]) -> String {
    let mut words: Vec<String> = ["cargo", "run", "--", "--release"].map(str::to_owned).into();
    words.extend([format!("--smp={}", configuration.cpus), format!("--memory={}", configuration.memory)]);
    let firmware = configuration.firmware;
    words.extend((firmware != Firmware::Pvh).then(|| format!("--firmware={}", firmware.name())));
    words.extend(configuration.icount.then(|| "--icount".to_owned()));
    words.extend(configuration.kernel_options.iter().map(|option| format!("--kernel-option={option}")));
    words.push(PATH.to_owned());
    words.extend(arguments.iter().cloned());
    shell_quoted(words.iter().map(OsStr::new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_repeats_all_relevant_options() {
        let test = Test {
            name: "a::b".into(),
            memory: 64,
            icount: true,
            options: vec!["program.path=a b".into()],
            arguments: vec!["".into(), "$x".into()],
            ..Test::default()
        };
        let failure = |firmware| {
            let before = ["c::d".to_owned()];
            Failure::new(&test, &test.configuration(firmware, 2), Cause::ReturnedError, String::new(), &before)
        };
        let start = "cargo run -- --release '--smp=2' '--memory=64' '--firmware=uefi' ";
        assert!(failure(Firmware::Uefi).command.starts_with(start) && !failure(Firmware::Uefi).is_exact);
        let failure = failure(Firmware::Pvh);
        let start = "cargo run -- --release '--smp=2' '--memory=64' --icount '--kernel-option=program.smp=2' \
                     '--kernel-option=program.path=a b' qemu-tests/guest";
        assert!(failure.is_exact);
        assert_eq!(failure.command, format!("{start} a::b -- '' '$x'"));
        assert_eq!(failure.before.expect("one").1, format!("{start} c::d a::b -- '' '$x'"));
    }
}
