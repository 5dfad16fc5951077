//! The tests by which `cargo lab` checks what a student has written. The modules of `tests/checks` are for labs, or for parts
//! of a lab.
