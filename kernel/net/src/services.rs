//! What a stack does for itself: its address, by DHCP.

use alloc::vec::Vec;
use core::net::Ipv4Addr;

use gmp_sched::platform::Platform;
use gmp_sched::time::Instant;
use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::dhcpv4;
use smoltcp::wire::{IpCidr, Ipv4Cidr};

use crate::state::{State, send};

pub(crate) struct Services {
    /// The client of DHCP. This set also gets the frames that are for no connection.
    pub(crate) sockets: SocketSet<'static>,
    dhcp: Option<SocketHandle>,
    /// When a service needs attention.
    pub(crate) due: Instant,
}

impl Services {
    pub(crate) fn new(uses_dhcp: bool, now: Instant) -> Self {
        let mut sockets = SocketSet::new(Vec::new());
        let dhcp = uses_dhcp.then(|| sockets.add(dhcpv4::Socket::new()));
        Self { sockets, dhcp, due: if uses_dhcp { now } else { Instant::NEVER } }
    }
}

impl<Plat: Platform> State<Plat> {
    /// Sets the address of the computer, and the computer that passes packets on.
    pub(crate) fn configure(&mut self, address: Option<Ipv4Cidr>, gateway: Option<Ipv4Addr>) {
        self.interface.update_ip_addrs(|addresses| {
            addresses.clear();
            // There is room for two addresses.
            let _ = address.map(|address| addresses.push(IpCidr::Ipv4(address)));
        });
        self.interface.routes_mut().remove_default_ipv4_route();
        if let Some(gateway) = gateway {
            // There is room for a route, because the last one was removed.
            let _ = self.interface.routes_mut().add_default_ipv4_route(gateway);
        }
        self.configured.readable.notify_all();
    }

    /// Lets the services send what they have to send, and takes over what DHCP has found out.
    pub(crate) fn settle_services(&mut self, now: Instant) {
        let services = &mut self.services;
        let mut due = send(&mut self.interface, &mut self.wire, &mut services.sockets, now);
        // When its lease is over or a server does not answer, the client of DHCP begins anew, without sending. What it
        // then sends is due at once.
        if due <= now && !self.wire.was_full {
            due = send(&mut self.interface, &mut self.wire, &mut services.sockets, now);
        }
        services.due = due;
        let Some(dhcp) = services.dhcp else { return };
        match services.sockets.get_mut::<dhcpv4::Socket<'_>>(dhcp).poll() {
            None => return,
            Some(dhcpv4::Event::Deconfigured) => self.configure(None, None),
            Some(dhcpv4::Event::Configured(config)) => {
                let (address, router) = (config.address, config.router);
                self.configure(Some(address), router);
            }
        }
        // Connections of an address that the computer does not have any more end.
        self.connections.indices().for_each(|index| self.settle(index, now));
    }
}
