//! Programs that must not compile, because they would violate an assumption of the engine. Each file in `compile_fail` is
//! such a program, next to the compiler's message for it. To update the messages:
//! `TRYBUILD=overwrite cargo test -p gmp-sched --test compile_fail`.
#![cfg(not(gmp_loom))]

#[test]
fn misuse_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
