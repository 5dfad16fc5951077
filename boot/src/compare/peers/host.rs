//! Programs that run on the host: the benchmarks of all peers, our servers, and the client that loads servers. Those of
//! other Rust libraries are in `boot/peers`.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cargo_metadata::Message;

use super::{Order, last_lines, timed_out};
use crate::Error;
use crate::build::cargo;
use crate::checkout;
use crate::compare::setting::Peer;
use crate::host_program;
use crate::program::target_directory;

/// Builds our benchmark for threads of the host.
pub(super) fn build_ours() -> Result<PathBuf, Error> {
    let words = ["bench", "--no-run", "--package", "gmp-sched", "--bench", "workloads"];
    let failed = |why: &str| Error::Build(format!("our benchmark does not build: {why}"));
    cargo_build("Cargo.toml", &words, None, "workloads").map_err(|why| failed(&why))
}

/// Builds one of our programs for threads of the host.
pub(in crate::compare) fn build_program(name: &str) -> Result<PathBuf, Error> {
    let words = ["build", "--release", "--package", "programs", "--bin", name];
    let failed = |why: &str| Error::Build(format!("our program {name} does not build: {why}"));
    cargo_build("Cargo.toml", &words, None, name).map_err(|why| failed(&why))
}

/// Builds the benchmarks of the other Rust libraries.
pub(in crate::compare) fn build_peers() -> Result<PathBuf, Error> {
    let target = target_directory()?.join("peers");
    let words = ["build", "--release", "--locked"];
    let advice = format!(
        "Once, cargo needs the network for their crates. `--without {}` leaves these peers out",
        Peer::names_on_threads()
    );
    cargo_build("boot/peers/Cargo.toml", &words, Some(&target), "peers")
        .map_err(|why| Error::Build(format!("boot/peers does not build: {why}. {advice}")))
}

/// Runs cargo for a manifest of this checkout, and returns the path of the executable of the target `name`.
fn cargo_build(manifest: &str, words: &[&str], target: Option<&Path>, name: &str) -> Result<PathBuf, String> {
    let mut command = Command::new(cargo());
    command.args(words).arg("--manifest-path").arg(checkout::root().join(manifest));
    command.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    if let Some(target) = target {
        command.arg("--target-dir").arg(target);
    }
    let ended = host_program::run(command, None).map_err(|error| format!("cannot run cargo: {error}"))?;
    if !ended.status.is_some_and(|status| status.success()) {
        return Err("see cargo's output above".to_owned());
    }
    let executable = |message: io::Result<Message>| match message {
        Ok(Message::CompilerArtifact(artifact)) if artifact.target.name == name => artifact.executable,
        _ => None,
    };
    let found = Message::parse_stream(ended.output.as_bytes()).find_map(executable);
    found.map(Into::into).ok_or_else(|| format!("cargo did not say where it put `{name}`"))
}

/// Runs a program once. See [`Program::run`](super::Program::run).
pub(super) fn run(program: &Path, words: &[String], order: &Order<'_>) -> Result<(String, Option<String>), Error> {
    let mut command = Command::new(program);
    command.args(words).arg(format!("procs={}", order.procs)).args(order.filters).stderr(Stdio::piped());
    let cannot = |error| Error::Build(format!("`{}` cannot be run: {error}", program.display()));
    let ended = host_program::run(command, Some(order.limit)).map_err(cannot)?;
    let failure = match ended.status {
        None => Some(timed_out(order.limit)),
        Some(status) if status.success() => None,
        Some(status) => Some(format!("it ended with {status}{}", last_lines(&ended.errors))),
    };
    Ok((ended.output, failure))
}
