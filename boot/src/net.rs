//! The network of the machine.

use core::net::Ipv4Addr;
use std::ffi::OsString;
use std::net::TcpListener;

use crate::Error;

/// A network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Net {
    /// No network.
    #[default]
    None,
    /// A network in QEMU itself, which needs no rights on the host. The machine can connect to where the host can, and
    /// to the host as 10.0.2.2. The host can connect only to the ports that are given.
    User,
}

/// A port of the host's loopback address that leads to a port of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Port {
    /// The port of the host.
    pub host: u16,
    /// The port of the machine.
    pub guest: u16,
}

/// Returns QEMU's arguments for a user network.
pub(crate) fn arguments(ports: &[Port]) -> [OsString; 4] {
    let mut network = "user,id=net,ipv6=off".to_owned();
    for Port { host, guest } in ports {
        network += &format!(",hostfwd=tcp:{}:{host}-:{guest}", Ipv4Addr::LOCALHOST);
    }
    // The machine never boots from the network, so the device needs no firmware.
    let device = "virtio-net-pci,netdev=net,disable-legacy=on,romfile=";
    ["-netdev".into(), network.into(), "-device".into(), device.into()]
}

/// Checks that the ports of the host are free.
pub(crate) fn check_ports(ports: &[Port]) -> Result<(), Error> {
    for &Port { host, .. } in ports {
        TcpListener::bind((Ipv4Addr::LOCALHOST, host))
            .map_err(|error| Error::Usage(format!("--port: the port {host} of the host cannot be used: {error}")))?;
    }
    Ok(())
}
