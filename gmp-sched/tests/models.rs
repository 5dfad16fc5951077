//! Runs the loom models, which need the crate compiled with `--cfg gmp_loom`.
#![cfg(not(gmp_loom))]

use std::env;
use std::path::Path;
use std::process::Command;

/// For loom, `base::modelled_lock` repeats the algorithm of one version of the crate `spin`. The workspace must use the
/// same version of `spin`.
#[test]
fn modelled_version_of_spin_is_the_one_in_use() {
    let versions = include_str!("../../Cargo.lock");
    assert!(
        versions.contains("name = \"spin\"\nversion = \"0.12.3\"\n"),
        "compare `spin::mutex::SpinMutex` of the new version with `src/base/modelled_lock.rs`"
    );
}

#[test]
fn loom_models_hold() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    // The models are compiled with other flags, so they have a target directory of their own. It is inside of the
    // target directory of this test.
    let target = env::current_exe().unwrap().ancestors().nth(3).unwrap().join("loom");
    let status = Command::new(env!("CARGO"))
        .args(["test", "--release", "--lib"])
        // The build is optimised, because loom is slow otherwise, but it keeps the engine's debug assertions.
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
