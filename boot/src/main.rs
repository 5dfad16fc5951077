//! The command `boot`. `cargo run -- --help` describes it.
#![deny(unsafe_code)]

mod cli;

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use boot::console::{say, show, show_on};
use boot::convert::{self, TIMELINE};
use boot::image::Writer;
use boot::input_memory::{InputMemory, InputRecording};
use boot::input_script::Piece;
use boot::program::{Program, listing};
use boot::qemu::{Firmware, QEMU, shell_quoted};
use boot::recording::{self, Recording, address_of_reached};
use boot::session::Session;
use boot::shared_memory::SharedMemory;
use boot::signals::{DeferredEnd, share_signals};
use boot::top::{self, View};
use boot::{Error, build, checkout, compare, image, input_memory, memory, memory_disk, new, repeat, same_file};
use boot_protocol::observed_memory::Purpose;
use clap::Parser as _;

use crate::cli::{COMPARE, Cli, Order, Request};

fn main() -> ExitCode {
    let mut words = env::args_os().skip(1);
    let first = words.next().unwrap_or_default();
    let result = if first == TIMELINE {
        convert::run(words).and_then(|text| print(&text))
    } else if first == COMPARE {
        match compare::arguments::parse(words) {
            Ok(arguments) => compare::run(&arguments, |text| print(text).map(drop)),
            Err(error) => refuse(&error),
        }
    } else {
        match Cli::try_parse() {
            Ok(cli) => cli.request().and_then(|request| match request {
                Request::List => print(&listing()?),
                Request::New(path) => print(&new::create(&path)?),
                Request::Boot(order) => boot(&order),
            }),
            Err(error) => refuse(&error),
        }
    };
    match result {
        Ok(status) => status.into(),
        Err(error) => {
            if error != Error::Closed {
                say(&error.to_string());
            }
            error.status().into()
        }
    }
}

/// Prints the parser's error, and returns the status. The parser reports a request for help as an error, too.
fn refuse(error: &clap::Error) -> Result<u8, Error> {
    let printed = error.print();
    if error.use_stderr() {
        // The status is the same if the message cannot be printed.
        return Ok(Error::Usage(String::new()).status());
    }
    printed.map(|()| 0).map_err(Error::writing)
}

/// Builds the program of `order`. Then boots it, writes its disk image, or shows how it would be booted.
fn boot(order: &Order) -> Result<u8, Error> {
    let program = Program::find(&order.program, order.binary.as_deref())?;
    check(order)?;
    let script =
        order.input_script.as_deref().map(|file| input_memory::read_script(file, order.has_network())).transpose()?;
    let elf = build::build(&program, order.options)?;
    if let Some(image) = &order.image {
        write_image(order, &elf, image)?;
        return Ok(0);
    }
    memory::check(&elf, order.configuration.memory, order.configuration.firmware)?;
    if order.dry_run { print_command(order, &elf, script.as_deref()) } else { run(order, &elf, script.as_deref()) }
}

/// Checks the command line and the tools. This is done before the build, because the build takes longest. So the user
/// sees a mistake early.
fn check(order: &Order) -> Result<(), Error> {
    order.configuration.command_line(&order.arguments)?;
    order.trace.as_deref().map(recording::check_name).transpose()?;
    same_file::check(&order.written_files(), &order.other_files())?;
    if order.top {
        top::check_terminal()?;
    }
    if order.image.is_none() {
        memory_disk::check(&order.configuration)?;
        order.configuration.check_bus(order.memories())?;
        if order.input_script.is_none() {
            order.configuration.check_network()?;
        }
        order.configuration.qemu_arguments("".as_ref(), &order.arguments)?;
    }
    if order.configuration.firmware != Firmware::Pvh {
        image::check_tools()?;
    }
    Ok(())
}

fn write_image(order: &Order, elf: &Path, image: &Path) -> Result<(), Error> {
    let line = order.configuration.command_line(&order.arguments)?;
    Writer::get()?.write(order.configuration.firmware, elf, &line, image)
}

/// Writes the files that QEMU needs, and prints the command that boots the program.
fn print_command(order: &Order, elf: &Path, script: Option<&[Piece]>) -> Result<u8, Error> {
    let firmware = order.configuration.firmware;
    let mut file = elf.to_owned();
    if firmware != Firmware::Pvh {
        file.set_extension(format!("{}.img", firmware.name()));
        write_image(order, elf, &file)?;
    }
    let mut arguments = order.configuration.qemu_arguments(&file, &order.arguments)?;
    arguments.extend(memory_disk::write_beside(elf, &order.configuration)?);
    if let Some(script) = script {
        arguments.extend(input_memory::write_beside(elf, script, order.has_network())?);
    }
    let words = [QEMU.as_ref()].into_iter().chain(arguments.iter().map(AsRef::as_ref));
    print(&(shell_quoted(words) + "\n"))
}

