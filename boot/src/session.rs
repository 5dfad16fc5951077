//! A running machine: its output, its input, and how it ends.

mod forward;

use core::time::Duration;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ChildStdin, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Instant;

use boot_protocol::console::{BEGIN, Decoder, Received, Stream};
use boot_protocol::input::Kind;
use boot_protocol::status;

use self::forward::{Destination, forward_input, forward_output};
use crate::annotator::{OutputAnnotator, ReportAnnotator};
use crate::capture::Capture;
use crate::image::Writer;
use crate::input_memory::InputMemory;
use crate::memory_disk::MemoryDisks;
use crate::memory_file;
use crate::process::{Process, advice_on_version};
use crate::qemu::{Configuration, Firmware};
use crate::shared_memory::SharedMemory;
use crate::wire::{self, Network, Wire};
use crate::{Error, signals};

/// How long the machine may take to answer a request for its state, after a time-out.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The character with which the control sequences of a terminal begin.
const ESCAPE_CHARACTER: u8 = 0x1b;

/// The next event of a machine.
#[derive(Debug)]
pub enum Event {
    /// The machine printed these bytes on this stream. On standard error, addresses are annotated with functions and
    /// lines.
    Output(Stream, Vec<u8>),
    /// The machine has ended.
    Ended(Ending),
    /// The deadline has passed. Output that came before the deadline may follow as further events.
    TimedOut,
}

/// How a machine ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The guest has ended the machine with this status.
    Status(u8),
    /// The machine was reset, for example by a triple fault.
    Reset,
    /// QEMU failed.
    Failed(Error),
}

impl Ending {
    /// Returns the exit status that `boot` has if the machine ends in this way.
    pub fn status(&self) -> u8 {
        match self {
            Self::Status(status) => *status,
            Self::Reset => status::EXCEPTION,
            Self::Failed(error) => error.status(),
        }
    }

    /// Determines how the machine ended, from QEMU's exit status and from whether the machine has reset itself.
    fn of(exit: ExitStatus, was_reset: bool) -> Self {
        let failed = |what: String| Self::Failed(Error::Qemu(format!("{what}{}", advice_on_version())));
        match exit.code() {
            Some(0) if was_reset => Self::Reset,
            Some(0) => Self::Failed(Error::Qemu(
                "the machine was ended by gdb, by a command to QEMU's monitor, or by an argument with which QEMU only \
                 prints something (such as -version)"
                    .to_owned(),
            )),
            Some(1) => failed("QEMU failed; see its output above".to_owned()),
            Some(code) => status::status_of_qemu_exit(code)
                .map_or_else(|| failed(format!("QEMU ended with the unknown status {code}")), Self::Status),
            None => failed(format!("QEMU was ended by signal {}", exit.signal().unwrap_or_default())),
        }
    }
}

/// A sender for the input of the machine's console. The machine gets the pieces in the order in which they are sent.
pub type Input = SyncSender<InputPiece>;

/// A piece of the input.
pub type InputPiece = (Kind, Vec<u8>);

/// A running machine. Dropping it ends the machine.
#[derive(Debug)]
pub struct Session {
    process: Process,
    /// What the firmware and the bootloader have printed. `None` if the kernel has already printed something, or if
    /// QEMU itself loads the program. Also `None` after the text has been taken.
    before_kernel: Option<Vec<u8>>,
    decoder: Decoder,
    of_output: OutputAnnotator,
    of_reports: ReportAnnotator,
    output: Receiver<Vec<u8>>,
    /// Text that has been received and decoded, but not yet returned as events.
    decoded: VecDeque<(Stream, Vec<u8>)>,
    input: Input,
    /// Whether the kernel has begun to print.
    has_begun: bool,
    /// The status that the machine has announced before a report.
    announced: Option<u8>,
    /// The receiver of the input, and where the input is written. Both are kept here until the machine asks for input.
    /// `None` after the machine has asked for input. Also `None` if the input is a script, because the memory contains
    /// all of it already.
    held_input: Option<(Receiver<InputPiece>, Destination)>,
    /// Set when the machine asks for input.
    asked_for_input: Arc<AtomicBool>,
    /// The thread that writes the frames of the network to a file. `None` if there is no such file, or after
    /// [`take_capture`](Self::take_capture).
    capture: Option<Capture>,
    /// The pipe to QEMU's standard input, which stays open although the machine takes its input from memory.
    _unused_pipe: Option<ChildStdin>,
    /// The network of a machine whose input is recorded.
    _network: Option<Network>,
}

impl Session {
    /// Boots the ELF file `program` in QEMU, with `arguments` for the program. If the firmware boots from a disk image,
    /// writes the image first. The image has no name, so it is deleted when QEMU ends.
    ///
    /// # Errors
    ///
    /// The errors of [`Configuration::qemu_arguments`] and of [`Writer`]. [`Error::Usage`] if instructions are counted
    /// and a disk cannot be loaded into memory. [`Error::Output`] if the file for the frames of the network cannot be
    /// written. [`Error::Qemu`] if QEMU is not installed or cannot be started.
    pub fn boot(configuration: &Configuration, program: &Path, arguments: &[String]) -> Result<Self, Error> {
        Self::boot_with(configuration, program, arguments, &[], None)
    }

