//! The threads that pass on the output and the input of a machine.

use std::io::{self, Read as _, Write as _};
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{Receiver, SyncSender};

use boot_protocol::input;

use super::InputPiece;
use crate::console::say;
use crate::input_memory::Feed;

/// Where the input is written.
#[derive(Debug)]
pub(super) enum Destination {
    /// The pipe from which QEMU reads what the serial port receives.
    Pipe(ChildStdin),
    /// The memory from which the machine takes the input at instants of its own clock.
    Memory(Feed),
}

/// Passes the output of QEMU to the session, until one of them ends.
pub(super) fn forward_output(mut stdout: ChildStdout, sender: &SyncSender<Vec<u8>>) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match stdout.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Writes the input, until the session or QEMU has ended.
pub(super) fn forward_input(to_write: &Receiver<InputPiece>, mut destination: Destination) {
    for (kind, bytes) in to_write {
        let written = match &mut destination {
            Destination::Pipe(pipe) => {
                let mut encoded = Vec::new();
                input::encode(kind, &bytes, |part| encoded.extend_from_slice(part));
                pipe.write_all(&encoded)
            }
            Destination::Memory(feed) => feed.append(kind, &bytes).inspect_err(|error| say(&format!("input: {error}"))),
        };
        if written.is_err() {
            return;
        }
    }
}
