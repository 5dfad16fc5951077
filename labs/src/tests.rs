//! The commands, in a small checkout with one lab.

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser as _;

use super::{Cli, Order, documented, obey};

const SOURCE: &str = "fn one() -> u32 {\n    // ANCHOR: one\n    1\n    // ANCHOR_END: one\n}\n";
const LAB: &str = "title = 'One'\ntask = 'the number'\n[[hole]]\nfile = 'source.rs'\nname = 'one'\n\
                   [[check]]\nname = 'is-one'\npoints = 10\nproperty = 'It is one'\ntests = ['one']\nsee = ''\n\
                   [[hint]]\ntext = 'Count.'\n";

/// The check of the lab in a checkout that has it.
const CHECKS: &str = "labs/checks/tests/checks.rs";

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

    /// A checkout whose check can be built: a workspace with the packages that `cargo lab` builds for it.
    fn with_checks() -> Self {
        let checkout = Self::new();
        let manifest = |name: &str| format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
        for (path, text) in [
            ("Cargo.toml", "[workspace]\nresolver = \"3\"\nmembers = [\"labs/checks\", \"timeline\"]\n"),
            ("Cargo.lock", "version = 4\n"),
            ("labs/checks/Cargo.toml", &manifest("lab-checks")),
            ("labs/checks/src/lib.rs", ""),
            ("timeline/Cargo.toml", &manifest("timeline")),
            ("timeline/src/lib.rs", ""),
            ("gmp-sched/Cargo.toml", &manifest("gmp-sched")),
            ("gmp-sched/src/lib.rs", ""),
            ("kernel/lib.rs", ""),
            ("boot/lib.rs", ""),
        ] {
            checkout.write(path, text);
        }
        checkout.write(
            CHECKS,
            "include!(\"../../../source.rs\");\n#[test]\nfn one_is_one() {\n    assert_eq!(one(), 1);\n}\n",
        );
        checkout.write("labs/1-one/lab.toml", &LAB.replace("tests = ['one']", "tests = ['one_is_one']"));
        checkout
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
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
    assert!(checkout.error(&Order::Start { lab: 1 }).contains("these changes would come along"));
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
    assert!(checkout.error(&submit).contains("contains the word `std`"));
    let grade = Order::Grade { lab: 1, file: None, complete: false, json: None, classroom: None };
    assert!(checkout.error(&grade).contains("this is not graded"));
    fs::write(checkout.source(), "fn one() {}\n").unwrap();
    assert!(checkout.error(&submit).contains("no markers of the hole `one`"));
}

#[test]
fn changes_outside_of_the_holes_are_named() {
    let checkout = Checkout::new();
    checkout.obey(&Order::Start { lab: 1 }).unwrap();
    let warning = || {
        let labs = crate::lab::Lab::all(checkout.path()).unwrap();
        crate::outside::warning(&labs, &labs[0], checkout.path()).unwrap()
    };
    fs::write(checkout.source(), SOURCE.replace('1', "7")).unwrap();
    assert_eq!(warning(), None);
    fs::write(checkout.source(), format!("use core::cmp::min;\n{SOURCE}")).unwrap();
    assert!(warning().unwrap().contains("changes in\n  source.rs\n"));
    // Also when they are committed.
    checkout.git(&["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--all", "-m", "Mine"]);
    assert!(warning().unwrap().contains("source.rs"));
    assert_eq!(crate::git::other_branch(checkout.path(), 1).unwrap(), None);
    checkout.git(&["switch", "--quiet", "main"]);
    assert_eq!(warning(), None);
    assert_eq!(crate::git::other_branch(checkout.path(), 1).unwrap().as_deref(), Some("lab-1"));
}

#[test]
fn exported_repository_has_the_starter_in_one_commit() {
    let checkout = Checkout::new();
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("class");
    let export = Order::Export { lab: 1, folder: folder.clone() };
    // A file that git does not know, such as the grades of a class, stays here.
    fs::write(checkout.path().join("grades.csv"), "").unwrap();
    assert_eq!(checkout.obey(&export), Ok(true));
    assert_eq!(fs::read_to_string(folder.join("source.rs")).unwrap(), SOURCE.replace('1', "0"));
    assert!(!folder.join("grades.csv").exists());
    assert!(checkout.error(&export).contains("is not empty"));
    obey(&Order::Start { lab: 1 }, &folder).unwrap();
    let count = Command::new("git").arg("-C").arg(&folder).args(["rev-list", "--count", "main"]).output().unwrap();
    assert_eq!(count.stdout, b"1\n");
    fs::write(checkout.source(), SOURCE.replace('1', "0")).unwrap();
    let again = Order::Export { lab: 1, folder: place.path().join("other") };
    assert!(checkout.error(&again).contains("no solution here"));
}

