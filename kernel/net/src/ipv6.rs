//! The IPv6 addresses of a computer: one that is valid on its link, made from its MAC address, and one whose first half a
//! router names (RFC 4861, 6.3; RFC 4862, 5.5).
//!
//! smoltcp answers its neighbours' questions, and could ask for routers, too. But then its `Interface::poll_at` returns
//! nothing while there is no router, so that connections would not be served in time, and it panics if a router names a
//! prefix of more than 128 bits (version 0.14).

use core::net::Ipv6Addr;
use core::time::Duration;

use gmp_sched::platform::Platform;
use gmp_sched::time::Instant;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, Icmpv6Message, Icmpv6Packet, Icmpv6Repr,
    IpProtocol, Ipv6Cidr, Ipv6Packet, Ipv6Repr, NdiscNeighborFlags, NdiscOption, NdiscOptionType,
    NdiscPrefixInformation, NdiscRepr,
};

use crate::own::Own;
use crate::stack::Ipv6;
use crate::state::State;

#[cfg(test)]
pub(crate) mod tests;

/// How often the computer asks for a router, and how long it waits after each question (RFC 4861, 10).
const QUESTIONS: u8 = 3;
const INTERVAL: Duration = Duration::from_secs(4);
/// A router cannot shorten the rest of an address's lifetime below this, because anybody can send such messages (RFC
/// 4862, 5.5.3).
const LEAST_LIFETIME: Duration = Duration::from_secs(2 * 60 * 60);
/// The network of the addresses that are valid only on one link.
const LINK_LOCAL: Ipv6Cidr = Ipv6Cidr::new(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 64);
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// The MAC address of all routers (RFC 2464, 7).
const ALL_ROUTERS_MAC: EthernetAddress = EthernetAddress([0x33, 0x33, 0, 0, 0, 2]);
/// Messages with another hop limit come from another network (RFC 4861, 6.1).
const HOP_LIMIT: u8 = 255;

/// What a computer knows about its addresses.
pub(crate) struct Addresses {
    /// Whether the computer takes over what routers say.
    is_automatic: bool,
    /// How many more questions for a router will be sent; and when the next one is due, or when the wait after the last
    /// one is over.
    questions: u8,
    next: Instant,
    link_local: Option<Ipv6Cidr>,
    /// The address that is valid beyond the link, and until when.
    global: Option<(Ipv6Cidr, Instant)>,
    /// The router, and until when it passes packets on.
    router: Option<(Ipv6Addr, Instant)>,
}

/// What a router has said.
#[derive(Clone, Copy, Debug)]
struct Advertisement {
    router: Ipv6Addr,
    lifetime: Duration,
    prefix: Option<NdiscPrefixInformation>,
}

impl Addresses {
    pub(crate) fn new(configuration: Ipv6, mac: EthernetAddress, now: Instant) -> Self {
        let is_automatic = matches!(configuration, Ipv6::Automatic);
        let (questions, next) = if is_automatic { (QUESTIONS, now) } else { (0, Instant::NEVER) };
        let (global, router) = match configuration {
            Ipv6::Off | Ipv6::Automatic => (None, None),
            Ipv6::Fixed { address: (address, prefix), gateway } => {
                (Some(Ipv6Cidr::new(address, prefix.min(128))), gateway)
            }
        };
        let has_link = is_automatic || global.is_some_and(|it| !it.address().is_loopback());
        let link_local = Ipv6Cidr::from_link_prefix(&LINK_LOCAL, mac.into()).filter(|_| has_link);
        let (global, router) = (global.map(|it| (it, Instant::NEVER)), router.map(|it| (it, Instant::NEVER)));
        Self { is_automatic, questions, next, link_local, global, router }
    }

    /// Returns `own` with the IPv6 addresses and the router that are known.
    pub(crate) fn add_to(&self, own: Own) -> Own {
        let global = self.global.map(|(address, _)| address);
        let router = self.router.map(|(router, _)| router);
        Own { link_local: self.link_local, global, router, is_asking: self.is_asking(), ..own }
    }

    /// Returns when something is to be done.
    pub(crate) fn due(&self) -> Instant {
        let ends = [self.global.map(|(_, end)| end), self.router.map(|(_, end)| end)];
        ends.into_iter().flatten().fold(self.next, Instant::min)
    }

    /// Whether a router may still answer.
    fn is_asking(&self) -> bool {
        self.next != Instant::NEVER
    }

    /// Takes over what a router has said.
    fn take_over(&mut self, said: &Advertisement, mac: EthernetAddress, now: Instant) {
        let is_known = self.router.is_none_or(|(router, _)| router == said.router);
        if is_known {
            self.router = Some((said.router, now + said.lifetime)).filter(|_| said.lifetime != Duration::ZERO);
        }
        if let Some((address, lifetime)) = said.prefix.and_then(|prefix| address_with(prefix, mac)) {
            match self.global {
                Some((other, _)) if other != address => {}
                Some((_, end)) if lifetime < LEAST_LIFETIME && end <= now + LEAST_LIFETIME => {}
                Some(_) => self.global = Some((address, now + lifetime.max(LEAST_LIFETIME))),
                None if lifetime != Duration::ZERO => self.global = Some((address, now + lifetime)),
                None => {}
            }
        }
        self.next = Instant::NEVER;
    }

    /// Forgets what is not valid any more.
    fn expire(&mut self, now: Instant) {
        self.global = self.global.filter(|(_, end)| *end > now);
        self.router = self.router.filter(|(_, end)| *end > now);
    }
}

