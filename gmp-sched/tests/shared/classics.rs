//! Programs that everybody knows from Go.

use alloc::vec::Vec;

use super::platform::{MANY, Receiver, Sender, channel, go};

/// Doug McIlroy's prime sieve: a filter for each prime.
fn prime_sieve() {
    fn filter(numbers: Receiver<u32>, passed: Sender<u32>, prime: u32) {
        // Nobody listens any more once main has what it wants.
        for number in numbers {
            if number % prime != 0 && passed.send(number).is_err() {
                return;
            }
        }
    }
    let (sender, mut numbers) = channel(0);
    go(move || (2..).take_while(|&number| sender.send(number).is_ok()).count()).detach();
    let mut primes = Vec::new();
    for _ in 0..50 {
        let prime = numbers.recv().unwrap();
        primes.push(prime);
        let (sender, passed) = channel(0);
        go(move || filter(numbers, sender, prime)).detach();
        numbers = passed;
    }
    assert_eq!(primes[..10], [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]);
    assert_eq!(primes[49], 229);
}
shared_test!(prime_sieve);

/// A chain of Gs, each of which adds one to what it gets from its right and passes it to its left.
fn chain_of_many() {
    let (leftmost, result) = channel(0);
    let mut left: Sender<usize> = leftmost;
    for _ in 0..MANY {
        let (sender, right) = channel(0);
        go(move || left.send(1 + right.recv().unwrap()).unwrap()).detach();
        left = sender;
    }
    go(move || left.send(0).unwrap()).detach();
    assert_eq!(result.recv(), Ok(MANY));
}
shared_test!(chain_of_many);

/// Ten Gs for each, down to the leaves, which send their numbers up.
fn skynet() {
    fn node(parent: Sender<usize>, number: usize, size: usize) {
        if size == 1 {
            parent.send(number).unwrap();
            return;
        }
        let (sender, receiver) = channel(0);
        for child in 0..10 {
            let sender = sender.clone();
            go(move || node(sender, number + child * (size / 10), size / 10)).detach();
        }
        parent.send((0..10).map(|_| receiver.recv().unwrap()).sum()).unwrap();
    }
    let size = if MANY > 10_000 { 10_000 } else { 1000 };
    let (sender, receiver) = channel(0);
    go(move || node(sender, 0, size)).detach();
    assert_eq!(receiver.recv(), Ok(size * (size - 1) / 2));
}
shared_test!(skynet);
