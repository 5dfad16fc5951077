//! Explores the orders in which the shards of a stack, the Gs in `accept` and the end of a listener use the connections of
//! the listener: all of them, within a bound, in small programs on the machine of [`gmp_sched::sim::exhaustive`].
//!
//! The whole code is explored: the locks and condition variables of the scheduler, the states of the shards, and the
//! handshakes of smoltcp. A loom model would have only a copy of the listeners, with another lock and another condition
//! variable, and would find no more: what the shards share of a listener is under one lock, so the effects of weaker
//! memory, which an exploration leaves out, cannot be seen.
//!
//! Each shard has a loopback. Before the exploration begins, all frames are passed on except one, which the exploration
//! passes on at any time: the frame that begins a connection, or the frame that ends its handshake.

extern crate std;

use alloc::sync::Arc;
use core::time::Duration;

use gmp_sched::JoinHandle;
use gmp_sched::sim::exhaustive::{self, Setting, begin};
use gmp_sched::sim::{self, Sim, go};
use gmp_sched::time;
use smoltcp::socket::tcp::State as TcpState;

use super::*;
use crate::TcpListener;
use crate::link::Link;
use crate::listeners::BACKLOG;
use crate::loopback::Loopback;
use crate::memory::Reserved;
use crate::shard::BATCH;
use crate::sim::make_room;

#[global_allocator]
static MEMORY: exhaustive::Memory = exhaustive::Memory;

type Shards = &'static Stack<Sim>;
type Listening = TcpListener<StackListener<Sim>>;

const PORT: u16 = 7;
const A_WHILE: Duration = Duration::from_micros(1);

/// A loopback that can break.
struct Breakable(Loopback, Arc<AtomicBool>);

impl Link for Breakable {
    fn mac(&self) -> [u8; 6] {
        self.0.mac()
    }

    fn is_up(&self) -> bool {
        self.0.is_up()
    }

    fn is_broken(&self) -> bool {
        self.1.load(Ordering::Relaxed)
    }

