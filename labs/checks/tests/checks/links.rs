//! Lab 8: what the device, the other Gs, and those that wait when the device breaks can expect of the G that serves a link.
//! The device is part of the test.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use gmp_sched::cancel::ContextError;
use gmp_sched::sim::{self, Limit, Sim};
use kernel_net::{Configuration, Link, NetError};

use crate::guarded;
use crate::machine::{of_cpus, run};
use crate::poller::millis;

type Stack = kernel_net::Stack<Sim>;
type UdpSocket = kernel_net::UdpSocket<kernel_net::StackDatagrams<Sim>>;

const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// A frame of a protocol that is for experiments, so nobody answers it.
const FRAME: [u8; 60] = {
    let mut frame = [0; 60];
    // To the address of the device.
    (frame[0], frame[5]) = (2, 1);
    (frame[6], frame[11]) = (2, 2);
    (frame[12], frame[13]) = (0x88, 0xB5);
    frame
};

/// A frame with a datagram of one byte for the port 7. Nobody looks at its checksums.
const DATAGRAM: [u8; 60] = {
    let mut frame = FRAME;
    let headers =
        [[0x08, 0x00, 0x45, 0, 0, 29, 0, 0, 0, 0], [64, 17, 0, 0, 10, 0, 0, 2, 10, 0], [0, 1, 0, 9, 0, 7, 0, 9, 0, 0]];
    let mut at = 0;
    while at < 30 {
        frame[12 + at] = headers[at / 10][at % 10];
        at += 1;
    }
    frame
};

/// How many frames the G that serves the link takes at once, at most: `BATCH` in `kernel/net/src/shard.rs`.
const BATCH: usize = 32;

/// A network device. Unlike the device of a simulated network, it cannot say when its next frame comes. Like a real
/// device, it announces frames that have arrived, and it announces room for frames to send if there was none before. It
/// need not announce room that a call of `can_send` has already seen.
#[derive(Clone, Default)]
struct Device(Arc<Mutex<Inside>>);

#[derive(Default)]
struct Inside {
    /// How many frames have arrived, and how many of them the stack has taken.
    arrived: usize,
    taken: usize,
    is_full: bool,
    is_broken: bool,
    /// How long the driver computes the next time it looks for a frame.
    work: Duration,
    /// If this is set, a datagram for this stack arrives at the next `flush`.
    answered: Option<&'static Stack>,
    has_datagram: bool,
}

impl Device {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().expect("no panic")
    }

    fn left(&self) -> usize {
        let inside = self.inside();
        inside.arrived - inside.taken
    }
}

/// Computes, in short steps, so that the simulated CPUs take turns often.
fn compute(time: Duration) {
    (0..time.as_micros() / 5).for_each(|_| sim::work(Duration::from_micros(5)));
}

impl Link for Device {
    fn mac(&self) -> [u8; 6] {
        [2, 0, 0, 0, 0, 1]
    }

    fn is_up(&self) -> bool {
        true
    }

    fn is_broken(&self) -> bool {
        self.inside().is_broken
    }

