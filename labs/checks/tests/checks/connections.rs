//! Lab 8: a network poller, on simulated machines: Gs that wait for connections, over a network of two simulated hosts.

use std::mem::ManuallyDrop;
use std::net::Ipv4Addr;
use std::time::Duration;

use gmp_sched::cancel::ContextError;
use gmp_sched::platform::Pinned;
use gmp_sched::sim::{self, Limit, Report, Sim};
use kernel_net::sim::{Conditions, Network};
use kernel_net::{NetError, Shutdown};

use crate::guarded;
use crate::machine::{of_cpus, run};
use crate::poller::millis;

type Stack = kernel_net::Stack<Sim>;
type TcpListener = kernel_net::TcpListener<kernel_net::StackListener<Sim>>;
type TcpStream = kernel_net::TcpStream<kernel_net::StackStream<Sim>>;

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const PORT: u16 = 7;

fn connect(client: &'static Stack) -> TcpStream {
    TcpStream::connect_on(client, (SERVER, PORT), Limit::NONE).expect("the server listens")
}

fn listen(server: &'static Stack) -> TcpListener {
    TcpListener::bind_on(server, (SERVER, PORT)).expect("the port is free")
}

/// Accepts connections for ever. For each of them, a G sends every byte back.
fn serve_echo(server: &'static Stack) {
    let listener = listen(server);
    sim::go(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            sim::go(move || {
                let mut buffer = [0; 2_000];
                while let Ok(count @ 1..) = stream.read(&mut buffer) {
                    stream.write_all(&buffer[..count]).expect("the peer reads");
                }
            })
            .detach();
        }
    })
    .detach();
}

/// Sends `count` bytes to the server, and reads them.
fn echo(client: &'static Stack, count: usize) {
    let stream = connect(client);
    let byte = |at: usize| ((at * at) >> 3) as u8;
    let mut received = 0;
    let mut buffer = [0; 3_000];
    for begin in (0..count).step_by(8_000) {
        let end = count.min(begin + 8_000);
        stream.write_all(&(begin..end).map(byte).collect::<Vec<_>>()).expect("the peer reads");
        while received < end {
            let read = stream.read(&mut buffer).expect("the peer writes");
            assert!(read > 0, "the connection ended after {received} of {count} bytes");
            let is_right = buffer[..read].iter().zip(received..).all(|(value, at)| *value == byte(at));
            assert!(is_right, "the {read} bytes after the first {received} are wrong");
            received += read;
        }
    }
    stream.shutdown(Shutdown::Both).expect("the device works");
}

/// Runs `main` with a network of two hosts, the server and the client, on a machine of `cpus` CPUs.
fn with_pair(
    cpus: usize,
    seed: u64,
    main: impl FnOnce(&Network<Sim>, &'static Stack, &'static Stack) + Send + 'static,
) -> Report {
    run(of_cpus(cpus, seed), move || {
        // The network is not dropped: the drop would wait for the Gs that serve the hosts, and these end only if interrupts wake
        // them.
        let network = ManuallyDrop::new(Network::new(seed).with_rooms(guarded::make).with_interrupts());
        let [server, client] = [SERVER, CLIENT].map(|address| network.host(address).expect("memory"));
        main(&network, server, client);
    })
}

#[test]
fn bytes_return() {
    for cpus in [1, 2, 4] {
        for seed in 0..3 {
            let report = with_pair(cpus, seed, |_, server, client| {
                serve_echo(server);
                echo(client, 50_000);
            });
            let (elapsed, machines) = (report.elapsed, report.machines);
            assert!(elapsed < millis(500), "{cpus} CPUs, seed {seed}: an echo of 50,000 bytes took {elapsed:?}");
            assert!(machines <= cpus + 1, "{cpus} CPUs, seed {seed}: {machines} Ms for an echo");
        }
    }
}

/// `count` clients send 2,000 bytes each, and read them.
pub(crate) fn echoes(cpus: usize, seed: u64, count: usize) -> Report {
    with_pair(cpus, seed, move |_, server, client| {
        serve_echo(server);
        let gs: Vec<_> = (0..count).map(|_| sim::go(move || echo(client, 2_000))).collect();
        gs.into_iter().for_each(|g| g.join().expect("no panic"));
    })
}

#[test]
fn many_connections_are_served_at_once() {
    for (cpus, seed) in [(1, 0), (2, 1), (4, 2)] {
        let machines = echoes(cpus, seed, 20).machines;
        assert!(machines <= cpus + 1, "{cpus} CPUs, seed {seed}: {machines} Ms for 20 connections");
    }
}

/// The first bytes are acknowledged at once. Later, if nobody answers a byte, the peer acknowledges it only after a time-out,
/// for which the G that serves the peer's host has to wake. The next byte is not sent before this acknowledgement.
#[test]
fn bytes_arrive_that_nobody_answers() {
    for seed in 0..5 {
        with_pair(2, seed, move |_, server, client| {
            let listener = listen(server);
            let near = connect(client);
            let (far, _) = listener.accept().expect("the device works");
            for number in 0.. {
                assert!(number < 100, "no byte has waited, so this test finds nothing");
                let begin = sim::elapsed();
                near.write_all(b"x").expect("there is room");
                let read = far.read_until(&mut [0; 10], Limit::after(millis(500)));
                assert!(
                    read == Ok(1),
                    "byte {number} was written, and within 500 ms, a read returned {read:?} (seed {seed})"
                );
                if sim::elapsed() - begin > millis(5) {
                    break;
                }
            }
        });
    }
}

