//! The command `boot`. `cargo run -- --help` describes it.
#![deny(unsafe_code)]

mod cli;

use std::io::{self, Write as _};
use std::process::ExitCode;

use boot::console::{say, show};
use boot::process::share_signals;
use boot::program::{Program, listing};
use boot::qemu::{QEMU, shell_quoted};
use boot::session::Session;
use boot::{Error, build, memory, new};
use clap::Parser as _;

use crate::cli::{Cli, Order, Request};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // The parser returns an error also if the user has requested help.
        Err(error) => {
            let printed = error.print();
            let wrong_use = error.use_stderr() || printed.is_err();
            return if wrong_use { Error::Usage(String::new()).status().into() } else { ExitCode::SUCCESS };
        }
    };
    let result = cli.request().and_then(|request| match request {
        Request::List => print(&listing()?),
        Request::New(path) => print(&new::create(&path)?),
        Request::Boot(order) => boot(&order),
    });
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

fn boot(order: &Order) -> Result<u8, Error> {
    let program = Program::find(&order.program, order.binary.as_deref())?;
    // The command line is checked before the build, because the build takes longest. So the user sees a mistake early.
    order.configuration.qemu_arguments("".as_ref(), &order.arguments)?;
    let elf = build::build(&program, order.options)?;
    memory::check(&elf, order.configuration.memory)?;
    let arguments = order.configuration.qemu_arguments(&elf, &order.arguments)?;
    if order.dry_run {
        let words = [QEMU.as_ref()].into_iter().chain(arguments.iter().map(AsRef::as_ref));
        return print(&(shell_quoted(words) + "\n"));
    }
    share_signals().map_err(|error| Error::Qemu(format!("cannot handle signals: {error}")))?;
    let session = Session::start(&elf, &arguments)?;
    if let Some(port) = order.configuration.gdb_port {
        let target = format!("target remote 127.0.0.1:{port}");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/gmp.py");
        let words = [elf.as_os_str(), "-ex".as_ref(), target.as_ref(), "-x".as_ref(), script.as_ref()];
        let command = ["gdb".as_ref()].into_iter().chain(words);
        say(&format!("waiting for gdb: {}", shell_quoted(command)));
    }
    show(session, order.limit).map_err(|error| order.configuration.accelerator.explain(error))
}

fn print(text: &str) -> Result<u8, Error> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map(|()| 0).map_err(Error::writing)
}
