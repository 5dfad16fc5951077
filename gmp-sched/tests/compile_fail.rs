//! Programs that must not compile, because what they do would break a promise that the engine relies on. Each file of
//! `compile_fail` is one of them, next to what the compiler says about it. After a change of the messages:
//! `TRYBUILD=overwrite cargo test -p gmp-sched --test compile_fail`.
#![cfg(not(gmp_loom))]

#[test]
fn misuse_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