/// Boots the program, shows the console until the machine ends, and writes what was recorded of the run.
fn run(order: &Order, elf: &Path, script: Option<&[Piece]>) -> Result<u8, Error> {
    share_signals().map_err(|error| Error::Qemu(format!("cannot handle signals: {error}")))?;
    let reached = order.until.map(|_| address_of_reached(elf)).transpose()?;
    let recording = Recording::start(order.trace.as_deref(), order.profile.as_deref(), order.until)?;
    let published = order.top.then(|| SharedMemory::new(Purpose::Numbers)).transpose()?;
    let shared: Vec<_> = recording.as_ref().map(Recording::memory).into_iter().chain(published.as_ref()).collect();
    // The live view occupies the terminal. So if there is a view, the program is not told that its standard error is a
    // terminal.
    let has_terminal = io::stderr().is_terminal() && !order.top;
    let configuration = order.configuration.clone().with_stderr(has_terminal);
    let has_network = order.has_network();
    let script = script.map(|script| InputMemory::of_script(script, has_network)).transpose()?;
    let start = |file| InputRecording::start(file, has_network);
    let recorded_input = order.record_input.as_deref().map(start).transpose()?;
    let input = recorded_input.as_ref().map(InputRecording::memory).or(script.as_ref());
    let input_was_lost = input.is_none();
    let mut session = Session::boot_with(&configuration, elf, &order.arguments, &shared, input)?;
    // If something is to be written at the end, from here on the first signal ends only the machine, so that `boot` can
    // write it.
    let capture = session.take_capture();
    let writes_at_end = recording.is_some() || recorded_input.is_some() || capture.is_some();
    let deferred_end = writes_at_end.then(DeferredEnd::begin);
    if let Some(port) = order.configuration.gdb_port {
        say(&format!("waiting for gdb: {}", gdb_command(elf, port, reached)));
    }
    if order.input_script.is_none() {
        order.configuration.ports.iter().for_each(|port| say(&port.to_string()));
    }
    let asked_for_input = session.asked_for_input();
    let shown = match &published {
        Some(memory) => show_on(&mut View::begin(memory, title(&order.program))?, session, order.limit),
        None => show(session, order.limit),
    };
    let shown = shown.map_err(|error| order.configuration.accelerator.explain(error));
    let mut missing = Vec::from_iter(capture.and_then(|capture| capture.finish().err()));
    missing.extend(recorded_input.and_then(|input| input.finish().err()));
    match recording.map(|recording| recording.finish(elf, &title(&order.program))) {
        Some(Ok(recorded)) => recorded.to_string().lines().for_each(say),
        Some(Err(error)) => missing.push(error),
        None => {}
    }
    if let Some(error) = missing.pop() {
        missing.iter().for_each(|earlier| say(&earlier.to_string()));
        // If the program has succeeded, `boot` ends with the status of this error, so that the user notices that the
        // frames, the input, the trace or the profiles are missing.
        if shown == Ok(0) {
            return Err(error);
        }
        say(&error.to_string());
    }
    let took_input = input_was_lost && asked_for_input.load(Ordering::Relaxed);
    if !deferred_end.as_ref().is_some_and(DeferredEnd::is_due) {
        say_how_to_repeat(order, &shown, took_input);
    }
    shown
}

/// If the run was deterministic and failed, prints the command that repeats it. `took_input` says whether the program
/// has asked for input that was not recorded.
fn say_how_to_repeat(order: &Order, shown: &Result<u8, Error>, took_input: bool) {
    if order.configuration.icount && !matches!(shown, Ok(0) | Err(Error::Closed | Error::Output(_))) {
        let words: Vec<OsString> = env::args_os().skip(1).collect();
        say(&repeat::advice(&words, order.record_input.as_deref(), took_input));
    }
}

/// Returns the command that connects gdb to the machine, and then runs the machine up to the address `until`, if there
/// is one.
fn gdb_command(elf: &Path, port: u16, until: Option<u64>) -> String {
    let target = format!("target remote 127.0.0.1:{port}");
    let script = checkout::root().join("scripts/gmp.py");
    let breakpoint = until.map(|address| format!("hbreak *{address:#x}"));
    let words = ["gdb".as_ref(), elf.as_os_str(), "-ex".as_ref(), target.as_ref(), "-x".as_ref(), script.as_os_str()];
    let run_until = breakpoint.iter().flat_map(|order| ["-ex", order, "-ex", "continue"]).map(OsStr::new);
    shell_quoted(words.into_iter().chain(run_until))
}

/// Returns the name of a program for the titles of the view and the profiles: the last part of the program's path.
fn title(program: &OsStr) -> String {
    Path::new(program).file_name().unwrap_or(program).display().to_string()
}

fn print(text: &str) -> Result<u8, Error> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map(|()| 0).map_err(Error::writing)
}
