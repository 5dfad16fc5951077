use alloc::vec::Vec;
use core::future::poll_fn;
use core::task::Poll;
use core::time::Duration;
use std::thread;

use crate::native::{THREADS, block_on, go};

/// A future that a foreign thread completes, late enough that every M has most likely become idle before.
async fn from_outside() {
    let mut is_first = true;
    poll_fn(move |context| {
        if !is_first {
            return Poll::Ready(());
        }
        is_first = false;
        let waker = context.waker().clone();
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            waker.wake();
        });
        Poll::Pending
    })
    .await;
}

#[test]
fn waker_called_by_foreign_thread_readies_the_g() {
    for processors in [1, 4] {
        THREADS.run(processors, || {
            let others: Vec<_> = (0..3).map(|_| go(|| block_on(from_outside()))).collect();
            block_on(from_outside());
            others.into_iter().for_each(|other| other.join().unwrap());
        });
    }
}