    fn may_damage(&self) -> bool {
        false
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> Option<usize> {
        let work = core::mem::take(&mut self.inside().work);
        compute(work);
        let mut inside = self.inside();
        if inside.is_full || inside.taken == inside.arrived {
            return None;
        }
        inside.taken += 1;
        frame[..FRAME.len()].copy_from_slice(if inside.has_datagram { &DATAGRAM } else { &FRAME });
        Some(FRAME.len())
    }

    fn can_send(&mut self) -> bool {
        !self.inside().is_full
    }

    fn send(&mut self, _: &[u8]) {}

    fn flush(&mut self) {
        let Some(stack) = self.inside().answered.take() else { return };
        {
            let mut inside = self.inside();
            (inside.arrived, inside.has_datagram) = (inside.arrived + 1, true);
        }
        stack.announce();
        // Long enough that a G which waits for the lock of the stack is the next one to get it.
        compute(millis(5));
    }
}

/// Runs `test` with a device, and a stack over it, which a G serves and which has nothing to do yet.
fn with_device(cpus: usize, seed: u64, test: impl FnOnce(&Device, &'static Stack) + Send + 'static) {
    run(of_cpus(cpus, seed), move || {
        let device = Device::default();
        let configuration = Configuration { address: Some((ADDRESS, 24)), seed, ..Configuration::default() };
        let link = Box::leak(Box::new(device.clone()));
        let Ok(stack) = Stack::new(link, guarded::make, &configuration) else { panic!("no memory") };
        let stack: &'static Stack = Box::leak(Box::new(stack));
        sim::go(|| stack.serve(0)).detach();
        sim::sleep(millis(1));
        test(&device, stack);
    });
}

#[test]
fn one_interrupt_is_enough_for_all_frames() {
    for count in [1, BATCH, BATCH + 1, 10 * BATCH] {
        for seed in 0..5 {
            with_device(2, seed, move |device, stack| {
                device.inside().arrived = count;
                stack.announce();
                sim::sleep(millis(5));
                let left = device.left();
                assert!(
                    left == 0,
                    "{count} frames arrived, with one interrupt, and 5 ms later, {left} of them are still in the \
                     device (seed {seed})"
                );
            });
        }
    }
}

#[test]
fn others_get_their_turn_while_frames_come() {
    const FRAMES: usize = 10 * BATCH;
    for seed in 0..5 {
        with_device(1, seed, move |device, stack| {
            device.inside().arrived = FRAMES;
            stack.announce();
            let mut most = 0;
            while device.left() > 0 {
                let before = device.left();
                sim::yield_now();
                most = most.max(before - device.left());
            }
            // Before its first turn, the G that serves the link may have displaced this one.
            assert!(
                most <= 2 * BATCH,
                "of {FRAMES} frames, the G that serves the link took {most} in a row, while another G was ready on \
                 the only P (seed {seed})"
            );
        });
    }
}

#[test]
fn frames_are_taken_when_a_call_finds_room_first() {
    for seed in 0..5 {
        with_device(2, seed, move |device, stack| {
            {
                let mut inside = device.inside();
                (inside.arrived, inside.is_full) = (1, true);
            }
            // There is no room for the answer, so the frame stays in the device.
            stack.announce();
            sim::sleep(millis(1));
            // Now there is room, and the first to see it is a G that makes a call.
            device.inside().is_full = false;
            stack.address();
            sim::sleep(millis(1));
            let left = device.left();
            assert!(
                left == 0,
                "a frame waits until the link can send. A call of another G has seen that it can, and 1 ms later, the \
                 frame is still in the device (seed {seed})"
            );
        });
    }
}

/// A datagram arrives while a call, which has found none, still holds the lock of the stack. The G that serves the link waits
/// for this lock, and gets it as soon as the call unlocks it.
#[test]
fn what_arrives_after_a_look_ends_the_wait() {
    for seed in 0..5 {
        with_device(2, seed, move |device, stack| {
            let socket = UdpSocket::bind_on(stack, (ADDRESS, 7)).expect("the port is free");
            device.inside().answered = Some(stack);
            let result = socket.recv_from_until(&mut [0], Limit::after(millis(100))).map(|(count, _)| count);
            assert!(
                result == Ok(1),
                "a datagram comes after a call has looked for one, and before it waits: the call returned {result:?} \
                 (seed {seed})"
            );
        });
    }
}

/// One datagram wakes both Gs that wait for one. The G that is later finds nothing, although its limit is not over.
#[test]
fn who_was_woken_for_nothing_waits_on_until_its_limit() {
    for seed in 0..5 {
        with_device(2, seed, move |device, stack| {
            let socket = UdpSocket::bind_on(stack, (ADDRESS, 7)).expect("the port is free");
            let socket: &'static UdpSocket = Box::leak(Box::new(socket));
            let receive = move || socket.recv_from_until(&mut [0], Limit::after(millis(14))).map(|(count, _)| count);
            let receives = [sim::go(receive), sim::go(receive)];
            sim::sleep(millis(1));
            {
                let mut inside = device.inside();
                (inside.arrived, inside.has_datagram) = (1, true);
            }
            stack.announce();
            let mut results = receives.map(|g| g.join().expect("no panic"));
            results.sort_by_key(Result::is_err);
            let expected = [Ok(1), Err(NetError::Limit(ContextError::DeadlineExceeded))];
            assert!(
                results == expected,
                "two Gs wait with a limit for a datagram, and one comes: the calls returned {results:?} (seed {seed})"
            );
        });
    }
}

#[test]
fn device_that_breaks_ends_all_calls() {
    for seed in 0..5 {
        with_device(2, seed, move |device, stack| {
            let receive = |socket: &UdpSocket| socket.recv_from_until(&mut [0], Limit::after(millis(100))).map(drop);
            let sockets = [7, 8].map(|port| UdpSocket::bind_on(stack, (ADDRESS, port)).expect("the port is free"));
            let [waits, later] = sockets;
            let waits = sim::go(move || receive(&waits));
            sim::sleep(millis(1));
            device.inside().is_broken = true;
            stack.announce();
            let results = [("waits for", waits.join().expect("no panic")), ("begins after", receive(&later))];
            for (when, result) in results {
                assert!(
                    result == Err(NetError::Device),
                    "the device breaks, and a receive that {when} it returned {result:?} (seed {seed})"
                );
            }
        });
    }
}

/// A G may hold the lock of a stack for long, because it computes or has been preempted.
#[test]
fn calls_end_at_their_limits_while_another_g_has_the_lock() {
    let late = Err(NetError::Limit(ContextError::DeadlineExceeded));
    for seed in 0..5 {
        with_device(2, seed, move |device, stack| {
            let socket = UdpSocket::bind_on(stack, (ADDRESS, 7)).expect("the port is free");
            device.inside().work = millis(30);
            stack.announce();
            while !device.inside().work.is_zero() {
                sim::sleep(Duration::from_micros(10));
            }
            let begin = sim::elapsed();
            let result = socket.recv_from_until(&mut [0], Limit::after(millis(2))).map(drop);
            let took = sim::elapsed() - begin;
            assert!(
                result == late && took >= millis(2) && took < millis(6),
                "another G computes with the lock of the stack, and a receive with a limit of 2 ms returned {result:?} \
                 after {took:?} (seed {seed})"
            );
        });
    }
}
