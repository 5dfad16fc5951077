//! Runs the loom models, which need the crate compiled with `--cfg gmp_loom`.
#![cfg(not(gmp_loom))]

use std::env;
use std::path::Path;
use std::process::Command;

#[test]
fn loom_models_hold() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    // A directory of its own next to where this test was built: other flags, other artifacts.
    let target = env::current_exe().unwrap().ancestors().nth(3).unwrap().join("loom");
    let status = Command::new(env!("CARGO"))
        .args(["test", "--release", "--lib"])
        // loom is to be fast, the engine to check itself.
        .args(["--config", "profile.release.package.gmp-sched.debug-assertions=true"])
        .args(["--config", "profile.release.package.gmp-sched.overflow-checks=true"])
        .arg("--manifest-path")
        .arg(manifest)
        .args(["models::", "--target-dir"])
        .arg(target)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        // What the models do not use is not part of their build.
        .env("RUSTFLAGS", "--cfg gmp_loom -D warnings")
        .status()
        .expect("cargo runs");
    assert!(status.success(), "a model fails: see above");
}
