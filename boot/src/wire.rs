//! The network of a machine whose input is recorded. The machine has no network device: its frames are in the
//! [memory](crate::input_memory) for its input. A second QEMU, without a machine, has the network, and two threads pass
//! the frames between the memory and this QEMU.
//!
//! ```text
//!   machine ◀─▶ memory ◀─ threads ─▶ socket ◀─▶ QEMU without a machine ◀─▶ the host
//! ```
//!
//! With counted instructions, idle time passes at once. So that peers can answer in time, the machine waits at each
//! check of the memory until the clock of the host has advanced as far as its own.

use core::iter;
use core::time::Duration;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{ChildStdin, ChildStdout};
use std::thread;
use std::time::Instant;

use boot_protocol::input::Kind;
use boot_protocol::input_memory::{INTERVAL_NS, PACE_PORT};
use rustix::net::sockopt::set_socket_send_buffer_size;

use crate::Error;
use crate::console::say;
use crate::input_memory::{Feed, InputMemory, Sent};
use crate::net;
use crate::process::Process;
use crate::qemu::Configuration;

/// The connection between a machine that gets its input from memory and its network. The default is that of a machine
/// without a network.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    /// QEMU's arguments for the machine.
    pub(crate) arguments: Vec<OsString>,
    /// A file that the machine's QEMU must inherit.
    pub(crate) file: Option<File>,
    /// The QEMU that has the network. Dropping it ends the network.
    pub(crate) network: Option<Network>,
}

/// A QEMU process with its pipes, which stay open.
pub(crate) type Network = (Process, ChildStdout, ChildStdin);

/// Returns QEMU's arguments for the device with which a machine waits for the host. `backend` is the character device
/// of QEMU that receives the bytes that the machine writes.
pub(crate) fn pace_device(backend: &str) -> [OsString; 4] {
    let device = format!("isa-debugcon,chardev=pace,iobase={PACE_PORT:#x}");
    ["-chardev", &format!("{backend},id=pace"), "-device", &device].map(OsString::from)
}

/// Starts the network of a machine that gets its input from `memory`. If the memory contains a script, the frames are
/// part of the script, and no network is started. If there is a pipe `capture`, it is taken, and the network's QEMU
/// writes all frames to it.
///
/// # Errors
///
/// [`Error::Qemu`] if QEMU cannot be started, or this process has too many open files. [`Error::Usage`] if the path of the
/// file for the frames is not valid.
pub(crate) fn start(
    configuration: &Configuration,
    memory: &InputMemory,
    capture: &mut Option<File>,
) -> Result<Wire, Error> {
    let cannot = |error: io::Error| Error::Qemu(format!("cannot connect the machine to its network: {error}"));
    let Some(sent) = memory.sent().transpose().map_err(cannot)? else { return Ok(Wire::default()) };
    let Some(feed) = memory.feed() else {
        return Ok(Wire { arguments: pace_device("null").into(), ..Wire::default() });
    };
    let (ours, theirs) = UnixStream::pair().map_err(cannot)?;
    let network = net::description(&configuration.net, &configuration.ports).unwrap_or_default();
    let link = format!("socket,id=link,fd={}", theirs.as_raw_fd());
    let words = ["-machine", "none", "-nodefaults", "-display", "none", "-netdev", &network, "-netdev", &link];
    // A hub connects the network and the socket.
    let hub = ["-netdev", "hubport,id=first,hubid=0,netdev=net", "-netdev", "hubport,id=second,hubid=0,netdev=link"];
    let mut words: Vec<OsString> = words.into_iter().chain(hub).map(OsString::from).collect();
    words.extend(configuration.capture.as_deref().map(net::to_file).transpose()?.into_iter().flatten());
    let (messages, their_messages) = io::pipe().map_err(cannot)?;
    let files = iter::once(OwnedFd::from(theirs).into()).chain(capture.take()).collect();
    let qemu = Process::start_with(&words, files, their_messages.into())?;
    thread::spawn(move || show_errors(messages));
    let (paced, pace) = UnixStream::pair().map_err(cannot)?;
    // The machine sends a byte at each check, and waits while this buffer is full. The smallest buffer that the system
    // allows has room for a few bytes, so the machine is at most a few checks ahead of the host.
    set_socket_send_buffer_size(&pace, 1).map_err(|error| cannot(error.into()))?;
    let receiver = ours.try_clone().map_err(cannot)?;
    thread::spawn(move || report(receive(receiver, &feed)));
    thread::spawn(move || report(send(ours, sent, paced)));
    let arguments = pace_device(&format!("socket,fd={}", pace.as_raw_fd())).into();
    Ok(Wire { arguments, file: Some(OwnedFd::from(pace).into()), network: Some(qemu) })
}

/// Shows QEMU's messages, except for the warning that no machine uses the hub.
fn show_errors(messages: impl io::Read) {
    let lines = BufReader::new(messages).lines().map_while(Result::ok);
    lines.filter(|line| !line.ends_with("with no nics")).for_each(|line| say(&line));
}

/// Prints why the network has ended, unless the reason is that the machine has ended.
fn report(result: io::Result<()>) {
    if let Err(error) = result
        && !matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe)
    {
        say(&format!("the network has ended: {error}"));
    }
}

/// Passes frames from the network to the machine. On the socket, each frame comes after its length.
fn receive(mut network: UnixStream, feed: &Feed) -> io::Result<()> {
    loop {
        let mut length = [0; size_of::<u32>()];
        network.read_exact(&mut length)?;
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        network.read_exact(&mut frame)?;
        feed.append(Kind::Frame, &frame)?;
    }
}

/// Passes frames from the machine to the network, whenever the machine has checked the memory. Makes the machine wait
/// if its clock is ahead of the host's.
fn send(mut network: UnixStream, mut sent: Sent, mut paced: UnixStream) -> io::Result<()> {
    let mut next = Instant::now();
    loop {
        paced.read_exact(&mut [0])?;
        while let Some(frame) = sent.next()? {
            network.write_all(&(frame.len() as u32).to_be_bytes())?;
            network.write_all(&frame)?;
        }
        thread::sleep(next.saturating_duration_since(Instant::now()));
        next = next.max(Instant::now()) + Duration::from_nanos(INTERVAL_NS);
    }
}
