//! Shows a machine's console on this process's standard output, and gives it this process's standard input.

use core::time::Duration;
use std::io::{self, Read as _, Write as _};
use std::thread;
use std::time::Instant;

use boot_protocol::{console, status};
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;

use crate::Error;
use crate::session::{Ending, Event, Input, Session};

/// Runs `session` to its end, or for the time `limit`, and returns the exit status for it.
///
/// # Errors
///
/// [`Error::Qemu`] if QEMU fails, [`Error::Output`] if standard output does not take what the machine prints.
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

/// Tells the user something. It is not worth a panic if nobody listens.
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
                // The machine may be gone, as in the other case.
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

/// Waits until this process may read its terminal, if that is what its standard input is.
///
/// A process in the background that reads its terminal is stopped, and most machines never want any input.
fn wait_for_foreground() {
    while tcgetpgrp(io::stdin()).is_ok_and(|foreground| foreground != getpgrp()) {
        thread::sleep(Duration::from_millis(200));
    }
}
