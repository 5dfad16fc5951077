//! Shows the console of a machine on standard output, and passes standard input to the machine.

use core::time::Duration;
use std::io::{self, Read as _, Write as _};
use std::thread;
use std::time::Instant;

use boot_protocol::{console, status};
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;

use crate::Error;
use crate::session::{Ending, Event, Input, Session};

/// Runs `session` until the machine ends or the time limit is over. Returns the exit status.
///
/// # Errors
///
/// [`Error::Qemu`] if QEMU fails. [`Error::Output`] or [`Error::Closed`] if writing to standard output fails.
pub fn show(mut session: Session, limit: Option<Duration>) -> Result<u8, Error> {
    let input = session.input();
    thread::spawn(move || forward_standard_input(&input));
    let deadline = limit.map(|limit| Instant::now() + limit);
    loop {
        match session.next(deadline) {
            Event::Output(bytes) => write_out(&bytes)?,
            Event::Ended(Ending::Failed(error)) => return Err(error),
            Event::Ended(ending) => {
                if ending == Ending::Reset {
                    say("the machine reset itself, as it does on a triple fault");
                }
                if ending == Ending::Status(status::OUTPUT_LOST) {
                    say("the program's last output is lost: nobody took it for too long");
                }
                return Ok(ending.status());
            }
            Event::TimedOut => {
                let mut result = Ok(());
                say(&format!("time-out: the program still ran after {:?}", limit.unwrap_or_default()));
                session.last_words(|bytes| {
                    if result.is_ok() {
                        result = write_out(bytes);
                    }
                });
                return result.map(|()| status::TIMEOUT);
            }
        }
    }
}

/// Prints a message to the user, on standard error. An error is ignored, because there is no other way to report it.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr(), "boot: {text}");
}

fn write_out(bytes: &[u8]) -> Result<(), Error> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(Error::writing)
}

fn forward_standard_input(input: &Input) {
    let mut buffer = [0; 4096];
    loop {
        wait_for_foreground();
        match io::stdin().lock().read(&mut buffer) {
            Ok(0) => {
                // The call fails if the machine has ended. Then nothing needs the end of the input.
                drop(input.send(vec![console::END_OF_INPUT]));
                return;
            }
            Ok(count) => {
                if input.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// If standard input is a terminal, waits until this process is in the foreground and may read from the terminal.
///
/// Without this wait, the terminal would stop a `boot` in the background as soon as it reads. But most programs never
/// ask for input, so `boot` should run.
fn wait_for_foreground() {
    while tcgetpgrp(io::stdin()).is_ok_and(|foreground| foreground != getpgrp()) {
        thread::sleep(Duration::from_millis(200));
    }
}
