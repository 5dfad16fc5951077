//! The concurrent prime sieve: a pipeline of Gs, each of which removes the multiples of one prime. This is the best
//! known example of Go's channels.
//!
//! ```sh
//! cargo run -p gmp-sched --example prime_sieve
//! ```

use gmp_sched::native::{self, Receiver, channel, go};

/// Returns a channel that yields the natural numbers from 2 on.
fn naturals() -> Receiver<u32> {
    let (sender, receiver) = channel(0);
    // The G ends when the receiver has been dropped, because the send then returns an error.
    go(move || (2..).try_for_each(|number| sender.send(number))).detach();
    receiver
}

/// Returns a channel that yields the numbers of `source` that are not multiples of `prime`.
fn without_multiples(source: Receiver<u32>, prime: u32) -> Receiver<u32> {
    let (sender, receiver) = channel(0);
    go(move || source.iter().filter(|number| number % prime != 0).try_for_each(|number| sender.send(number))).detach();
    receiver
}

/// Returns the first `count` primes. Spawns one G for each of them, which removes its multiples.
fn primes(count: usize) -> Vec<u32> {
    let mut numbers = naturals();
    let mut primes = Vec::with_capacity(count);
    for _ in 0..count {
        let prime = numbers.recv().expect("there is always another number");
        primes.push(prime);
        numbers = without_multiples(numbers, prime);
    }
    primes
}

fn main() {
    // SAFETY: no G uses a thread-local variable or holds a lock of `std` while it waits.
    let threads = unsafe { native::enter() };
    println!("{:?}", threads.run(2, || primes(25)));
}

#[test]
fn sieve_finds_the_first_primes() {
    // SAFETY: no G uses a thread-local variable.
    let threads = unsafe { native::enter() };
    assert_eq!(threads.run(2, || primes(10)), [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]);
}
