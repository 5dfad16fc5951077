//! The live view of `--top`: what the Ps of a running machine do, with rates and the states of Gs and Ms.
//!
//! | file | what |
//! |---|---|
//! | `memory` | the memory into which the machine publishes its numbers |
//! | `model` | rates and shares, computed from the numbers of the last second |
//! | `draw` | the picture of a model |
//! | `terminal` | the terminal, which is restored when the view ends, and the output that is kept until then |

mod draw;
mod memory;
mod model;
mod terminal;

use core::time::Duration;
use std::env;
use std::io::{self, IsTerminal as _};
use std::time::Instant;

use boot_protocol::console::Stream;

use self::memory::Memory;
use self::model::Model;
use self::terminal::Terminal;
pub(crate) use self::terminal::{leave, resume, suspend};
use crate::Error;
use crate::console::{Console, Screen};
use crate::shared_memory::SharedMemory;

/// The kernel option that makes the kernel publish its numbers.
pub const OPTION: &str = "top=memory";

/// The time between two pictures.
const INTERVAL: Duration = Duration::from_millis(200);

/// Checks that there is a terminal for the view.
///
/// # Errors
///
/// [`Error::Usage`] if standard error is no terminal, or a terminal that lacks control sequences.
pub fn check_terminal() -> Result<(), Error> {
    if !io::stderr().is_terminal() {
        return Err(Error::Usage("--top draws on standard error, which is no terminal here".into()));
    }
    if env::var_os("TERM").is_some_and(|kind| kind == "dumb") {
        return Err(Error::Usage("--top draws with control sequences, which the terminal lacks (TERM=dumb)".into()));
    }
    Ok(())
}

/// A console that shows the view on standard error. What the machine prints to standard error is kept, and is printed
/// when the view ends. If standard output is a terminal, too, what the machine prints to standard output is also kept.
#[derive(Debug)]
pub struct View {
    memory: Memory,
    model: Model,
    terminal: Terminal,
    /// Whether standard output is a terminal. If so, what the machine prints there is kept until the view ends.
    keeps_output: bool,
    next: Instant,
}

impl View {
    /// Begins the view. `title` is shown in its first line.
    ///
    /// # Errors
    ///
    /// [`Error::Output`] if the terminal cannot be used.
    pub fn begin(memory: &SharedMemory, title: String) -> Result<Self, Error> {
        let cannot = |error: io::Error| Error::Output(format!("cannot show the view on the terminal: {error}"));
        Ok(Self {
            memory: Memory::new(memory.reader().map_err(cannot)?),
            model: Model::default(),
            terminal: Terminal::enter(title).map_err(cannot)?,
            keeps_output: io::stdout().is_terminal(),
            next: Instant::now(),
        })
    }
}

impl Console for View {
    fn show(&mut self, stream: Stream, text: &[u8]) -> Result<(), Error> {
        if stream == Stream::Output && !self.keeps_output {
            return Screen::standard().show(stream, text);
        }
        self.terminal.keep(stream, text)
    }

    fn next_tick(&self) -> Option<Instant> {
        Some(self.next)
    }

    fn tick(&mut self) {
        self.next = Instant::now() + INTERVAL;
        if let Some(snapshot) = self.memory.read() {
            self.model.add(snapshot);
        }
        self.terminal.draw(&self.model);
    }

    fn end(&mut self) {
        leave();
    }
}
