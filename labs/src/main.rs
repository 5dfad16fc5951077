//! The command `cargo lab`: starts the labs of a course, checks them and grades them.
#![forbid(unsafe_code)]

mod class;
mod filling;
mod git;
mod lab;
mod predict;
mod report;
mod run;
mod selftest;
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
use crate::run::{Outcome, check};
use crate::tree::Tree;

/// Starts, checks and grades the labs.
///
/// A lab is a hole in the scheduler: `start` empties the hole, you fill it, `check` says which properties hold.
#[derive(Debug, Parser)]
#[command(name = "cargo lab", bin_name = "cargo lab", version, max_term_width = 100)]
#[command(
    after_help = "Exit status: 0; 1 if a check fails; 64 for wrong use and for files that cannot be read or written"
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
        /// Take the holes that FILE does not have from this workspace
        #[arg(long, requires = "file")]
        complete: bool,
        /// Write the grade as Gradescope's results.json
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in a workspace");
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
            let outcome = judge(lab, &tree)?;
            for (check, page) in timeline::draw(lab, &tree, &outcome)? {
                println!("The run in which {check} failed: open {}", page.display());
            }
            return Ok(Grade::new(lab, &outcome).points() == lab.points());
        }
        Order::Hint { lab, step } => hint(find(&labs, *lab)?, *step)?,
        Order::Predict { lab } => {
            return predict::ask(find(&labs, *lab)?, &Tree::of(root), &mut std::io::stdin().lock());
        }
        Order::Reset { lab } => reset(find(&labs, *lab)?, root)?,
        Order::Submit { lab, output } => submit(find(&labs, *lab)?, root, output.as_deref())?,
        Order::Grade { lab, file, complete, json } => {
            let lab = find(&labs, *lab)?;
            let filling = match file {
                Some(file) if *complete => Filling::of_tree(root, &lab.holes)?.with(&Filling::read(file)?),
                Some(file) => Filling::read(file)?,
                None => Filling::of_tree(root, &lab.holes)?,
            };
            if let Err(reason) = filling.check(&lab.holes, &lab.allows) {
                return Err(Error::new(format!("this is not graded: {reason}")));
            }
            let tree = Tree::copy_of(root)?;
            filling.fill(tree.root(), &lab.holes)?;
            let outcome = judge(lab, &tree)?;
            let grade = Grade::new(lab, &outcome);
            if let Some(path) = json {
                write(path, &grade.to_gradescope())?;
            }
            return Ok(grade.points() == lab.points());
        }
        Order::GradeAll { lab, folder, output, shard, jobs } => {
            let output = output.clone().unwrap_or_else(|| folder.join("grades"));
            class::grade(find(&labs, *lab)?, root, folder, &output, *shard, *jobs)?;
        }
        Order::Test { lab, quick } => {
            let labs: Vec<&Lab> = match lab {
                Some(number) => vec![find(&labs, *number)?],
                None => labs.iter().collect(),
            };
            return selftest::run(&labs, root, *quick);
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
    git::begin(root, lab.number, &lab.files())?;
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
    Ok(())
}

