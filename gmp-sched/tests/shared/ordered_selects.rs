//! An ordered select chooses the first of the cases that are ready at one instant.

use gmp_sched::select;

use super::platform::{Chan, channel, go};

/// Both cases of a select receive from the same channel. If the select waits when a sender arrives, both cases become
/// ready at one instant.
fn ordered_select_takes_the_first_of_two_cases_on_one_channel() {
    const ROUNDS: usize = 200;
    let (sender, receiver) = channel(0);
    let sending = go(move || {
        for _ in 0..ROUNDS {
            sender.send(()).unwrap();
        }
    });
    for _ in 0..ROUNDS {
        select! {
            ordered;
            recv(receiver) => {}
            recv(receiver) => panic!("the second of two cases that were ready at once"),
        }
    }
    sending.join().unwrap();
}
shared_test!(ordered_select_takes_the_first_of_two_cases_on_one_channel);

fn ordered_select_takes_the_first_ready_case() {
    let (one, two, three) = (Chan::new(1), Chan::new(1), Chan::new(1));
    for _ in 0..50 {
        two.send(2).unwrap();
        three.send(3).unwrap();
        let value = select! {
            ordered;
            recv(one.receiver()) -> value => value,
            recv(two.receiver()) -> value => value,
            recv(three.receiver()) -> value => value,
        };
        assert_eq!((value, three.recv()), (Ok(2), Ok(3)));
    }
}
shared_test!(ordered_select_takes_the_first_ready_case);