    fn may_damage(&self) -> bool {
        self.0.may_damage()
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> Option<usize> {
        self.0.receive(frame)
    }

    fn can_send(&mut self) -> bool {
        self.0.can_send()
    }

    fn send(&mut self, frame: &[u8]) {
        self.0.send(frame);
    }

    fn flush(&mut self) {}
}

/// Makes a stack with two shards, which no G serves, and a listener. Returns also the switch that breaks the links.
fn listen() -> (Shards, Listening, Arc<AtomicBool>) {
    let address = Some((Ipv4Addr::LOCALHOST, 8));
    let configuration = Configuration { address, shards: 2, seed: 7, ..Configuration::default() };
    let is_broken = Arc::new(AtomicBool::new(false));
    let link = || Breakable(Loopback::new(), is_broken.clone());
    let stack = Stack::on_links(link, make_room, &configuration).unwrap();
    let stack = &*Reserved::new().unwrap().fill(stack);
    (stack, bind(stack, PORT), is_broken)
}

fn bind(stack: Shards, port: u16) -> Listening {
    TcpListener::bind_on(stack, (Ipv4Addr::LOCALHOST, port)).unwrap()
}

/// Connects to the listener in a shard, and passes frames on until `is_enough` for the state of the end that connects.
/// Returns the index of that end.
fn connect(stack: Shards, shard: usize, is_enough: impl Fn(&mut State<Sim>, usize) -> bool) -> usize {
    let now = time::now::<Sim>();
    stack.shards[shard].with(|state| {
        let index = state.connect((Ipv4Addr::LOCALHOST, PORT).into(), now).unwrap();
        while !is_enough(state, index) {
            state.receive(1, now);
        }
        index
    })
}

/// The frame that is left ends the handshake: the listener has a half-open connection.
fn is_established(state: &mut State<Sim>, index: usize) -> bool {
    state.connection(index).unwrap().socket().state() == TcpState::Established
}

/// The frame that is left begins a connection.
fn has_begun(state: &mut State<Sim>, index: usize) -> bool {
    !state.connection(index).unwrap().sent.is_unresolved
}

/// Does what the G that serves a shard does when frames have arrived.
fn pass_on(stack: Shards, shard: usize) {
    stack.shards[shard].with(|state| while state.receive(BATCH, time::now::<Sim>()) {});
}

/// Returns a G that calls [`pass_on`] after a pause, which may end at any time.
fn serve(stack: Shards, shard: usize) -> JoinHandle<(), Sim> {
    go(move || {
        sim::work(A_WHILE);
        pass_on(stack, shard);
    })
}

fn waiting(stack: Shards, listener: &Listening) -> usize {
    stack.listeners.waiting(listener.0.index)
}

/// Explores a program, with at most one switch away from a CPU that could continue, apart from those while a G works. Checks
/// that there are at least `states` states.
fn explore(name: &str, states: usize, program: fn()) {
    let setting = Setting { processors: 2, switches: Some(1), ..Setting::default() };
    #[expect(unsafe_code, reason = "explores programs of this file")]
    // SAFETY: the programs only call the stack and the scheduler, and allocate memory that they keep to themselves. They
    // write no static or thread-local variable, do not print, unless they panic, and catch no panic.
    let census = unsafe { exhaustive::explore(setting, program) };
    let census = census.unwrap_or_else(|failure| panic!("{name}: {failure}"));
    std::println!("{name}: {census:?}");
    assert!(census.ends > 0 && census.states >= states, "{census:?}");
}

/// Both calls wait, or both come when the connections are there, or one waits and the other comes later. A wake-up that
/// is lost leaves one of them waiting.
#[test]
fn every_g_that_accepts_gets_a_connection_of_its_own() {
    explore("accepts", 50_000, || {
        let (stack, listener, _) = listen();
        let listener = Arc::new(listener);
        (0..2).for_each(|shard| _ = connect(stack, shard, is_established));
        let other = listener.clone();
        let accepting = go(move || {
            sim::work(A_WHILE);
            other.accept().unwrap()
        });
        let serving = [0, 1].map(|shard| serve(stack, shard));
        begin();
        let (_one, peer) = listener.accept().unwrap();
        let (_other, other_peer) = accepting.join().unwrap();
        assert_ne!(peer, other_peer);
        serving.into_iter().for_each(|serving| serving.join().unwrap());
        assert_eq!(waiting(stack, &listener), 0);
    });
}

/// The old listener has a half-open connection in one shard, and the other shard gets the beginning of another one. A new
/// listener has the same port, and the place of the old one.
#[test]
fn listener_that_ends_resets_its_connections_and_leaves_none_to_the_next_one() {
    explore("ends", 13_000, || {
        let (stack, listener, _) = listen();
        let (old, next) = (connect(stack, 0, is_established), connect(stack, 1, has_begun));
        let serving = [0, 1].map(|shard| serve(stack, shard));
        begin();
        drop(listener);
        let listener = bind(stack, PORT);
        serving.into_iter().for_each(|serving| serving.join().unwrap());
        // The resets, which the other ends get.
        (0..2).for_each(|shard| pass_on(stack, shard));
        let is_connected = |shard: usize, index| stack.shards[shard].with(|state| is_established(state, index));
        assert!(!is_connected(0, old));
        assert_eq!(waiting(stack, &listener), usize::from(is_connected(1, next)));
        drop(listener);
        // What is left are the ends that have connected.
        (0..2).for_each(|shard| pass_on(stack, shard));
        assert_eq!(stack.usage(), Usage { connections: 2, ..Usage::default() });
    });
}

/// The other listener gets the place of the old one, if that is free already.
#[test]
fn connection_of_a_listener_that_ends_does_not_come_to_one_that_is_made_meanwhile() {
    explore("place", 25_000, || {
        let (stack, listener, _) = listen();
        let end = connect(stack, 0, is_established);
        // This G is spawned before the one that serves, so that it is also stolen before that one.
        let binding = go(move || {
            sim::work(A_WHILE);
            bind(stack, PORT + 1)
        });
        let serving = serve(stack, 0);
        begin();
        drop(listener);
        let other = binding.join().unwrap();
        serving.join().unwrap();
        assert_eq!(waiting(stack, &other), 0);
        pass_on(stack, 0);
        assert!(!stack.shards[0].with(|state| is_established(state, end)));
    });
}

/// The link breaks before, after or while the handshake ends, and while the connection is between the listener and
/// `accept`.
#[test]
fn accept_returns_and_leaves_nothing_behind_when_the_link_breaks() {
    explore("breaks", 36_000, || {
        let (stack, listener, is_broken) = listen();
        connect(stack, 0, is_established);
        let serving = serve(stack, 0);
        let closing = go(move || {
            sim::work(A_WHILE);
            is_broken.store(true, Ordering::Relaxed);
            stack.close();
        });
        begin();
        let accepted = listener.accept().map(|(stream, _)| stream);
        assert!(matches!(accepted, Ok(_) | Err(NetError::Device)));
        [serving, closing].into_iter().for_each(|it| it.join().unwrap());
        assert_eq!(listener.accept().map(drop), Err(NetError::Device));
        drop((accepted, listener));
        assert_eq!(stack.usage(), Usage::default());
    });
}

/// The backlog has room for one connection, which is half-open. The beginning of another one is lost unless `accept` has
/// made room for it, and comes again after a second.
#[test]
fn backlog_is_never_exceeded_and_has_room_again_after_accept() {
    explore("backlog", 26_000, || {
        let (stack, listener, _) = listen();
        let place = listener.0.index;
        stack.listeners.fill(place, 1);
        let (first, next) = (connect(stack, 0, is_established), connect(stack, 1, has_begun));
        let begins = go(move || {
            sim::work(A_WHILE);
            pass_on(stack, 1);
            assert!(stack.listeners.waiting(place) <= BACKLOG);
        });
        let serving = [serve(stack, 0), begins];
        begin();
        let (_one, peer) = listener.accept().unwrap();
        serving.into_iter().for_each(|serving| serving.join().unwrap());
        assert!(stack.shards[0].with(|state| is_established(state, first)));
        stack.shards[1].with(|state| state.run_timers(BATCH, time::now::<Sim>() + Duration::from_secs(2)));
        pass_on(stack, 1);
        assert!(stack.shards[1].with(|state| is_established(state, next)));
        let (_other, other_peer) = listener.accept().unwrap();
        assert_ne!(peer, other_peer);
        assert_eq!(waiting(stack, &listener), BACKLOG - 1);
    });
}
