//! The command `cargo lab`: starts the labs of a course, checks them and grades them.
#![forbid(unsafe_code)]

mod class;
mod compile;
mod contest;
#[cfg(test)]
mod documented;
mod export;
mod filling;
mod git;
mod lab;
mod outside;
mod predict;
mod program;
mod progress;
mod report;
mod run;
mod selftest;
#[cfg(test)]
mod tests;
mod timeline;
mod tree;

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use labs::error;

use crate::class::Shard;
use crate::error::{Error, Result};
use crate::filling::Filling;
use crate::lab::Lab;
use crate::report::Grade;
use crate::run::{Outcome, check, check_copy, starter_compiles};
use crate::tree::Tree;

/// Starts, checks and grades the labs.
///
/// A lab is a hole in the scheduler: `start` empties the hole, you fill it, `check` says which properties hold.
#[derive(Debug, Parser)]
#[command(name = "cargo lab", bin_name = "cargo lab", version, max_term_width = 100)]
#[command(
    after_help = "Exit status: 0; 1 if a check fails; 64 for wrong use, for files that cannot be read or written, and if this computer fails"
)]
struct Cli {
    #[command(subcommand)]
    command: Order,
}

#[derive(Debug, Subcommand)]
enum Order {
    /// List the labs
    List,
    /// Make the branch `lab-N`, and put the starter into the holes
    Start {
        /// The number of the lab
        #[arg(value_name = "N")]
        lab: u32,
    },
    /// Say how far each lab is
    Status,
    /// Check what you have written: which properties hold, and with which points
    Check {
        /// The number of the lab
        #[arg(value_name = "N")]
        lab: u32,
    },
    /// Print a hint
    Hint {
        /// The number of the lab
        #[arg(value_name = "N")]
        lab: u32,
        /// Which hint: later ones say more
        #[arg(default_value_t = 1)]
        step: usize,
    },
    /// Predict what the scheduler does, then see it. Reads the predictions from the input, a line for each
    Predict {
        /// The number of the lab
        #[arg(value_name = "N")]
        lab: u32,
    },
    /// Put the starter back into the holes. What you have written is kept in a file, whose name is printed
    Reset {
        /// The number of the lab
        #[arg(value_name = "N")]
        lab: u32,
    },
    /// Write what you have written to `lab-N.rs`, the file to hand in
    Submit {
        /// The number of the lab
        #[arg(value_name = "N")]
        lab: u32,
        /// The file to write
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Grade a file that `submit` has written, in a copy of this workspace
    Grade {
        /// The number of the lab
        #[arg(value_name = "N")]
        lab: u32,
        /// The file; without one, what stands in this workspace
        file: Option<PathBuf>,
        /// Take the holes that FILE does not have from this workspace. A FILE.diff changes a part of one hole
        #[arg(long, requires = "file")]
        complete: bool,
        /// Write the grade as Gradescope's results.json
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// Write the grade as GitHub Classroom's reporter reads it
        #[arg(long, value_name = "FILE")]
        classroom: Option<PathBuf>,
    },
    /// Grade all submissions in a folder. What has been graded before is not graded again
    GradeAll {
        /// The number of the lab
        #[arg(value_name = "N")]
        lab: u32,
        /// The submissions: files STUDENT.rs, or folders STUDENT with a file lab-N.rs
        folder: PathBuf,
        /// Where the grades, the table and the page go [default: FOLDER/grades]
        #[arg(long, value_name = "FOLDER")]
        output: Option<PathBuf>,
        /// Only a part: 2/5 is the second of five. The parts may run on different computers
        #[arg(long, value_name = "I/N", default_value = "1/1")]
        shard: Shard,
        /// How many are graded at the same time
        #[arg(long, value_name = "COUNT", default_value = "1")]
        jobs: NonZero<usize>,
    },
    /// Make the repository with which a class works on a lab: no history, no solutions of this lab and of later ones
    Export {
        /// The number of the lab
        #[arg(value_name = "N")]
        lab: u32,
        /// The folder to make
        folder: PathBuf,
    },
    /// Grade the starter, the solution and typical wrong solutions, to test the grader
    Test {
        /// The number of the lab; without one, all labs
        #[arg(value_name = "N")]
        lab: Option<u32>,
        /// Of the wrong solutions, only the first two
        #[arg(long)]
        quick: bool,
    },
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(64) } else { ExitCode::SUCCESS };
        }
    };
    // The variable at run time names the checkout in which cargo runs. This program may have been compiled in another checkout,
    // if both share a target directory.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let root = Path::new(&package).parent().expect("the crate is in a workspace");
    match obey(&cli.command, root) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("lab: {error}");
            ExitCode::from(64)
        }
    }
}

