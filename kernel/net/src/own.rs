//! The addresses of this computer, as all shards of a stack know them. One shard finds them, by DHCP and from routers,
//! and the others take them over. A call that needs an address waits in its shard until the shard knows the address.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use gmp_sched::platform::Platform;
use gmp_sched::time::Instant;
use smoltcp::wire::{IpCidr, Ipv4Cidr, Ipv6Cidr};

use crate::error::NetError;
use crate::key::Protocol;
use crate::stack::OWNER;
use crate::state::State;

/// The addresses of this computer, and the computers that pass packets on to other networks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Own {
    pub(crate) ipv4: Option<Ipv4Cidr>,
    pub(crate) gateway: Option<Ipv4Addr>,
    /// The address that is valid on the link, and the one that is valid beyond it.
    pub(crate) link_local: Option<Ipv6Cidr>,
    pub(crate) global: Option<Ipv6Cidr>,
    pub(crate) router: Option<Ipv6Addr>,
    /// Whether a router may still name an address.
    pub(crate) is_asking: bool,
}

impl<Plat: Platform> State<Plat> {
    /// Takes over what the services know, if this shard has services.
    pub(crate) fn note_own(&mut self, now: Instant) {
        let own = self.ipv6.add_to(Own { ipv4: self.services.ipv4, gateway: self.services.gateway, ..Own::default() });
        if self.shard == OWNER && own != self.own {
            self.adopt(own, now);
            self.has_news = self.flows.are_divided();
        }
    }

    /// Returns the addresses if they have changed since the last call.
    pub(crate) fn take_news(&mut self) -> Option<Own> {
        core::mem::take(&mut self.has_news).then_some(self.own)
    }

    /// Gives the addresses to smoltcp, and ends the connections of addresses that the computer does not have any more.
    pub(crate) fn adopt(&mut self, own: Own, now: Instant) {
        self.own = own;
        self.interface.update_ip_addrs(|addresses| {
            addresses.clear();
            let ipv6 = [own.global, own.link_local].into_iter().flatten().map(IpCidr::Ipv6);
            for address in own.ipv4.map(IpCidr::Ipv4).into_iter().chain(ipv6) {
                // There is room for three addresses.
                let _ = addresses.push(address);
            }
        });
        let routes = self.interface.routes_mut();
        routes.remove_default_ipv4_route();
        routes.remove_default_ipv6_route();
        // There is room for a route of each kind, because the last ones were removed.
        let _ = own.gateway.map(|gateway| routes.add_default_ipv4_route(gateway));
        let _ = own.router.map(|router| routes.add_default_ipv6_route(router));
        self.configured.readable.notify_all();
        self.end_lost_connections(now);
    }

    /// Ends the connections of addresses that the computer does not have any more.
    fn end_lost_connections(&mut self, now: Instant) {
        for index in self.connections.indices() {
            if let Some(connection) = self.connections.get(index)
                && connection.key.protocol == Protocol::Tcp
                && !self.interface.has_ip_addr(connection.key.local)
            {
                connection.socket().abort();
            }
            self.settle(index, now);
        }
    }

    /// Returns the address of this computer from which `peer` is reached, or an error if there will be none. Returns
    /// `None` if it is not known yet.
    pub(crate) fn source_if_known(&self, peer: IpAddr) -> Option<Result<IpAddr, NetError>> {
        match self.source(peer) {
            None if peer.is_ipv6() && !self.own.is_asking => Some(Err(NetError::AddrNotAvailable)),
            source => source.map(Ok),
        }
    }

    /// Returns the address of this computer from which `peer` is reached.
    pub(crate) fn source(&self, peer: IpAddr) -> Option<IpAddr> {
        let IpAddr::V6(to) = peer else { return self.own.ipv4.map(|own| own.address().into()) };
        if self.interface.has_ip_addr(peer) {
            return Some(peer);
        }
        let is_near = to.is_unicast_link_local() || to.is_multicast();
        let source = if is_near { self.own.link_local } else { None }.or(self.own.global);
        source.filter(|_| !to.is_loopback()).map(|source| source.address().into())
    }
}
