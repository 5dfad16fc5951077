//! The operations on channels and selects that a random program performs.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};

use gmp_sched::select;
use gmp_sched::select::{Select, recv, send};

use super::super::platform::after;
use super::{Bomb, Fuzzer, verify};
use crate::value::Value;

impl Fuzzer<'_> {
    pub(super) fn send(&mut self) {
        let (value, limit, how) = (self.value(), self.limit(), self.random.u32(..3));
        let sender = self.channel().sender();
        match how {
            0 => drop(sender.try_send(value)),
            1 => drop(sender.send_timeout(value, limit)),
            _ => {
                let (context, _cancel) = self.shared.root.0.with_timeout(limit);
                drop(sender.send_until(value, &context));
            }
        }
    }

    pub(super) fn receive(&mut self) {
        let (limit, how) = (self.limit(), self.random.u32(..3));
        let receiver = self.channel().receiver();
        let received = match how {
            0 => receiver.try_recv().ok(),
            1 => receiver.recv_timeout(limit).ok(),
            _ => {
                let (context, _cancel) = self.shared.root.0.with_timeout(limit);
                receiver.recv_until(&context).ok()
            }
        };
        verify(received);
    }

    pub(super) fn select_macro(&mut self) {
        let (value, limit) = (self.value(), self.limit());
        let [one, two, three] = [(); 3].map(|()| self.channel().clone());
        let ends_by_panic = self.random.u32(..8) == 0;
        // An arm runs after the select has ended. A panic in the arm must not drop a value of the cases a second time.
        let in_an_arm = |received: Option<Value>| {
            verify(received);
            if ends_by_panic {
                panic_any(Bomb);
            }
        };
        match self.random.u32(..4) {
            0 | 1 => select! {
                recv(one.receiver()) -> received => in_an_arm(received.ok()),
                send(two.sender(), value) -> sent => drop(sent),
                recv(three.receiver()) -> received => in_an_arm(received.ok()),
                timeout(limit) => in_an_arm(None),
            },
            2 => select! {
                ordered;
                send(one.sender(), value) -> sent => in_an_arm(sent.err().map(|error| error.0)),
                recv(two.receiver()) -> received => in_an_arm(received.ok()),
                default => in_an_arm(None),
            },
            _ => {
                let mut kept = Some(value);
                select! {
                    send_from(one.sender(), kept) -> sent => drop(sent),
                    recv(two.receiver()) -> received => in_an_arm(received.ok()),
                    recv(after(limit)) => in_an_arm(None),
                }
                verify(kept);
            }
        }
    }

    /// Makes select cases, uses them again where possible, and drops them in every state.
    pub(super) fn select_cases(&mut self) {
        let (value, limit, rounds) = (self.value(), self.limit(), self.random.u32(1..3));
        let [one, two] = [(); 2].map(|()| self.channel().clone());
        let (mut receiving, mut sending) = (recv(one.receiver()), send(two.sender(), value));
        let _ = catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..rounds {
                // `sending.case()` panics if an earlier round has sent the value.
                let mut cases = [receiving.case(), sending.case()];
                let select = Select::new(&mut cases);
                let select = if self.random.bool() { select.ordered() } else { select };
                let _ = if self.random.bool() { select.poll() } else { select.wait_timeout(limit) };
            }
        }));
        if self.random.bool() {
            verify(receiving.into_result().and_then(Result::ok));
            verify(sending.into_inner());
        }
    }
}