    /// Like [`boot`](Self::boot). The machine gets a device for each of `memories`, whose purposes must differ. If
    /// there is a memory for input, the input comes from that memory and not through the serial port.
    ///
    /// # Errors
    ///
    /// In the same cases as [`boot`](Self::boot). Also [`Error::Qemu`] if this process has too many open files.
    pub fn boot_with(
        configuration: &Configuration,
        program: &Path,
        arguments: &[String],
        memories: &[&SharedMemory],
        input: Option<&InputMemory>,
    ) -> Result<Self, Error> {
        let (capture, mut pipe) = configuration.capture.as_deref().map(Capture::start).transpose()?.unzip();
        let pipe_name = pipe.as_ref().map(memory_file::inherited);
        let configuration = &Configuration { capture: pipe_name, ..configuration.clone() };
        let cannot = |error: io::Error| Error::Qemu(format!("cannot pass on the shared memory: {error}"));
        let observed = memories.iter().map(|memory| memory.device());
        let observed_and_input = observed.chain(input.map(InputMemory::device)).collect::<Result<Vec<_>, _>>();
        let (mut shared, mut devices) = MemoryDisks::load(configuration)?.devices();
        let wire = input.map_or(Ok(Wire::default()), |memory| wire::start(configuration, memory, &mut pipe))?;
        devices.extend(wire.arguments);
        shared.extend(wire.file.into_iter().chain(pipe));
        let with_network = |session| Self { _network: wire.network, capture, ..session };
        for (memory, words) in observed_and_input.map_err(cannot)? {
            shared.push(memory);
            devices.extend(words);
        }
        let with_devices = |mut words: Vec<OsString>| {
            words.extend(devices);
            words
        };
        if configuration.firmware == Firmware::Pvh {
            let words = configuration.qemu_arguments(program, arguments)?;
            return Self::start(program, &with_devices(words), None, shared, input).map(with_network);
        }
        let line = configuration.command_line(arguments)?;
        let image = Writer::get()?.write_nameless(configuration.firmware, program, &line)?;
        let words = configuration.qemu_arguments(&memory_file::inherited(&image), arguments)?;
        Self::start(program, &with_devices(words), Some(image), shared, input).map(with_network)
    }

    /// Starts QEMU with `arguments`. QEMU inherits `files` and, if there is one, the disk image.
    fn start(
        program: &Path,
        arguments: &[OsString],
        image: Option<File>,
        mut files: Vec<File>,
        memory: Option<&InputMemory>,
    ) -> Result<Self, Error> {
        // If instructions are counted, the output should be the same in each run. So the annotator does not add how
        // long ago QEMU was started.
        let started = (!arguments.iter().any(|word| word == "-icount")).then(Instant::now);
        let before_kernel = image.is_some().then(Vec::new);
        files.extend(image);
        let (process, stdout, stdin) = Process::start(arguments, files)?;
        // Both channels are bounded. So if the machine or the reader is slow, the other side waits.
        let (sender, output) = mpsc::sync_channel(16);
        let (input, to_write) = mpsc::sync_channel(1);
        let (destination, unused_pipe) = match memory.map(InputMemory::feed) {
            None => (Some(Destination::Pipe(stdin)), None),
            Some(feed) => (feed.map(Destination::Memory), Some(stdin)),
        };
        thread::spawn(move || forward_output(stdout, &sender));
        Ok(Self {
            process,
            before_kernel,
            decoder: Decoder::default(),
            of_output: OutputAnnotator::new(started),
            of_reports: ReportAnnotator::new(program),
            output,
            decoded: VecDeque::new(),
            input,
            has_begun: false,
            announced: None,
            held_input: destination.map(|destination| (to_write, destination)),
            asked_for_input: Arc::default(),
            capture: None,
            _unused_pipe: unused_pipe,
            _network: None,
        })
    }

    /// Returns a sender for the console's input. No input reaches the machine before the machine asks for it. Each send
    /// waits until the input of the previous send has been accepted. If the input is a script, each send fails.
    pub fn input(&self) -> Input {
        self.input.clone()
    }

    /// Returns the [`Capture`] that writes the frames of the network to a file, if there is such a file. After the end
    /// of the machine, the caller finds out by [`Capture::finish`] whether all frames have been written.
    pub fn take_capture(&mut self) -> Option<Capture> {
        self.capture.take()
    }

    /// Returns a flag that is set when the machine asks for input.
    pub fn asked_for_input(&self) -> Arc<AtomicBool> {
        self.asked_for_input.clone()
    }