/// Performs a command in the workspace at `root`. Returns whether all that it checks is right.
fn obey(order: &Order, root: &Path) -> Result<bool> {
    let labs = Lab::all(root)?;
    match order {
        Order::List => print!("{}", report::list(&labs)),
        Order::Start { lab } => start(find(&labs, *lab)?, root)?,
        Order::Status => print!("{}", report::status(&labs, root)?),
        Order::Check { lab } => {
            let (lab, tree) = (find(&labs, *lab)?, Tree::of(root));
            let outcome = judge(lab, &tree, check)?;
            warn(&labs, lab, root)?;
            // An error in the files of the holes is the student's. An error elsewhere may be that of the checkout.
            if let Outcome::DoesNotCompile(program, refusal) = &outcome
                && !refusal.files.iter().any(|file| lab.files().contains(&file.as_str()))
            {
                starter_compiles(lab, &Tree::copy_of(root)?, *program)?;
            }
            for (check, page) in timeline::draw(lab, &tree, &outcome)? {
                println!("The run in which {check} failed: open {}", page.display());
            }
            return Ok(Grade::new(lab, &outcome).failed().is_empty());
        }
        Order::Hint { lab, step } => hint(find(&labs, *lab)?, *step)?,
        Order::Predict { lab } => {
            return predict::ask(find(&labs, *lab)?, &Tree::of(root), &mut std::io::stdin().lock());
        }
        Order::Reset { lab } => reset(find(&labs, *lab)?, root)?,
        Order::Submit { lab, output } => {
            let lab = find(&labs, *lab)?;
            submit(lab, root, output.as_deref())?;
            warn(&labs, lab, root)?;
        }
        Order::Grade { lab, file, complete, json, classroom } => {
            let lab = find(&labs, *lab)?;
            let filling = match file {
                Some(file) if *complete => Filling::of_tree(root, &lab.holes)?.changed_by(file)?,
                Some(file) => Filling::read(file)?,
                None => Filling::of_tree(root, &lab.holes)?,
            };
            if let Err(reason) = filling.check(&lab.holes, &lab.allows) {
                return Err(Error::new(format!("this is not graded: {reason}")));
            }
            let tree = Tree::copy_of(root)?;
            filling.fill(tree.root(), &lab.holes)?;
            let outcome = judge(lab, &tree, check_copy)?;
            let grade = Grade::new(lab, &outcome);
            if let Some(path) = json {
                write(path, &grade.to_gradescope())?;
            }
            if let Some(path) = classroom {
                write(path, &grade.to_classroom())?;
            }
            return Ok(grade.failed().is_empty());
        }
        Order::GradeAll { lab, folder, output, shard, jobs } => {
            let output = output.clone().unwrap_or_else(|| folder.join("grades"));
            class::grade(find(&labs, *lab)?, root, folder, &output, *shard, *jobs)?;
        }
        Order::Export { lab, folder } => {
            export::export(&labs, find(&labs, *lab)?, root, folder)?;
            println!("{} is a repository for lab {lab}, for a class: it can be published", folder.display());
        }
        Order::Test { lab, quick } => {
            let only = lab.map(|number| find(&labs, number)).transpose()?;
            return selftest::run(&labs, only, root, *quick);
        }
    }
    Ok(true)
}

fn find(labs: &[Lab], number: u32) -> Result<&Lab> {
    labs.iter().find(|lab| lab.number == number).ok_or_else(|| {
        let numbers: Vec<String> = labs.iter().map(|lab| lab.number.to_string()).collect();
        Error::new(format!("there is no lab {number}; the labs are {}", numbers.join(", ")))
    })
}