/// Several Gs accept connections of one listener, so a G that is woken may find that another G has taken the
/// connection.
#[test]
fn several_gs_accept() {
    for seed in 0..20 {
        with_pair(2, seed, |_, server, client| {
            let listener: &'static TcpListener = Box::leak(Box::new(listen(server)));
            let accept = move || {
                for _ in 0..5 {
                    let (stream, _) = listener.accept().expect("the device works");
                    stream.write_all(b"hello").expect("the peer reads");
                }
            };
            let accepts: Vec<_> = (0..3).map(|_| sim::go(accept)).collect();
            for _ in 0..15 {
                let mut buffer = [0; 8];
                let read = connect(client).read(&mut buffer).expect("the peer writes");
                assert!(&buffer[..read] == b"hello", "wrong bytes");
            }
            accepts.into_iter().for_each(|g| g.join().expect("no panic"));
        });
    }
}

/// A lost frame is sent again after a time-out, for which the G that serves the host has to wake. The frame is sent
/// after the network has been silent for a long time.
#[test]
fn lost_frames_are_sent_again() {
    for seed in 0..5 {
        with_pair(2, seed, move |network, server, client| {
            serve_echo(server);
            let stream = connect(client);
            let ways = [[client, server], [server, client]];
            for (number, [from, to]) in ways.into_iter().enumerate() {
                sim::sleep(millis(500));
                network.set_path(from, to, Conditions { loss: 1.0, ..Conditions::default() });
                stream.write_all(b"x").expect("there is room");
                sim::sleep(millis(1));
                network.set_path(from, to, Conditions::default());
                let read = stream.read_until(&mut [0; 10], Limit::after(Duration::from_secs(10)));
                let what = ["a byte", "the answer to a byte"][number];
                assert!(read == Ok(1), "{what} was lost, and after 10 s, a read returned {read:?} (seed {seed})");
            }
        });
    }
}

#[test]
fn calls_end_at_their_limits_and_lose_no_data() {
    for seed in 0..10 {
        with_pair(2, seed, move |_, server, client| {
            let late = NetError::Limit(ContextError::DeadlineExceeded);
            let timed = |what: &str, call: &mut dyn FnMut() -> Result<usize, NetError>| {
                let begin = sim::elapsed();
                let result = call();
                let took = sim::elapsed() - begin;
                assert!(result == Err(late), "{what} with a limit of 5 ms returned {result:?} (seed {seed})");
                let is_in_time = took >= millis(5) && took < millis(6);
                assert!(is_in_time, "{what} with a limit of 5 ms ended after {took:?} (seed {seed})");
            };
            let soon = || Limit::after(millis(5));
            let listener = listen(server);
            timed("an accept", &mut || listener.accept_until(soon()).map(|_| 0));
            let near = connect(client);
            let (far, _) = listener.accept().expect("the device works");
            let mut buffer = [0; 10];
            timed("a read", &mut || far.read_until(&mut buffer, soon()));
            let (context, cancel) = sim::Context::background().with_cancel();
            let waits = sim::go(move || (far.read_until(&mut [0; 10], &context), far));
            sim::sleep(millis(1));
            cancel.cancel();
            let (result, far) = waits.join().expect("no panic");
            assert!(
                result == Err(NetError::Limit(ContextError::Canceled)),
                "a read whose context is cancelled: {result:?}"
            );
            near.write_all(b"late").expect("the peer reads");
            let read = far.read(&mut buffer).expect("the peer writes");
            assert!(&buffer[..read] == b"late", "what came after a limit is lost");
        });
    }
}

/// A connection on which nothing happens needs no steps of the CPUs.
#[test]
fn server_sleeps_while_nothing_happens() {
    for seed in 0..5 {
        let steps = |idle| {
            let report = with_pair(2, seed, move |_, server, client| {
                let listener = listen(server);
                let near = connect(client);
                let (far, _) = listener.accept().expect("the device works");
                let waits = sim::go(move || far.read(&mut [0; 10]));
                sim::sleep(idle);
                near.write_all(b"x").expect("the peer reads");
                assert!(waits.join().expect("no panic") == Ok(1), "one byte was written");
            });
            report.steps
        };
        let (short, long) = (steps(millis(10)), steps(millis(500)));
        assert!(
            long < short + 100,
            "the CPUs took {long} steps with a pause of 500 ms, and {short} with one of 10 ms (seed {seed})"
        );
    }
}

/// Each read finds its byte, so there is no reason to wake the G that serves the link. The reader pauses after each
/// read, so that this G would run if it were woken.
#[test]
fn reads_of_what_is_there_wake_nobody() {
    const BYTES: u64 = 100;
    for seed in 0..5 {
        with_pair(2, seed, move |_, server, client| {
            let listener = listen(server);
            let near = connect(client);
            let (far, _) = listener.accept().expect("the device works");
            near.write_all(&[7; BYTES as usize]).expect("the peer reads");
            sim::sleep(millis(10));
            let parks = || Pinned::<Sim>::new().machine().scheduler().counts().parks;
            let before = parks();
            for _ in 0..BYTES {
                assert!(far.read(&mut [0]) == Ok(1), "{BYTES} bytes were written");
                sim::sleep(Duration::from_micros(50));
            }
            let others = (parks() - before).saturating_sub(BYTES);
            assert!(
                others < BYTES / 5,
                "{BYTES} reads found their byte, and {others} times another G woke and parked again (seed {seed})"
            );
        });
    }
}
