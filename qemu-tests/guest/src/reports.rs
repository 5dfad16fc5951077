//! What the machine says when a program breaks it.

use kernel::prelude::*;

use crate::provoke;

guest_test!(
    panic_ends_the_program,
    smp = &[1, 8],
    status = 2,
    texts = &["panic", "this is the reason", "panic_ends_the_program (qemu-tests/guest/src/reports.rs:"],
);
fn panic_ends_the_program() {
    panic!("this is the reason");
}

guest_test!(
    divide_error_is_reported,
    smp = &[1, 8],
    status = 102,
    texts = &["exception on CPU", "divide error (#DE, vector 0)", "divide_error (qemu-tests/guest/src/provoke.rs:"],
);
fn divide_error_is_reported() {
    provoke::divide_error();
}

guest_test!(
    null_pointer_is_reported,
    status = 102,
    texts = &[
        "page fault (#PF, vector 14): read at 0x0000000000000008",
        "(a null pointer)",
        "null_read (qemu-tests/guest/src/provoke.rs:"
    ],
);
fn null_pointer_is_reported() {
    provoke::null_read();
}

guest_test!(
    write_to_code_is_reported,
    status = 102,
    texts = &[
        "page fault (#PF, vector 14): write at 0xffffffff8",
        "its page forbids that",
        "write_to_code (qemu-tests/guest/src/provoke.rs:"
    ],
);
fn write_to_code_is_reported() {
    provoke::write_to_code();
}

guest_test!(
    execution_of_data_is_reported,
    status = 102,
    texts = &[
        "page fault (#PF, vector 14): execution at 0xffffffff8",
        "its page forbids that",
        "execute_data (qemu-tests/guest/src/provoke.rs:"
    ],
);
fn execution_of_data_is_reported() {
    provoke::execute_data();
}

guest_test!(
    stack_overflow_is_reported,
    smp = &[1, 8],
    status = 102,
    texts = &["stack overflow: ", "deeper (qemu-tests/guest/src/provoke.rs:"],
);
fn stack_overflow_is_reported() {
    go(provoke::stack_overflow).join().expect("it does not come back");
}