#[test]
fn checkout_that_does_not_compile_costs_nobody_points() {
    let checkout = Checkout::with_checks();
    let folder = checkout.path().join("class");
    for (name, hole) in [("ann", "1"), ("bob", "0"), ("cid", "undefined()")] {
        checkout.write(&format!("class/{name}.rs"), &format!("// ANCHOR: one\n    {hole}\n// ANCHOR_END: one\n"));
    }
    let all = Order::GradeAll {
        lab: 1,
        folder: folder.clone(),
        output: None,
        shard: "1/1".parse().unwrap(),
        jobs: NonZero::<usize>::MIN,
    };
    let file = Some(folder.join("ann.rs"));
    let grade = Order::Grade { lab: 1, file, complete: false, json: None, classroom: None };
    let right = fs::read_to_string(checkout.path().join(CHECKS)).unwrap();
    checkout.write(CHECKS, &right.replace("one(), 1", "one(), first"));
    for order in [&Order::Check { lab: 1 }, &grade, &all] {
        let error = checkout.error(order);
        assert!(error.contains("does not compile in this checkout, also with the starter"), "{error}");
        assert!(error.contains("cannot find value `first`"), "{error}");
    }
    // If something kills a test, that is no mistake of a student, either.
    let kill = "std::process::Command::new(\"sh\").args([\"-c\", \"kill -KILL $PPID\"]).status().unwrap();";
    checkout.write(CHECKS, &right.replace("assert_eq!(one(), 1);", kill));
    for order in [&grade, &all] {
        let error = checkout.error(order);
        assert!(error.contains("something killed it"), "{error}");
    }
    assert_eq!(fs::read_dir(folder.join("grades")).unwrap().count(), 0);
    checkout.write(CHECKS, &right);
    assert_eq!(checkout.obey(&all), Ok(true));
    assert_eq!(
        fs::read_to_string(folder.join("grades/grades.csv")).unwrap(),
        "\"name\",\"points\",\"is-one\",\"refused\"\n\
         \"ann\",10,\"ok\",\"\"\n\"bob\",0,\"FAILED\",\"\"\n\"cid\",0,\"-\",\"\"\n"
    );
    // A compile error in the file of the hole is the student's, so the check fails.
    fs::write(checkout.source(), SOURCE.replace("    1", "    undefined()")).unwrap();
    assert_eq!(checkout.obey(&Order::Check { lab: 1 }), Ok(false));
}

#[test]
fn documents_show_commands_that_are_accepted() {
    documented::check("cargo lab", |words| {
        let words = words.iter().map(|word| if *word == "N" { "2" } else { word });
        Cli::try_parse_from(["lab"].into_iter().chain(words)).map(drop)
    });
}

/// Runs the commands of the teacher's guide, one after the other. It builds the checks of lab 2, so only CI runs it.
#[test]
#[ignore = "it takes a minute"]
fn commands_of_the_guide_succeed() {
    let guide = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("teachers-guide.md")).unwrap();
    let blocks = guide.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    let script: String = blocks.collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let output = Command::new("sh").args(["-euc", &script]).current_dir(root).output().unwrap();
    let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{printed}\n{errors}");
    // Ann has handed in the solution, and Bob the starter.
    assert!(printed.contains("\"ann\",100") && printed.contains("\"bob\",0"), "{printed}\n{errors}");
}

/// For each lab whose model in `labs/puzzles` no test compares with the scheduler: a hash of the code in its holes in
/// `gmp-sched`, from when somebody last compared this code with the model.
const COMPARED: [(u32, u64); 3] = [(4, 0x4aa2_55ea_c1b7_69e8), (6, 0xbc46_08cd_bfcc_9616), (8, 0x471f_bd34_d3ee_1dbb)];

#[test]
fn models_were_compared_with_the_scheduler_as_it_is() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let labs = crate::lab::Lab::all(root).unwrap();
    for (number, compared) in COMPARED {
        let lab = labs.iter().find(|lab| lab.number == number).unwrap();
        // The repository of a class has neither the solutions nor the wrong solutions.
        if !lab.folder.join("wrong").exists() {
            continue;
        }
        let holes: Vec<_> = lab.holes.iter().filter(|hole| hole.file.starts_with("gmp-sched/")).cloned().collect();
        let text = crate::filling::Filling::of_tree(root, &holes).unwrap().to_file("");
        let code = text.lines().map(str::trim).filter(|line| !line.starts_with("//"));
        // FNV-1a.
        let hash = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        let now = code.flat_map(str::bytes).fold(0xcbf2_9ce4_8422_2325, hash);
        assert!(
            now == compared,
            "a hole of lab {number} in gmp-sched has changed. Does its model in labs/puzzles still do the same? If so, write {now:#x} \
             into COMPARED"
        );
    }
}

#[test]
fn every_lab_has_wrong_solutions_that_fit_the_solution() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for lab in crate::lab::Lab::all(root).unwrap().iter().filter(|lab| lab.folder.join("wrong").exists()) {
        assert!(lab.wrong(&lab.solution(root).unwrap()).unwrap().len() >= 10, "lab {}", lab.number);
    }
}

#[test]
fn container_has_the_compiler_of_the_workspace_and_the_packages_of_setup() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap();
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    let version = manifest["workspace"]["package"]["rust-version"].as_str().unwrap();
    let container = read(".devcontainer/Dockerfile");
    assert!(container.contains(&format!("FROM rust:{version}.")), "{version}");
    assert!(container.contains(&format!("RUSTUP_TOOLCHAIN={version}.")), "{version}");
    // Its packages are those that `./setup` installs, and it has no list of its own.
    assert!(container.contains("/setup --book") && !container.contains("apt-get"), "{container}");
    serde_json::from_str::<serde_json::Value>(&read(".devcontainer/devcontainer.json")).unwrap();
}

#[test]
fn hints_are_counted() {
    let checkout = Checkout::new();
    assert_eq!(checkout.obey(&Order::Hint { lab: 1, step: 1 }), Ok(true));
    for step in [0, 2] {
        assert!(checkout.error(&Order::Hint { lab: 1, step }).contains("hints 1 to 1"));
    }
}