/// Checks what stands in the holes of `tree`, and prints the grade.
fn judge(lab: &Lab, tree: &Tree) -> Result<Outcome> {
    eprintln!("Building and running the checks of lab {} …", lab.number);
    let outcome = check(lab, tree)?;
    if let Outcome::DoesNotCompile(errors) = &outcome {
        eprint!("{errors}");
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use super::{Order, obey};

    const SOURCE: &str = "fn one() -> u32 {\n    // ANCHOR: one\n    1\n    // ANCHOR_END: one\n}\n";
    const LAB: &str = "title = 'One'\ntask = 'the number'\n[[hole]]\nfile = 'source.rs'\nname = 'one'\n\
                       [[check]]\nname = 'is-one'\npoints = 10\nproperty = 'It is one'\ntests = ['one']\nsee = ''\n\
                       [[hint]]\ntext = 'Count.'\n";

    /// A git checkout with one lab, number 1.
    struct Checkout(tempfile::TempDir);

    impl Checkout {
        fn new() -> Self {
            let checkout = Self(tempfile::tempdir().unwrap());
            let lab = checkout.path().join("labs/1-one");
            fs::create_dir_all(&lab).unwrap();
            fs::write(lab.join("lab.toml"), LAB).unwrap();
            fs::write(lab.join("starter.rs"), "// ANCHOR: one\n    0\n// ANCHOR_END: one\n").unwrap();
            fs::write(checkout.source(), SOURCE).unwrap();
            checkout.git(&["init", "--quiet", "--initial-branch=main"]);
            checkout.git(&["add", "."]);
            let name = ["-c", "user.name=a", "-c", "user.email=a@b"];
            checkout.git(&[&name[..], &["commit", "--quiet", "-m", "Begin"]].concat());
            checkout
        }

        fn path(&self) -> &Path {
            self.0.path()
        }

        fn source(&self) -> PathBuf {
            self.path().join("source.rs")
        }

        fn git(&self, arguments: &[&str]) -> String {
            let output = Command::new("git").arg("-C").arg(self.path()).args(arguments).output().unwrap();
            assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        }

        fn obey(&self, order: &Order) -> Result<bool, String> {
            obey(order, self.path()).map_err(|error| error.to_string())
        }

        fn error(&self, order: &Order) -> String {
            self.obey(order).unwrap_err()
        }
    }

    #[test]
    fn start_puts_the_starter_on_a_branch_once() {
        let checkout = Checkout::new();
        assert_eq!(checkout.obey(&Order::Start { lab: 1 }), Ok(true));
        assert_eq!(fs::read_to_string(checkout.source()).unwrap(), SOURCE.replace('1', "0"));
        assert_eq!(checkout.git(&["branch", "--show-current"]), "lab-1\n");
        assert_eq!(checkout.git(&["status", "--porcelain"]), "");
        assert!(checkout.error(&Order::Start { lab: 1 }).contains("git switch lab-1"));
        assert!(checkout.error(&Order::Start { lab: 2 }).contains("the labs are 1"));
        assert_eq!(checkout.obey(&Order::Status), Ok(true));
    }

    #[test]
    fn start_keeps_changes_that_are_not_committed() {
        let checkout = Checkout::new();
        let changed = SOURCE.replace('1', "7");
        fs::write(checkout.source(), &changed).unwrap();
        assert!(checkout.error(&Order::Start { lab: 1 }).contains("commit or remove your changes"));
        assert_eq!(fs::read_to_string(checkout.source()).unwrap(), changed);
        assert_eq!(checkout.git(&["branch", "--show-current"]), "main\n");
    }

    #[test]
    fn reset_keeps_what_was_written() {
        let checkout = Checkout::new();
        for number in 1..=2 {
            fs::write(checkout.source(), SOURCE.replace("    1", "    12345")).unwrap();
            assert_eq!(checkout.obey(&Order::Reset { lab: 1 }), Ok(true));
            assert_eq!(fs::read_to_string(checkout.source()).unwrap(), SOURCE.replace("    1", "    0"));
            let kept = checkout.path().join(format!("target/lab/lab-1-before-reset-{number}.rs"));
            assert!(fs::read_to_string(kept).unwrap().contains("12345"));
        }
    }

    #[test]
    fn submission_has_the_holes_and_is_refused_with_forbidden_words() {
        let checkout = Checkout::new();
        let output = checkout.path().join("handed-in.rs");
        let submit = Order::Submit { lab: 1, output: Some(output.clone()) };
        assert_eq!(checkout.obey(&submit), Ok(true));
        let text = fs::read_to_string(output).unwrap();
        assert!(text.contains("// ANCHOR: one\n    1\n// ANCHOR_END: one\n"), "{text}");
        fs::write(checkout.source(), SOURCE.replace("    1", "    std::process::exit(0)")).unwrap();
        assert!(checkout.error(&submit).contains("contains `std`"));
        let grade = Order::Grade { lab: 1, file: None, complete: false, json: None };
        assert!(checkout.error(&grade).contains("this is not graded"));
        fs::write(checkout.source(), "fn one() {}\n").unwrap();
        assert!(checkout.error(&submit).contains("no markers of the hole `one`"));
    }

    #[test]
    fn hints_are_counted() {
        let checkout = Checkout::new();
        assert_eq!(checkout.obey(&Order::Hint { lab: 1, step: 1 }), Ok(true));
        for step in [0, 2] {
            assert!(checkout.error(&Order::Hint { lab: 1, step }).contains("hints 1 to 1"));
        }
    }
}
