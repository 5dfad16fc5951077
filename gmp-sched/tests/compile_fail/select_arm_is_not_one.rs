//! The compiler reports mistakes in the arms of a `select!` in the terms of the macro, not in those of its expansion.

use core::time::Duration;

use gmp_sched::native::{Receiver, Sender};
use gmp_sched::select;

fn default_is_not_last(receiver: Receiver<u8>) {
    select! {
        default => {}
        recv(receiver) => {}
    }
}

fn timeout_is_not_last(receiver: Receiver<u8>) {
    select! {
        timeout(Duration::from_secs(1)) => (),
        recv(receiver) => {}
    }
}

fn until_is_not_last(receiver: Receiver<u8>) {
    select! {
        until(Duration::from_secs(1)) => {}
        recv(receiver) => {}
    }
}

fn pattern_does_not_match_a_closed_channel(receiver: Receiver<u8>) {
    select! {
        recv(receiver) -> Ok(value) => drop(value),
        default => {}
    }
}

fn pattern_matches_only_a_closed_channel(sender: Sender<u8>) {
    select! {
        send(sender, 1) -> Err(closed) => drop(closed),
    }
}

fn operation_is_unknown(receiver: Receiver<u8>) {
    select! {
        receive(receiver) -> value => drop(value),
    }
}

fn value_is_missing(sender: Sender<u8>) {
    select! {
        send(sender) => {}
    }
}

fn comma_is_missing(receiver: Receiver<u8>) {
    loop {
        select! {
            // Read as `break timeout(..)`.
            recv(receiver) => break
            timeout(Duration::from_secs(1)) => {}
        }
    }
}

fn platform_is_missing() {
    select! { timeout(Duration::from_secs(1)) => {} }
}

fn main() {
    select! {}
}
