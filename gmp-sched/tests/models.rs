//! Runs the loom models, which need the crate compiled with `--cfg gmp_loom`. A run of a model has at most two
//! preemptions, or three with `GMP_TESTS=all`.
#![cfg(not(gmp_loom))]

mod extent;

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

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

/// Every explored run of a model leaks its scheduler, because Gs, Ms and Ps are never freed. So each model is a process
/// of its own, whose memory is freed at its end. In one process, all models together took 20 GB.
#[test]
fn loom_models_hold() {
    let program = build();
    let models = list(&program);
    assert!(models.len() > 100, "the program has only {} models", models.len());
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(model) = models.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if !holds(&program, model) {
                        failed.lock().unwrap().push(model);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "models that fail, with their output above: {failed:?}");
}

/// Builds the crate with its models. Returns the path of the test program.
fn build() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    // The models are compiled with other flags, so they have a target directory of their own. It is inside of the
    // target directory of this test.
    let target = env::current_exe().unwrap().ancestors().nth(3).unwrap().join("loom");
    let output = Command::new(env!("CARGO"))
        .args(["test", "--profile=models", "--lib", "--no-run", "--message-format=json-render-diagnostics"])
        // The engine is optimised a little, which saves more time in all models together than it costs.
        .args(["--config", "profile.models.package.gmp-sched.opt-level=1"])
        .args(["--config", "profile.models.package.gmp-sched.codegen-units=4"])
        .arg("--manifest-path")
        .arg(manifest)
        .arg("--target-dir")
        .arg(target)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", "--cfg gmp_loom -D warnings")
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "the models do not compile: see above");
    let messages = String::from_utf8(output.stdout).unwrap();
    // Only the test program has an executable. For other artifacts this field is `null`.
    let path = messages.split_once("\"executable\":\"").and_then(|(_, rest)| rest.split_once('"'));
    path.expect("cargo names the test program").0.into()
}

/// Returns the names of all models.
fn list(program: &Path) -> Vec<String> {
    let output = Command::new(program).args(["models::", "--list", "--format", "terse"]).output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().filter_map(|line| line.strip_suffix(": test")).map(String::from).collect()
}

/// Runs one model. Returns whether it holds. If not, prints what the model has printed.
fn holds(program: &Path, model: &str) -> bool {
    let mut command = Command::new(program);
    if !extent::is_all() {
        command.env("LOOM_MAX_PREEMPTIONS", "2");
    }
    let output = command.args([model, "--exact"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    // A process that runs no model at all succeeds, too.
    let holds = output.status.success() && text.contains("1 passed");
    if holds {
        println!("{model} holds");
    } else {
        println!("{model} fails: {}\n{text}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    holds
}
