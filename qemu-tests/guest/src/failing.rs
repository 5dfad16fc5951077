//! Guest tests for `tests/harness.rs`, which tests the harness. Most of them must fail, each in a different way.
//! `cargo test` does not list them.

use core::hint;

use kernel::prelude::*;

use crate::provoke;
use crate::several::{go_each, join_all};

guest_test!(returns_an_error, hidden);
fn returns_an_error() -> Result<(), &'static str> {
    println!("about to return an error");
    Err("it was meant to fail")
}

guest_test!(panics, hidden);
fn panics() {
    panic!("it was meant to panic");
}

guest_test!(panics_after_counted_instructions, smp = &[2], hidden, icount);
fn panics_after_counted_instructions() {
    join_all(go_each(1..20, move |number| sleep(Duration::from_micros(number * 37))));
    panic!("it was meant to panic at {} with {}", kernel::clock::now(), kernel::random());
}

guest_test!(divides_by_zero, hidden);
fn divides_by_zero() {
    provoke::divide_error();
}

guest_test!(resets_the_machine, hidden);
fn resets_the_machine() {
    provoke::triple_fault();
}

guest_test!(hangs, hidden, seconds = 2);
fn hangs() {
    println!("about to hang");
    loop {
        hint::spin_loop();
    }
}

guest_test!(ends_the_machine_with_status_0, hidden);
fn ends_the_machine_with_status_0() {
    kernel::exit::exit(0);
}

guest_test!(does_not_end_with_the_status_it_promises, hidden, status = 2);
fn does_not_end_with_the_status_it_promises() {}

guest_test!(does_not_print_the_text_it_promises, hidden, texts = &["promised", "never printed"]);
fn does_not_print_the_text_it_promises() {
    println!("promised");
}

guest_test!(passes, hidden, smp = &[1, 8]);
fn passes() {
    println!("nothing to complain of");
}

guest_test!(is_ignored, hidden, ignored);
fn is_ignored() {}
