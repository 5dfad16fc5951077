//! Runs the loom models, which need the crate compiled with `--cfg gmp_loom`.
#![cfg(not(gmp_loom))]

use std::env;
use std::path::Path;
use std::process::Command;

#[test]
fn loom_models_hold() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    // A target directory of its own beside this test's, because other flags build other artifacts.
    let target = env::current_exe().unwrap().ancestors().nth(3).unwrap().join("loom");
    let status = Command::new(env!("CARGO"))
        .args(["test", "--release", "--lib"])
        // Optimised, because loom is slow otherwise, but with the engine's debug assertions.
        .args(["--config", "profile.release.package.gmp-sched.debug-assertions=true"])
        .args(["--config", "profile.release.package.gmp-sched.overflow-checks=true"])
        .arg("--manifest-path")
        .arg(manifest)
        .args(["models::", "--target-dir"])
        .arg(target)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", "--cfg gmp_loom -D warnings")
        .status()
        .expect("cargo runs");
    assert!(status.success(), "a model fails: see above");
}
