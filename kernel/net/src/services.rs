//! What a stack does for itself: its address, by DHCP, and the addresses of names, by DNS.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use gmp_sched::platform::{OutOfResources, Platform};
use gmp_sched::time::Instant;
use smoltcp::iface::{SocketHandle, SocketSet, SocketStorage};
use smoltcp::socket::dns::{DnsQuery, GetQueryResultError, QueryHandle, StartQueryError};
use smoltcp::socket::{dhcpv4, dns};
use smoltcp::wire::{DHCP_MAX_DNS_SERVER_COUNT, DnsQueryType, IpAddress, Ipv4Cidr};

use crate::error::NetError;
use crate::memory::{collect, room};
use crate::packet::send;
use crate::sequence::Sent;
use crate::stack::Configuration;
use crate::state::State;

/// The largest number of names that are looked up at the same time.
const QUERIES: usize = 16;
/// The largest number of clients: one of DHCP, and one of DNS.
const SOCKETS: usize = 2;

pub(crate) struct Services {
    /// The clients of DHCP and DNS. This set also gets the frames that are for no connection.
    pub(crate) sockets: SocketSet<'static>,
    dhcp: Option<SocketHandle>,
    dns: SocketHandle,
    /// The IPv4 address, and the computer that passes packets on: given, or found by DHCP.
    pub(crate) ipv4: Option<Ipv4Cidr>,
    pub(crate) gateway: Option<Ipv4Addr>,
    /// The server for names, if the configuration names one. Servers that DHCP names are not used then.
    pub(crate) name_server: Option<IpAddr>,
    /// How many names are being looked up.
    queries: usize,
    /// When a service needs attention.
    pub(crate) due: Instant,
}

/// The memory of the services: room in the set, and for queries of names.
pub(crate) struct Memory {
    sockets: Vec<SocketStorage<'static>>,
    queries: Vec<Option<DnsQuery>>,
}

impl Memory {
    /// Allocates the memory, with room for queries if the shard has services.
    ///
    /// # Errors
    /// There is no memory.
    pub(crate) fn new(has_services: bool) -> Result<Self, OutOfResources> {
        let most = if has_services { QUERIES } else { 0 };
        let (mut sockets, mut queries) = (room(SOCKETS)?, room(most)?);
        sockets.resize_with(SOCKETS, || SocketStorage::EMPTY);
        queries.resize_with(most, || None);
        Ok(Self { sockets, queries })
    }
}

impl Services {
    /// Makes the services. Without an address in the configuration, they use DHCP. Without a configuration there are no
    /// services, only the set.
    pub(crate) fn new(memory: Memory, configuration: Option<&Configuration>, now: Instant) -> Self {
        let mut sockets = SocketSet::new(memory.sockets);
        let uses_dhcp = configuration.is_some_and(|it| it.address.is_none());
        let dhcp = uses_dhcp.then(|| sockets.add(dhcpv4::Socket::new()));
        let name_server = configuration.and_then(|it| it.dns);
        let servers = name_server.map(IpAddress::from);
        // The memory is leaked because the stack exists for ever. A vector that smoltcp owns would grow.
        let dns = sockets.add(dns::Socket::new(servers.as_slice(), memory.queries.leak()));
        let due = if uses_dhcp { now } else { Instant::NEVER };
        let ipv4 = configuration.and_then(|it| it.address);
        let ipv4 = ipv4.map(|(address, prefix)| Ipv4Cidr::new(address, prefix.min(32)));
        let gateway = configuration.and_then(|it| it.gateway).filter(|_| ipv4.is_some());
        Self { sockets, dhcp, dns, ipv4, gateway, name_server, queries: 0, due }
    }

    /// Takes over what DHCP has found out.
    fn hear_dhcp(&mut self) {
        let Some(dhcp) = self.dhcp else { return };
        match self.sockets.get_mut::<dhcpv4::Socket<'_>>(dhcp).poll() {
            None => {}
            Some(dhcpv4::Event::Deconfigured) => (self.ipv4, self.gateway) = (None, None),
            Some(dhcpv4::Event::Configured(config)) => {
                (self.ipv4, self.gateway) = (Some(config.address), config.router);
                if self.name_server.is_none() {
                    let mut servers = [IpAddress::Ipv4(Ipv4Addr::UNSPECIFIED); DHCP_MAX_DNS_SERVER_COUNT];
                    let count = config.dns_servers.len();
                    servers.iter_mut().zip(config.dns_servers).for_each(|(to, server)| *to = server.into());
                    self.sockets.get_mut::<dns::Socket<'_>>(self.dns).update_servers(&servers[..count]);
                }
            }
        }
    }
}

impl<Plat: Platform> State<Plat> {
    /// Lets the services send what they have to send, and takes over what they have found out.
    pub(crate) fn settle_services(&mut self, now: Instant) {
        self.settle_ipv6(now);
        let services = &mut self.services;
        let (interface, wire, by_none) = (&mut self.interface, &mut self.wire, &mut Sent::new());
        let mut due = send(interface, wire, &mut services.sockets, by_none, false, now);
        // When its lease is over or a server does not answer, the client of DHCP begins anew, without sending. What it
        // then sends is due at once.
        if due <= now && !wire.was_full {
            due = send(interface, wire, &mut services.sockets, by_none, false, now);
        }
        services.due = due.min(self.ipv6.due());
        if services.queries != 0 {
            self.configured.readable.notify_all();
        }
        services.hear_dhcp();
        self.note_own(now);
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
            Ok(addresses) => collect(addresses.iter().map(|&address| address.into())).map_err(Into::into),
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
