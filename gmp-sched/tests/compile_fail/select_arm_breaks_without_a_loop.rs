//! `break` in an arm leaves the loop around the select. Without a loop the message is about the `break` in the arm.

use gmp_sched::native::Receiver;
use gmp_sched::select;

fn main() {
    let receiver = Receiver::<u8>::never();
    select! {
        recv(receiver) -> value => {
            if value.is_err() {
                break;
            }
        }
    }
}
