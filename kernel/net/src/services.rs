//! What a stack does for itself: its address, by DHCP, and the addresses of names, by DNS.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use gmp_sched::platform::{OutOfResources, Platform};
use gmp_sched::time::Instant;
use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::dns::{GetQueryResultError, QueryHandle, StartQueryError};
use smoltcp::socket::{dhcpv4, dns};
use smoltcp::wire::{DnsQueryType, IpAddress, IpCidr, Ipv4Cidr};

use crate::error::NetError;
use crate::key::Protocol;
use crate::packet::send;
use crate::stack::Configuration;
use crate::state::State;

/// How many names are looked up at the same time at most.
const QUERIES: usize = 16;

pub(crate) struct Services {
    /// The clients of DHCP and DNS. This set also gets the frames that are for no connection.
    pub(crate) sockets: SocketSet<'static>,
    dhcp: Option<SocketHandle>,
    dns: SocketHandle,
    /// The server for names, if it was given, so that those of DHCP are not used.
    pub(crate) name_server: Option<IpAddr>,
    /// How many names are being looked up.
    queries: usize,
    /// When a service needs attention.
    pub(crate) due: Instant,
}

impl Services {
    /// Without an address, DHCP is used.
    pub(crate) fn new(configuration: &Configuration, now: Instant) -> Result<Self, OutOfResources> {
        let mut sockets = SocketSet::new(Vec::new());
        let uses_dhcp = configuration.address.is_none();
        let dhcp = uses_dhcp.then(|| sockets.add(dhcpv4::Socket::new()));
        // The stack exists for ever. A vector of its own would grow.
        let mut queries = Vec::new();
        queries.try_reserve_exact(QUERIES).map_err(|_| OutOfResources)?;
        queries.resize_with(QUERIES, || None);
        let servers = configuration.dns.map(IpAddress::from);
        let dns = sockets.add(dns::Socket::new(servers.as_slice(), queries.leak()));
        let due = if uses_dhcp { now } else { Instant::NEVER };
        Ok(Self { sockets, dhcp, dns, name_server: configuration.dns, queries: 0, due })
    }
}

impl<Plat: Platform> State<Plat> {
    /// Sets the IPv4 address of the computer, and the computer that passes packets on.
    pub(crate) fn configure(&mut self, address: Option<Ipv4Cidr>, gateway: Option<Ipv4Addr>) {
        self.interface.update_ip_addrs(|addresses| {
            addresses.retain(|address| matches!(address, IpCidr::Ipv6(_)));
            // There is room for three addresses.
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
        self.settle_ipv6(now);
        let services = &mut self.services;
        let mut due = send(&mut self.interface, &mut self.wire, &mut services.sockets, now);
        // When its lease is over or a server does not answer, the client of DHCP begins anew, without sending. What it
        // then sends is due at once.
        if due <= now && !self.wire.was_full {
            due = send(&mut self.interface, &mut self.wire, &mut services.sockets, now);
        }
        services.due = due.min(self.ipv6.due());
        if services.queries != 0 {
            self.configured.readable.notify_all();
        }
        let Some(dhcp) = services.dhcp else { return };
        match services.sockets.get_mut::<dhcpv4::Socket<'_>>(dhcp).poll() {
            None => return,
            Some(dhcpv4::Event::Deconfigured) => self.configure(None, None),
            Some(dhcpv4::Event::Configured(config)) => {
                let (address, router, servers) = (config.address, config.router, config.dns_servers);
                if services.name_server.is_none() {
                    let servers: Vec<_> = servers.into_iter().map(IpAddress::Ipv4).collect();
                    services.sockets.get_mut::<dns::Socket<'_>>(services.dns).update_servers(&servers);
                }
                self.configure(Some(address), router);
            }
        }
        self.end_lost_connections(now);
    }

    /// Ends the connections of addresses that the computer does not have any more.
    pub(crate) fn end_lost_connections(&mut self, now: Instant) {
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

    /// Begins to look up the addresses of a name.
    pub(crate) fn ask(&mut self, name: &str, kind: DnsQueryType, now: Instant) -> Result<QueryHandle, NetError> {
        let dns = self.services.sockets.get_mut::<dns::Socket<'_>>(self.services.dns);
        let query = dns.start_query(self.interface.context(), name, kind).map_err(|error| match error {
            StartQueryError::NoFreeSlot => NetError::OutOfResources,
            StartQueryError::InvalidName | StartQueryError::NameTooLong => NetError::InvalidInput,
        })?;
        self.services.queries += 1;
        self.settle_services(now);
        Ok(query)
    }

    /// Returns the addresses of a name, after which the query is over. Returns `None` if they are not known yet.
    pub(crate) fn answer(&mut self, query: QueryHandle) -> Option<Result<Vec<IpAddr>, NetError>> {
        let dns = self.services.sockets.get_mut::<dns::Socket<'_>>(self.services.dns);
        let result = match dns.get_query_result(query) {
            Err(GetQueryResultError::Pending) => return None,
            Err(GetQueryResultError::Failed) => Err(NetError::NameNotFound),
            Ok(addresses) if addresses.is_empty() => Err(NetError::NameNotFound),
            Ok(addresses) => Ok(addresses.into_iter().map(IpAddr::from).collect()),
        };
        self.services.queries -= 1;
        Some(result)
    }

    /// Ends a query that has no answer.
    pub(crate) fn cancel(&mut self, query: QueryHandle) {
        self.services.sockets.get_mut::<dns::Socket<'_>>(self.services.dns).cancel_query(query);
        self.services.queries -= 1;
    }
}
