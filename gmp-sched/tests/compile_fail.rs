//! Each file in the folder `compile_fail` is a program that must not compile. Most of the programs would violate an
//! assumption of the engine; the others contain mistakes in a `select!`. Next to each program is the compiler's message
//! for it. To update the messages: `TRYBUILD=overwrite cargo test -p gmp-sched --test compile_fail`.
#![cfg(not(gmp_loom))]

#[test]
fn misuse_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
