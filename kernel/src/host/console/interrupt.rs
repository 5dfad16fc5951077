//! Ctrl-C: the first one is for the program, and the second one ends the process.

use std::{io, process, thread};

use boot_protocol::input::INTERRUPT_GRACE;
use gmp_sched::device_signals::Signal;
use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::host::note::report;
use crate::host::platform::Kernel;

static INTERRUPT: Signal<Kernel> = Signal::new();

/// Waits for an interrupt. Only one G may call this, and only once. Blocks the calling G.
pub(crate) fn wait_for_interrupt() {
    if let Err(error) = listen() {
        // Then each Ctrl-C ends the process.
        report(format_args!("cannot handle signals: {error}"));
    }
    INTERRUPT.wait();
}

/// Starts the thread that gets the signals.
fn listen() -> io::Result<()> {
    let mut signals = Signals::new([SIGINT])?;
    thread::Builder::new().name("signals".into()).spawn(move || {
        let mut signals = signals.forever();
        signals.next();
        INTERRUPT.raise();
        thread::spawn(|| {
            thread::sleep(INTERRUPT_GRACE);
            end();
        });
        signals.next();
        end();
    })?;
    Ok(())
}

/// Ends the process, as the signal would without a handler.
fn end() {
    // This call returns only if it fails.
    let _ = emulate_default_handler(SIGINT);
    process::exit(128 + SIGINT);
}
