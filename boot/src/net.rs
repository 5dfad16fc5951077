//! The network of the machine.

use core::fmt;
use core::net::Ipv4Addr;
use std::ffi::OsString;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::{self, Path};

use crate::Error;
use crate::qemu::with_path;

/// A network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Net {
    /// No network.
    #[default]
    None,
    /// A network that QEMU itself emulates, so that `boot` needs no privileges. The machine reaches all that the host
    /// reaches, and the host itself at 10.0.2.2. The host reaches only the ports of the machine that are forwarded.
    User,
    /// The network of a TAP device of the host, with this name. The device must exist, and the user must have the right
    /// to use it.
    #[value(skip)]
    Tap(String),
}

/// What a port is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Connections.
    Tcp,
    /// Datagrams.
    Udp,
}

impl fmt::Display for Protocol {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

/// A port of the host's loopback address that leads to a port of the machine. `Display` writes this as a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Port {
    /// The protocol of both ports.
    pub protocol: Protocol,
    /// The port of the host.
    pub host: u16,
    /// The port of the machine.
    pub guest: u16,
}

impl fmt::Display for Port {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { protocol, host, guest } = self;
        let kind = if *protocol == Protocol::Udp { "UDP " } else { "" };
        write!(formatter, "{}:{host} leads to {kind}port {guest} of the machine", Ipv4Addr::LOCALHOST)
    }
}

/// Returns the value of QEMU's option `-netdev` for the network, whose id is `net`. Returns `None` if there is no
/// network.
pub(crate) fn description(net: &Net, ports: &[Port]) -> Option<String> {
    Some(match net {
        Net::None => return None,
        Net::User => {
            let lead = |port: &Port| {
                format!(",hostfwd={}:{}:{}-:{}", port.protocol, Ipv4Addr::LOCALHOST, port.host, port.guest)
            };
            format!("user,id=net{}", ports.iter().map(lead).collect::<String>())
        }
        // By default, QEMU would run scripts that set up the device, which needs the rights of root.
        Net::Tap(name) => format!("tap,id=net,ifname={name},script=no,downscript=no"),
    })
}

/// Returns QEMU's arguments for the network. If there is a file `capture`, QEMU writes all frames to it.
///
/// # Errors
///
/// [`Error::Usage`] if the path of the file is not valid.
pub(crate) fn arguments(net: &Net, ports: &[Port], capture: Option<&Path>) -> Result<Vec<OsString>, Error> {
    let Some(network) = description(net, ports) else { return Ok(Vec::new()) };
    // The machine never boots from the network, so the device needs no firmware.
    let device = "virtio-net-pci,netdev=net,disable-legacy=on,romfile=";
    let mut arguments: Vec<OsString> = ["-netdev", &network, "-device", device].map(OsString::from).into();
    arguments.extend(capture.map(to_file).transpose()?.into_iter().flatten());
    Ok(arguments)
}

/// Returns the arguments with which QEMU writes all frames of the network to a file.
///
/// # Errors
///
/// [`Error::Usage`] if the path of the file is not valid.
pub(crate) fn to_file(file: &Path) -> Result<[OsString; 2], Error> {
    let file = path::absolute(file).map_err(|error| Error::Usage(format!("--pcap: {error}")))?;
    Ok(["-object".into(), with_path("filter-dump,id=capture,netdev=net,file=".to_owned(), &file)])
}

/// Checks that the device of the host is there, and that the ports of the host are free.
pub(crate) fn check(net: &Net, ports: &[Port]) -> Result<(), Error> {
    if let Net::Tap(name) = net
        && !has_device(name)
    {
        return Err(Error::Usage(format!(
            "--tap: the host has no device `{name}`: make it with\n  \
             sudo ip tuntap add {name} mode tap user $USER && sudo ip link set {name} up"
        )));
    }
    // The sockets stay open until all ports have been checked, so that a port that is given twice is found to be in
    // use.
    let mut bound: Vec<OwnedFd> = Vec::new();
    for &Port { protocol, host, .. } in ports {
        let address = (Ipv4Addr::LOCALHOST, host);
        let socket = match protocol {
            Protocol::Tcp => TcpListener::bind(address).map(OwnedFd::from),
            Protocol::Udp => UdpSocket::bind(address).map(OwnedFd::from),
        };
        let cannot = |error| Error::Usage(format!("--port: the port {host} of the host cannot be used: {error}"));
        bound.push(socket.map_err(cannot)?);
    }
    Ok(())
}

/// Whether the host has a network device with this name, in the network namespace of this process.
fn has_device(name: &str) -> bool {
    // The line of a device begins with its name and a colon; see proc_net(5).
    let devices = fs::read_to_string("/proc/net/dev").unwrap_or_default();
    devices.lines().filter_map(|line| line.split_once(':')).any(|(device, _)| device.trim() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_that_is_given_twice_is_in_use() {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let host = free.local_addr().expect("an address").port();
        drop(free);
        let [tcp, udp] = [Protocol::Tcp, Protocol::Udp].map(|protocol| Port { protocol, host, guest: 7 });
        assert_eq!(check(&Net::User, &[tcp, udp]), Ok(()));
        for port in [tcp, udp] {
            let error = check(&Net::User, &[port, Port { guest: 8, ..port }]).expect_err("in use");
            assert!(matches!(&error, Error::Usage(text) if text.contains("Address already in use")), "{error}");
        }
    }
}
