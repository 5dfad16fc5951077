//! Does a model or a simulated program notice when the engine is broken? Each mutant is one small change: a weakened
//! ordering, a dropped fence or re-check, two steps swapped. It is applied to a copy of the source, and what is named
//! as its catcher must then fail.
//!
//! `cargo test -p gmp-sched --test mutants -- --ignored --nocapture` runs all of them, which takes minutes;
//! `GMP_MUTANTS=idle.rs` those of one file, `GMP_MUTANTS="a fence"` those whose description contains the words.
#![cfg(not(gmp_loom))]

mod list;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::{env, fs, io, thread};

use list::{Catcher, MUTANTS, Mutant};

/// Copies of the source, each of which is built and run by itself.
const WORKERS: usize = 2;

fn crate_directory() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The source of the file that `mutant` changes, with the change.
fn mutate(mutant: &Mutant, of: &Path) -> Result<String, String> {
    let path = of.join("src").join(mutant.file);
    let source = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    match source.matches(mutant.from).count() {
        1 => Ok(source.replacen(mutant.from, mutant.to, 1)),
        count => Err(format!(
            "the mutant \"{mutant}\" no longer fits the source: what it replaces is there {count} times. Change the mutant \
             in gmp-sched/tests/mutants/list.rs along with the source:\n{}",
            mutant.from
        )),
    }
}

/// Needs no build of a mutant: seconds.
#[test]
#[ignore = "part of the check of the mutants"]
fn every_mutant_fits_the_source() {
    let misfits: Vec<_> = MUTANTS.iter().filter_map(|mutant| mutate(mutant, crate_directory()).err()).collect();
    assert!(misfits.is_empty(), "{}", misfits.join("\n\n"));
}

/// What became of a mutant.
enum Fate {
    Caught,
    Survived,
    /// It says nothing: it does not compile, or nothing is run by its catcher's name.
    Void(String),
}

#[test]
#[ignore = "builds the crate once for every mutant: minutes"]
fn every_mutant_is_caught() {
    let wanted = env::var("GMP_MUTANTS").unwrap_or_default();
    let mutants: Vec<&Mutant> = MUTANTS.iter().filter(|mutant| mutant.to_string().contains(&wanted)).collect();
    assert!(!mutants.is_empty(), "no mutant is called \"{wanted}\"");
    let (next, bad) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (mutants, next, bad) = (&mutants, next.clone(), bad.clone());
            scope.spawn(move || {
                let copy = Copy::new(worker).expect("the source can be copied");
                while let Some(mutant) = mutants.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Catcher::Nobody(argument) = mutant.catcher {
                        println!("equivalent: {mutant}: {argument}");
                        continue;
                    }
                    match copy.try_mutant(mutant) {
                        Fate::Caught => println!("caught:     {mutant}"),
                        Fate::Survived => {
                            println!("SURVIVED:   {mutant}");
                            bad.lock().unwrap().push(format!("{mutant} survived"));
                        }
                        Fate::Void(reason) => {
                            println!("VOID:       {mutant}");
                            bad.lock().unwrap().push(format!("{mutant} says nothing: {reason}"));
                        }
                    }
                }
            });
        }
    });
    let bad = bad.lock().unwrap();
    assert!(bad.is_empty(), "{} of {} mutants were not caught:\n{}", bad.len(), mutants.len(), bad.join("\n"));
}

/// A copy of the workspace for one worker.
struct Copy {
    workspace: PathBuf,
    target: PathBuf,
}

impl Copy {
    fn new(worker: usize) -> io::Result<Self> {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mutants-{worker}"));
        let workspace = place.join("source");
        if workspace.exists() {
            fs::remove_dir_all(&workspace)?;
        }
        copy_directory(crate_directory().parent().expect("the crate is in a workspace"), &workspace)?;
        Ok(Self { workspace, target: place.join("target") })
    }

    fn try_mutant(&self, mutant: &Mutant) -> Fate {
        let source = match mutate(mutant, &self.workspace.join("gmp-sched")) {
            Ok(source) => source,
            Err(misfit) => return Fate::Void(misfit),
        };
        let path = self.workspace.join("gmp-sched/src").join(mutant.file);
        let original = fs::read_to_string(&path).expect("the copy is complete");
        fs::write(&path, source).expect("the copy can be written");
        let fate = self.run(mutant.catcher);
        fs::write(&path, original).expect("the copy can be written");
        fate
    }

    fn run(&self, catcher: Catcher) -> Fate {
        let built = self.cargo(catcher).arg("--no-run").output().expect("cargo runs");
        if !built.status.success() {
            return Fate::Void(text(&built));
        }
        let (Catcher::Model(name) | Catcher::Simulation(name) | Catcher::Properties(name)) = catcher else {
            unreachable!("nobody is not run")
        };
        let ran = self.cargo(catcher).args(["--", name]).output().expect("cargo runs");
        let output = text(&ran);
        if output.contains("running 0 tests") {
            return Fate::Void(format!("there is no test {name}"));
        }
        if ran.status.success() { Fate::Survived } else { Fate::Caught }
    }

    /// Cargo on the copy, with what builds the catcher.
    fn cargo(&self, catcher: Catcher) -> Command {
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args(["test", "--release", "--package", "gmp-sched"])
            // Quickly built, and checking itself.
            .args(["--config", "profile.release.package.gmp-sched.debug-assertions=true"])
            .args(["--config", "profile.release.package.gmp-sched.opt-level=1"])
            .args(["--config", "profile.release.debug=false"])
            .current_dir(&self.workspace)
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env_remove("RUSTFLAGS")
            .env("RUST_BACKTRACE", "0");
        match catcher {
            Catcher::Model(_) => cargo.arg("--lib").env("RUSTFLAGS", "--cfg gmp_loom"),
            Catcher::Simulation(_) => cargo.args(["--test", "simulation"]),
            Catcher::Properties(_) => cargo.args(["--lib", "--test", "run_queue"]),
            Catcher::Nobody(_) => unreachable!("nobody is not run"),
        };
        // Other flags, other artifacts.
        let kind = if matches!(catcher, Catcher::Model(_)) { "loom" } else { "host" };
        cargo.arg("--target-dir").arg(self.target.join(kind));
        cargo
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Copies source: what is built and what git keeps is left behind.
fn copy_directory(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (name, path) = (entry.file_name(), entry.path());
        if name == "target" || name == ".git" {
            continue;
        }
        if entry.file_type()?.is_dir() {
            copy_directory(&path, &to.join(name))?;
        } else {
            fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}