fn start(lab: &Lab, root: &Path) -> Result<()> {
    git::begin(root, lab.number)?;
    lab.starter()?.fill(root, &lab.holes)?;
    git::commit(root, &lab.files(), &format!("Start lab {}", lab.number))?;
    print!("{}", report::started(lab));
    Ok(())
}

fn hint(lab: &Lab, step: usize) -> Result<()> {
    let text = step.checked_sub(1).and_then(|index| lab.hints.get(index));
    let text = text.ok_or_else(|| Error::new(format!("lab {} has the hints 1 to {}", lab.number, lab.hints.len())))?;
    println!("{}", text.text.trim());
    if step < lab.hints.len() {
        println!("\nThe next hint: cargo lab hint {} {}", lab.number, step + 1);
    }
    Ok(())
}

fn reset(lab: &Lab, root: &Path) -> Result<()> {
    let before = Filling::of_tree(root, &lab.holes)?;
    let starter = lab.starter()?;
    if before == starter {
        println!("Lab {} is as it was at the start.", lab.number);
        return Ok(());
    }
    let folder = root.join("target/lab");
    fs::create_dir_all(&folder).map_err(|error| Error::file("make", &folder, &error))?;
    let name = |copy: u32| folder.join(format!("lab-{}-before-reset-{copy}.rs", lab.number));
    let kept = (1..).map(name).find(|path| !path.exists()).expect("there is a free number");
    write(&kept, &before.to_file(&header(lab)))?;
    starter.fill(root, &lab.holes)?;
    println!("Lab {} is as it was at the start. What you had written is in {}", lab.number, kept.display());
    println!("Copy its parts between the markers to have it back.");
    Ok(())
}

fn submit(lab: &Lab, root: &Path, output: Option<&Path>) -> Result<()> {
    let filling = Filling::of_tree(root, &lab.holes)?;
    if let Err(reason) = filling.check(&lab.holes, &lab.allows) {
        return Err(Error::new(format!("a grader would refuse this: {reason}")));
    }
    let default = PathBuf::from(format!("lab-{}.rs", lab.number));
    let path = output.unwrap_or(&default);
    write(path, &filling.to_file(&header(lab)))?;
    println!("Hand in {}: it has what you wrote in lab {}.", path.display(), lab.number);
    let untouched = filling.same_as(&lab.starter()?);
    if !untouched.is_empty() {
        println!("These parts of it are as they were at the start: {}", untouched.join(", "));
    }
    Ok(())
}

/// Warns if a grader would refuse the code, if nothing has been written in the holes, and if there are changes outside of the
/// holes, which are not handed in.
fn warn(labs: &[Lab], lab: &Lab, root: &Path) -> Result<()> {
    let (number, filling) = (lab.number, Filling::of_tree(root, &lab.holes)?);
    if let Err(reason) = filling.check(&lab.holes, &lab.allows) {
        println!("\nA grader would refuse this: {reason}");
    }
    if filling == lab.starter()? || filling == lab.stand_in()? {
        if let Some(branch) = git::other_branch(root, number)? {
            println!("\nThis is not the branch of lab {number}: `git switch {branch}` goes to what you wrote there.");
        } else if !git::has_begun(root, number)? {
            println!("\nYou have written nothing in this lab yet: it begins with `cargo lab start {number}`.");
        }
    }
    if let Some(warning) = outside::warning(labs, lab, root)? {
        println!("\n{warning}");
    }
    Ok(())
}

/// Checks the code in the holes of `tree` by `check`, and prints the grade.
fn judge(lab: &Lab, tree: &Tree, check: fn(&Lab, &Tree) -> Result<Outcome>) -> Result<Outcome> {
    eprintln!("Building and running the checks of lab {} …", lab.number);
    let outcome = check(lab, tree)?;
    if let Outcome::DoesNotCompile(_, refusal) = &outcome {
        eprint!("{}", refusal.text);
    }
    print!("{}", Grade::new(lab, &outcome));
    Ok(outcome)
}

/// The first line of a file with what a student has written.
fn header(lab: &Lab) -> String {
    format!("Lab {}: {}.", lab.number, lab.title)
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| Error::file("write", path, &error))
}