    /// Waits for the next event. If there is a `deadline`, waits until then at most. After the deadline, returns
    /// [`Event::TimedOut`] even if there is output. Otherwise a machine that prints all the time would never time out.
    pub fn next(&mut self, deadline: Option<Instant>) -> Event {
        loop {
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Event::TimedOut;
            }
            if let Some((stream, text)) = self.decoded.pop_front() {
                let mut output = Vec::with_capacity(text.len());
                match stream {
                    Stream::Output => self.of_output.annotate(&text, &mut output),
                    Stream::Error => self.of_reports.annotate(&text, &mut output),
                }
                return Event::Output(stream, output);
            }
            let received = match deadline {
                Some(deadline) => self.output.recv_timeout(deadline.saturating_duration_since(Instant::now())),
                None => self.output.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match received {
                Ok(bytes) => self.decode(&bytes),
                Err(RecvTimeoutError::Timeout) => return Event::TimedOut,
                // QEMU has ended. If the kernel has printed nothing, the output of the firmware may show why.
                Err(RecvTimeoutError::Disconnected) => match self.take_before_kernel() {
                    Some(text) => self.decoded.push_back((Stream::Error, text)),
                    None => return Event::Ended(self.ending()),
                },
            }
        }
    }

    /// Separates the streams of `bytes`. When the machine asks for input, starts to send the input. Stores the status
    /// that the machine announces before a report.
    fn decode(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if let Some(text) = &mut self.before_kernel {
                if byte == BEGIN {
                    self.before_kernel = None;
                    self.has_begun = true;
                } else {
                    text.push(byte);
                }
                continue;
            }
            match self.decoder.decode(byte) {
                Some(Received::Byte(stream, byte)) => match self.decoded.back_mut() {
                    Some((last, text)) if *last == stream => text.push(byte),
                    _ => self.decoded.push_back((stream, vec![byte])),
                },
                Some(Received::InputReady) => self.release_input(),
                Some(Received::Interruptible) => signals::pass_first_interrupt_to(self.input()),
                Some(Received::Ending(status)) => self.announced = Some(status),
                Some(Received::Begin) => self.has_begun = true,
                None => {}
            }
        }
    }

    /// Returns what the firmware and the bootloader have printed. Returns `None` if they have printed nothing, or if
    /// the kernel has printed something. Leaves out the escape characters, because OVMF's control sequences would clear
    /// the terminal.
    fn take_before_kernel(&mut self) -> Option<Vec<u8>> {
        let text = self.before_kernel.take()?.into_iter().filter(|&byte| byte != ESCAPE_CHARACTER).collect();
        Some(text).filter(|text: &Vec<u8>| !text.is_empty())
    }

    /// Whether the kernel has printed anything. It prints its first byte before it starts the scheduler.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Returns the status with which the machine is going to end, if it has begun to write its last report, such as
    /// that of a panic.
    pub fn announced(&self) -> Option<u8> {
        self.announced
    }

    /// Makes the first CPU of the machine report a hardware error (a machine check).
    ///
    /// # Errors
    ///
    /// If the write to QEMU's monitor fails.
    pub fn inject_machine_check(&mut self) -> io::Result<()> {
        self.process.inject_machine_check()
    }

    /// Asks the machine for a report if it is not writing one already, and passes the machine's output to `show`. Then
    /// ends the machine, if it has not ended.
    pub fn last_words(&mut self, mut show: impl FnMut(Stream, &[u8])) {
        if let Some(text) = self.take_before_kernel() {
            show(Stream::Error, &text);
        }
        // Normally, the machine reports after the first request. If no CPU has reacted to the first request, the kernel
        // prints a report and ends the machine when the second request comes.
        for _ in 0..2 {
            if self.announced.is_some() {
                self.show_answer(&mut show);
                break;
            }
            if self.process.inject_nmi().is_err() || self.show_answer(&mut show) {
                break;
            }
        }
        self.process.kill();
    }

    /// Shows the machine's output for the duration of [`LAST_WORDS`]. Returns whether the machine has printed anything
    /// or has ended.
    fn show_answer(&mut self, show: &mut impl FnMut(Stream, &[u8])) -> bool {
        let deadline = Instant::now() + LAST_WORDS;
        let mut said_something = false;
        loop {
            match self.next(Some(deadline)) {
                Event::Output(stream, bytes) => show(stream, &bytes),
                Event::Ended(_) => return true,
                Event::TimedOut => return said_something,
            }
            said_something = true;
        }
    }

    fn ending(&mut self) -> Ending {
        let exit = self.process.wait();
        if let Some(state) = self.process.stopped() {
            let what = format!("QEMU has stopped the machine: {state}; see its output above");
            return Ending::Failed(Error::Qemu(what));
        }
        match exit {
            Ok(exit) => Ending::of(exit, self.process.was_reset()),
            Err(error) => Ending::Failed(Error::Qemu(format!("cannot wait for QEMU: {error}"))),
        }
    }

    /// Notes that the machine has asked for input. If the input was held until now, starts to send it.
    fn release_input(&mut self) {
        self.asked_for_input.store(true, Ordering::Relaxed);
        if let Some((to_write, destination)) = self.held_input.take() {
            thread::spawn(move || forward_input(&to_write, destination));
        }
    }
}
