//! The tests by which `cargo lab` checks what a student has written. Each module of `tests/checks` is one check.
