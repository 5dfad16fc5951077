//! What several programs have in common: the file system of a disk, a progress bar, and the frame of a server.
//!
//! The crate `ext4-view` reads ext2, ext3 and ext4. It asks for bytes of the disk through its trait [`Ext4Read`]. The
//! type [`Source`] implements this trait, and is all that a file system needs to work on a disk of the kernel.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod http;
pub mod httpd;
pub mod progress;

use core::error::Error;
use core::fmt;

use ext4_view::{Ext4, Ext4Error, Ext4Read};
use kernel::disk::{Disk, DiskAccess, DiskError, disks};
use kernel::interrupted;
use kernel::net::{NetError, TcpListener, TcpStream};
use kernel::platform::try_go;
use kernel::prelude::*;

/// The offset in bytes of the magic number in an ext2, ext3 or ext4 file system.
const MAGIC_OFFSET: u64 = 1080;
/// The magic number of these file systems.
const MAGIC: [u8; 2] = [0x53, 0xef];

/// A disk, as the source of a file system. A G that waits for the disk parks, and its M runs other Gs.
#[derive(Clone, Copy, Debug)]
pub struct Source(DiskAccess<'static>);

impl Source {
    /// Makes a disk the source of a file system. Does not access the disk.
    #[must_use]
    pub fn new(disk: &'static Disk) -> Self {
        Self(disk.asynchronous())
    }
}

impl Ext4Read for Source {
    /// Fills `bytes` with the bytes from `start` on. Blocks the calling G.
    ///
    /// # Errors
    ///
    /// If the disk cannot be read or ends too early.
    fn read(&mut self, start: u64, bytes: &mut [u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        if self.0.read_at(start, bytes)? == bytes.len() { Ok(()) } else { Err(DiskError::OutOfRange.into()) }
    }
}

/// Why the file system of a disk cannot be used.
#[derive(Debug)]
pub enum MountError {
    /// The disk cannot be read.
    Disk(DiskError),
    /// The disk contains none of the supported file systems.
    NoFileSystem,
    /// The file system is damaged, or uses a feature that `ext4-view` does not support.
    FileSystem(Ext4Error),
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk(error) => error.fmt(f),
            Self::NoFileSystem => f.write_str("not a file system of type ext2, ext3 or ext4"),
            Self::FileSystem(error) => error.fmt(f),
        }
    }
}

impl Error for MountError {}

/// Opens the file system that is on a disk. The file system must begin at the first byte of the disk: partitions are
/// not supported. The result belongs to one G, because `ext4-view` is not thread-safe. So if several Gs read at the
/// same time, each of them must open the file system itself. Blocks the calling G.
///
/// # Errors
///
/// If the disk cannot be read, or contains no file system that can be used.
///
/// # Panics
///
/// If the caller is not a G.
#[track_caller]
pub fn mount(disk: &'static Disk) -> Result<Ext4, MountError> {
    let mut magic = [0; 2];
    match disk.asynchronous().read_at(MAGIC_OFFSET, &mut magic) {
        Ok(_) if magic == MAGIC => Ext4::load(Box::new(Source::new(disk))).map_err(MountError::FileSystem),
        Ok(_) | Err(DiskError::OutOfRange) => Err(MountError::NoFileSystem),
        Err(error) => Err(MountError::Disk(error)),
    }
}

/// Returns the only disk of the computer, or `None` if there is not exactly one.
#[must_use]
pub fn only_disk() -> Option<&'static Disk> {
    match disks() {
        [disk] => Some(disk),
        _ => None,
    }
}

/// How long a server waits before it tries again to accept a connection for which there was no room.
const PAUSE: Duration = Duration::from_millis(5);

/// The options of a server.
#[derive(Clone, Copy, Debug)]
pub struct ServerOptions {
    /// The port: `--port N`.
    pub port: u16,
    /// After how many connections the server ends: `--connections N`.
    pub connections: Option<usize>,
}

impl ServerOptions {
    /// Parses the arguments of the server `name`. If they are wrong, prints how to use it, and returns `None`.
    #[must_use]
    pub fn parse(name: &str, args: &[&str], default_port: u16) -> Option<Self> {
        let mut options = Self { port: default_port, connections: None };
        let are_right = args.chunks(2).all(|pair| match *pair {
            ["--port", number] => number.parse().map(|port| options.port = port).is_ok(),
            ["--connections", number] => number.parse().map(|number| options.connections = Some(number)).is_ok(),
            _ => false,
        });
        if !are_right {
            eprintln!("usage: {name} [--port N] [--connections N]");
        }
        are_right.then_some(options)
    }
}

/// Listens on a port, and calls `converse` for each connection, in a G of its own. After as many connections as
/// `options` say, or at the first Ctrl-C, accepts no more, waits until all connections have ended, and calls `at_end`. If
/// there is no memory for its G, a connection is closed. If the network has no room for it, it waits. `name` is the
/// program's name in its messages. Returns the status of the program.
///
/// # Panics
///
/// If the caller is not a G.
pub fn serve(
    name: &str,
    options: ServerOptions,
    converse: fn(&TcpStream) -> Result<(), NetError>,
    at_end: impl FnOnce(),
) -> i32 {
    match accept(name, options, converse) {
        Ok(()) => {
            at_end();
            0
        }
        Err(error) => {
            eprintln!("{name}: {error}");
            1
        }
    }
}

/// Accepts connections until there have been as many as wanted, or until an interrupt. Then waits until all of them have
/// ended.
fn accept(
    name: &str,
    ServerOptions { port, connections }: ServerOptions,
    converse: fn(&TcpStream) -> Result<(), NetError>,
) -> Result<(), NetError> {
    let listener = TcpListener::bind(("0.0.0.0", port))?;
    println!("{name}: port {port}");
    let served = Arc::new(WaitGroup::new());
    let interrupted = interrupted();
    let mut left = connections.unwrap_or(usize::MAX);
    while left != 0 {
        let stream = match listener.accept_until(interrupted) {
            Ok((stream, _)) => stream,
            Err(NetError::Limit(_)) => break,
            // The client waits until other connections have ended. (Go's server of HTTP does the same.)
            Err(NetError::OutOfResources) => match interrupted.sleep(PAUSE) {
                Ok(()) => continue,
                Err(_) => break,
            },
            Err(error) => return Err(error),
        };
        left -= 1;
        served.add(1);
        let ended = served.clone();
        let begun = try_go(move || {
            // An error of one connection does not concern the others.
            let _ = converse(&stream);
            drop(stream);
            ended.done();
        });
        match begun {
            Ok(goroutine) => goroutine.detach(),
            // There is no memory for one more G, and the connection has been closed.
            Err(_) => served.done(),
        }
    }
    served.wait();
    Ok(())
}
