//! Tests of `Chan`, which can both send and receive, also in a select.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use gmp_sched::chan::{RecvTimeoutError, SendTimeoutError, TryRecvError, TrySendError};
use gmp_sched::select;
use gmp_sched::time::Instant;

use super::platform::{Chan, Context, go};

fn chan_does_what_its_sides_do() {
    let chan = Chan::new(2);
    assert_eq!((chan.len(), chan.capacity(), chan.is_empty(), chan.is_closed()), (0, 2, true, false));
    assert_eq!(chan.try_recv(), Err(TryRecvError::Empty));
    assert_eq!((chan.try_send(1), chan.try_send(2)), (Ok(()), Ok(())));
    assert_eq!(chan.try_send(3), Err(TrySendError::Full(3)));
    assert_eq!((chan.len(), chan.is_empty()), (2, false));
    let moment = Duration::from_micros(10);
    assert_eq!(chan.send_timeout(4, moment), Err(SendTimeoutError::Timeout(4)));
    assert_eq!(chan.send_until(5, Instant::from_nanos(0)), Err(SendTimeoutError::Timeout(5)));
    assert_eq!((chan.try_recv(), chan.recv_timeout(moment)), (Ok(1), Ok(2)));
    assert_eq!(chan.recv_timeout(moment), Err(RecvTimeoutError::Timeout));
    let (context, cancel) = Context::background().with_cancel();
    cancel.cancel();
    assert_eq!(chan.recv_until(&context), Err(RecvTimeoutError::Canceled));
    assert_eq!((chan.send_until(6, &context), chan.send_timeout(7, moment)), (Ok(()), Ok(())));
    assert!(chan.close() && chan.is_closed() && !chan.close());
    assert_eq!(chan.try_send(8), Err(TrySendError::Closed(8)));
    assert!(chan.iter().eq([6, 7]));
    assert_eq!(chan.try_recv(), Err(TryRecvError::Closed));
}
shared_test!(chan_does_what_its_sides_do);

/// The loop corresponds to `for v := range c` in Go.
fn loop_over_a_chan_ends_when_it_is_closed_and_drained() {
    let chan = Chan::new(1);
    let sending = chan.clone();
    let sender = go(move || {
        for n in 0..5 {
            sending.send(n).unwrap();
        }
        sending.close();
    });
    let mut received = Vec::new();
    for n in &chan {
        received.push(n);
    }
    assert_eq!(received, [0, 1, 2, 3, 4]);
    sender.join().unwrap();
}
shared_test!(loop_over_a_chan_ends_when_it_is_closed_and_drained);

fn loop_over_the_last_chan_ends_without_close() {
    let chan = Chan::new(0);
    let sending = chan.clone();
    let sender = go(move || (0..5).for_each(|n| sending.send(n).unwrap()));
    let mut sum = 0;
    for n in chan {
        sum += n;
    }
    assert_eq!(sum, 10);
    sender.join().unwrap();
}
shared_test!(loop_over_the_last_chan_ends_without_close);

fn select_sends_to_and_receives_from_a_chan() {
    let (requests, answers) = (Chan::new(0), Arc::new(Chan::new(0)));
    let (server_requests, server_answers) = (requests.clone(), answers.clone());
    let server = go(move || {
        let mut latest = None;
        loop {
            select! {
                recv(server_requests) -> request => match request {
                    Ok(number) => latest = Some(number * 2),
                    Err(_closed) => break,
                },
                // `server_answers` is a pointer to a `Chan`, which this case also accepts.
                send_from(server_answers, latest) => {}
            }
        }
        server_answers.close()
    });
    for n in 0..20 {
        select! { send(requests, n) -> sent => sent.unwrap() }
        let answer = select! { ordered; recv(&answers) -> answer => answer };
        assert_eq!(answer, Ok(n * 2));
    }
    requests.close();
    assert_eq!(server.join(), Ok(true));
    select! { recv(answers) -> answer => assert!(answer.is_err()) }
}
shared_test!(select_sends_to_and_receives_from_a_chan);
