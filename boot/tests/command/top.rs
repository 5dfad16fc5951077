//! Tests of `--top`, on a terminal of the test (a pseudo-terminal).

use core::time::Duration;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Action, LocalModes, Winsize, tcflow, tcgetattr, tcsetwinsize};

use crate::child::Running;
use crate::outside::{boot_outside, finish, only_machine, status, text};

/// The control sequences that begin and end the alternate screen.
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";

/// A terminal, and what was printed on it.
struct Terminal {
    /// The end of the pseudo-terminal that programs use.
    programs: File,
    printed: Receiver<Vec<u8>>,
    text: String,
}

/// Makes a pseudo-terminal. Returns the user's end, and the end that programs use.
pub(crate) fn pseudo_terminal() -> (File, File) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&ours).expect("granted");
    unlockpt(&ours).expect("unlocked");
    let name = ptsname(&ours, Vec::new()).expect("a name");
    let name = name.into_string().expect("text");
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NOCTTY);
    (ours.into(), options.open(name).expect("its other end can be opened"))
}

impl Terminal {
    fn new() -> Self {
        let (mut ours, programs) = pseudo_terminal();
        let size = Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&programs, size).expect("a size");
        let (sender, printed) = mpsc::channel();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The read fails when no program has the terminal open any more.
            while let Ok(count) = ours.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { programs, printed, text: String::new() }
    }

    fn handle(&self) -> Stdio {
        self.programs.try_clone().expect("a handle").into()
    }

    /// Reads until `part` was printed.
    fn read_until(&mut self, part: &str) {
        while !self.text.contains(part) {
            match self.printed.recv_timeout(Duration::from_secs(120)) {
                Ok(bytes) => self.text.push_str(&String::from_utf8_lossy(&bytes)),
                Err(error) => panic!("{error}, without {part:?} in {:?}", self.text),
            }
        }
    }

    fn echoes(&self) -> bool {
        tcgetattr(&self.programs).expect("settings").local_modes.contains(LocalModes::ECHO)
    }
}

fn top(arguments: &[&str]) -> Command {
    boot_outside(&["--smp=2", "--top"], arguments)
}

#[test]
fn view_shows_the_machine_and_a_signal_restores_the_terminal() {
    let _machine = only_machine();
    let mut terminal = Terminal::new();
    let mut command = top(&["sleep"]);
    command.stderr(terminal.handle());
    let child = Running::start(command);
    for part in [ENTER, "P0", "P1", "waiting", "second:"] {
        terminal.read_until(part);
    }
    assert!(!terminal.echoes(), "what the user types must not disturb the view");
    child.signal(Signal::INT);
    child.finish();
    terminal.read_until(LEAVE);
    assert!(terminal.echoes());
}

#[test]
fn output_is_printed_after_the_view() {
    let _machine = only_machine();
    let mut terminal = Terminal::new();
    let mut command = top(&["both"]);
    command.stdout(terminal.handle()).stderr(terminal.handle());
    let output = Running::start(command).finish();
    assert_eq!(status(&output), Some(0));
    terminal.read_until(LEAVE);
    // The view also shows the last lines, but in the view no line ends with a carriage return and a newline.
    terminal.read_until("out 999\r\n");
    terminal.read_until("err 999\r\n");
    let (_, after) = terminal.text.split_once(LEAVE).expect("the view has ended");
    let lines: Vec<_> = after.lines().collect();
    assert_eq!(
        lines.iter().filter(|line| line.starts_with("out ") || line.starts_with("err ")).count(),
        2000,
        "{after}"
    );
    assert!(terminal.echoes());
}

/// The terminal accepts no output for a second after the signal, so QEMU has ended long before `boot` prints the kept lines.
#[test]
fn signal_ends_boot_when_all_that_was_kept_is_printed() {
    let _machine = only_machine();
    let mut terminal = Terminal::new();
    let mut command = top(&["errors-then-sleep"]);
    command.stderr(terminal.handle());
    let mut child = Running::start(command);
    child.read_until("sleeping\n");
    tcflow(&terminal.programs, Action::OOff).expect("stopped");
    child.signal(Signal::INT);
    thread::sleep(Duration::from_secs(1));
    tcflow(&terminal.programs, Action::OOn).expect("continued");
    let output = child.finish();
    assert_eq!(output.status.signal(), Some(Signal::INT.as_raw()));
    terminal.read_until(LEAVE);
    terminal.read_until("err 4999\r\n");
    let (_, after) = terminal.text.split_once(LEAVE).expect("the view has ended");
    assert_eq!(after.lines().filter(|line| line.starts_with("err ")).count(), 5000, "{after}");
    assert!(!after.contains("QEMU was ended"), "{after}");
}

#[test]
fn view_and_recordings_show_the_same_run() {
    let _machine = only_machine();
    let directory = tempfile::tempdir().expect("a directory");
    let place = |name: &str| directory.path().join(name);
    let options = [format!("--trace={}", place("run").display()), format!("--profile={}", place("profiles").display())];
    let mut terminal = Terminal::new();
    let mut command = boot_outside(&["--smp=2", "--top", &options[0], &options[1]], &["prompt"]);
    command.stdin(Stdio::piped()).stderr(terminal.handle());
    let mut child = Running::start(command);
    for part in [ENTER, "P0", "P1", "waiting", "second:"] {
        terminal.read_until(part);
    }
    child.take_input().write_all(b"me\n").expect("sent");
    let output = child.finish();
    assert_eq!((text(&output.stdout).as_str(), status(&output)), ("name? hello, me\n", Some(0)));
    for part in [LEAVE, "boot: trace: ", " 0 lost, in ", "boot: profile: block: "] {
        terminal.read_until(part);
    }
    let json = fs::read_to_string(place("run.json")).expect("the JSON file");
    assert!(json.contains("\"G1 main\""), "{json}");
    assert!(place("profiles/block.svg").metadata().expect("the profile").len() > 0);
}

#[test]
fn redirected_output_is_not_kept() {
    let _machine = only_machine();
    let mut terminal = Terminal::new();
    let mut command = top(&["arguments", "hello"]);
    command.stderr(terminal.handle());
    let output = Running::start(command).finish();
    assert_eq!((text(&output.stdout).as_str(), status(&output)), ("[\"hello\"]\n", Some(0)));
    terminal.read_until(LEAVE);
}

#[test]
fn view_without_a_terminal_is_refused() {
    let output = finish(top(&["sleep"]));
    assert_eq!(status(&output), Some(64));
    assert!(text(&output.stderr).contains("--top draws on standard error, which is no terminal"));
    let mut terminal = Terminal::new();
    let mut command = top(&["sleep"]);
    command.env("TERM", "dumb").stderr(terminal.handle());
    assert_eq!(status(&finish(command)), Some(64));
    terminal.read_until("--top draws with control sequences, which the terminal lacks (TERM=dumb)");
}