/// Returns the address that a computer makes of the first half that a router has named, and how long the address is
/// valid.
fn address_with(prefix: NdiscPrefixInformation, mac: EthernetAddress) -> Option<(Ipv6Cidr, Duration)> {
    let start = prefix.prefix;
    let is_half = prefix.is_valid_prefix_info() && prefix.prefix_len == 64;
    if !is_half || start.is_multicast() || start.is_unspecified() {
        return None;
    }
    let lifetime = Duration::from_micros(prefix.valid_lifetime.total_micros());
    Some((Ipv6Cidr::from_link_prefix(&Ipv6Cidr::new(start, 64), mac.into())?, lifetime))
}

/// Reads a message of a router.
fn advertisement(frame: &[u8]) -> Option<Advertisement> {
    let frame = EthernetFrame::new_checked(frame).ok().filter(|it| it.ethertype() == EthernetProtocol::Ipv6)?;
    let packet = Ipv6Packet::new_checked(frame.payload()).ok()?;
    let (from, to) = (packet.src_addr(), packet.dst_addr());
    let is_near = packet.hop_limit() == HOP_LIMIT && from.is_unicast_link_local();
    if packet.next_header() != IpProtocol::Icmpv6 || !is_near || !(to == ALL_NODES || to.is_unicast_link_local()) {
        return None;
    }
    let message = Icmpv6Packet::new_checked(packet.payload()).ok()?;
    match Icmpv6Repr::parse(&from, &to, &message, &ChecksumCapabilities::default()).ok()? {
        Icmpv6Repr::Ndisc(NdiscRepr::RouterAdvert { router_lifetime, prefix_info, .. }) => Some(Advertisement {
            router: from,
            lifetime: Duration::from_micros(router_lifetime.total_micros()),
            prefix: prefix_info,
        }),
        _ => None,
    }
}

/// Turns a question for a neighbour's MAC address into the answer that the sender itself is this neighbour.
fn make_answer(frame: &mut [u8]) -> Option<()> {
    let mut frame = EthernetFrame::new_checked(frame).ok().filter(|it| it.ethertype() == EthernetProtocol::Ipv6)?;
    let mut packet = Ipv6Packet::new_checked(frame.payload_mut()).ok()?;
    let from = packet.src_addr();
    packet.set_dst_addr(from);
    let mut message = Icmpv6Packet::new_checked(packet.payload_mut()).ok()?;
    if message.msg_type() != Icmpv6Message::NeighborSolicit || message.target_addr() != from {
        return None;
    }
    message.set_msg_type(Icmpv6Message::NeighborAdvert);
    message.set_neighbor_flags(NdiscNeighborFlags::SOLICITED | NdiscNeighborFlags::OVERRIDE);
    NdiscOption::new_checked(message.payload_mut()).ok()?.set_option_type(NdiscOptionType::TargetLinkLayerAddr);
    message.fill_checksum(&from, &from);
    Some(())
}

impl<Plat: Platform> State<Plat> {
    /// Answers a question for the MAC address of the loopback, which a frame of `bytes` bytes asks. smoltcp asks this
    /// question, but does not answer it.
    pub(crate) fn answer_own_question(&mut self, bytes: usize) {
        if self.own.global.is_some_and(|own| own.address().is_loopback()) {
            // If `make_answer` fails, the frame is unchanged, or of no use.
            let _ = make_answer(&mut self.received[..bytes]);
        }
    }

    fn mac(&self) -> EthernetAddress {
        EthernetAddress(self.wire.link.mac())
    }

    /// Does what is due for the addresses: asks for a router, or forgets what is not valid any more.
    pub(crate) fn settle_ipv6(&mut self, now: Instant) {
        if self.ipv6.next <= now && self.wire.link.can_send() {
            if self.ipv6.questions == 0 {
                self.ipv6.next = Instant::NEVER;
            } else {
                self.ask_for_router();
                (self.ipv6.questions, self.ipv6.next) = (self.ipv6.questions - 1, now + INTERVAL);
            }
        }
        self.ipv6.expire(now);
    }

    /// If the received frame of `bytes` bytes is a message of a router, takes over what it says.
    pub(crate) fn hear_router(&mut self, bytes: usize, now: Instant) {
        if self.ipv6.is_automatic
            && let Some(said) = advertisement(&self.received[..bytes])
        {
            self.ipv6.take_over(&said, self.mac(), now);
            self.note_own(now);
        }
    }

    /// Sends the question for a router.
    fn ask_for_router(&mut self) {
        let (mac, Some(from)) = (self.mac(), self.ipv6.link_local) else { return };
        let message = Icmpv6Repr::Ndisc(NdiscRepr::RouterSolicit { lladdr: Some(mac.into()) });
        let packet = Ipv6Repr {
            src_addr: from.address(),
            dst_addr: ALL_ROUTERS,
            next_header: IpProtocol::Icmpv6,
            payload_len: message.buffer_len(),
            hop_limit: HOP_LIMIT,
        };
        let mut buffer = [0; 128];
        let mut frame = EthernetFrame::new_unchecked(&mut buffer[..14 + packet.buffer_len() + message.buffer_len()]);
        let header = EthernetRepr { src_addr: mac, dst_addr: ALL_ROUTERS_MAC, ethertype: EthernetProtocol::Ipv6 };
        header.emit(&mut frame);
        let mut to = Ipv6Packet::new_unchecked(frame.payload_mut());
        packet.emit(&mut to);
        let mut to = Icmpv6Packet::new_unchecked(to.payload_mut());
        message.emit(&packet.src_addr, &packet.dst_addr, &mut to, &ChecksumCapabilities::default());
        self.wire.link.send(frame.into_inner());
    }
}
