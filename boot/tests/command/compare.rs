//! Tests of `compare`. None of them needs the network: what would be downloaded is replaced by shell scripts.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::child::{Running, assert_is_gone, run};
use crate::outside::{boot, finish, status, text};

/// Returns the command `boot compare` with these words. What it downloads goes to `folder`.
fn compare(folder: &TempDir, words: &[&str]) -> Command {
    let mut command = boot();
    command.arg("compare").args(words).env("XDG_CACHE_HOME", folder.path());
    command
}

fn write_script(path: &Path, script: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(path, format!("#!/bin/sh\n{script}\n")).expect("written");
    fs::set_permissions(path, Permissions::from_mode(0o755)).expect("executable");
}

/// Writes a fake toolchain, which builds the script `program` in place of Go's benchmark.
fn write_fake_go(folder: &TempDir, program: &str) {
    let go = "while [ $1 != -o ]; do shift; done\ncp \"$(dirname $0)/program\" $2";
    let bin = folder.path().join("gmp-compare/go-1.27.3/bin");
    write_script(&bin.join("go"), go);
    write_script(&bin.join("program"), program);
}

/// Returns the command `boot compare --native` for the peer `go`, with a [fake toolchain](write_fake_go).
fn compare_with_fake_go(folder: &TempDir, words: &[&str], program: &str) -> Command {
    write_fake_go(folder, program);
    let mut command = compare(folder, &[&["--native", "--only", "go", "--procs", "1"], words].concat());
    command.env("CARGO_TARGET_DIR", folder.path().join("target"));
    command
}

/// Returns the names of the files and folders that `compare` has left in its cache.
fn left_in_cache(folder: &TempDir) -> Vec<String> {
    let entries = folder.path().join("gmp-compare").read_dir().expect("a folder");
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn parse(output: &Output) -> Value {
    serde_json::from_str(&text(&output.stdout)).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn our_own_instructions_are_counted_without_the_network() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = finish(compare(&folder, &["--icount", "--only", "ours", "--json", "yield", "mutex"]));
    assert_eq!(status(&output), Some(0), "{}", text(&output.stderr));
    let comparison = &parse(&output)["comparisons"][0];
    let rows = comparison["rows"].as_array().expect("rows");
    let names: Vec<&Value> = rows.iter().map(|row| &row["name"]).collect();
    assert_eq!(names, ["yield", "mutex_8g"]);
    for row in rows {
        let median = row["results"]["ours"]["median"].as_f64().expect("a number");
        assert!((1.0..1000.0).contains(&median), "{row}");
    }
    assert!(comparison["peers"]["ours"].as_str().is_some_and(|line| line.contains("release build, on 1 CPU")));
}

#[test]
fn mistakes_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    for (words, complaint) in [
        (&["--smp", "0"][..], "0 is not in 1..=64"),
        (&["--only", "rust"], "ours, go, tokio, may, threads, crossbeam, flume"),
        (&["--icount", "--only", "tokio"], "no peer is left"),
        (&["--rounds", "no"], "'no' for '--rounds <N>'"),
    ] {
        let output = run(compare(&folder, words));
        assert_eq!(status(&output), Some(64), "{words:?}");
        assert!(text(&output.stderr).contains(complaint), "{words:?}: {}", text(&output.stderr));
    }
    let mut command = boot();
    command.args(["--icount", "compare"]);
    let output = run(command);
    assert_eq!(status(&output), Some(64));
    assert!(text(&output.stderr).contains("cargo run -- compare --icount"), "{}", text(&output.stderr));
    let help = run(compare(&folder, &["--help"]));
    assert_eq!(status(&help), Some(0));
    assert!(text(&help.stdout).contains("~/.cache/gmp-compare; nothing is installed"), "{}", text(&help.stdout));
}

#[test]
fn missing_and_failing_tools_are_named_with_what_to_install() {
    for (script, complaint) in [
        (None, "there is no `python3`. Go needs python3 with pip (in Debian: apt-get install python3-pip)"),
        (Some("echo no network >&2; exit 1"), "failed; see its output above. Go needs python3 with pip"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let tools = folder.path().join("tools");
        if let Some(script) = script {
            write_script(&tools.join("python3"), script);
        }
        let mut command = compare(&folder, &["--icount", "--only", "go"]);
        command.env("PATH", tools);
        let output = run(command);
        let said = text(&output.stderr);
        assert!(said.contains("compare: without go: cannot get Go 1.27.3") && said.contains(complaint), "{said}");
        assert!(said.ends_with("there is no result; the messages above say why\n"), "{said}");
        assert_eq!((status(&output), text(&output.stdout).as_str()), (Some(1), ""));
        assert_eq!(left_in_cache(&folder), ["lock"]);
    }
}

/// The scripts replace Debian's tools, which by default download packages as another user.
#[test]
fn packages_are_downloaded_without_a_change_of_the_user() {
    let folder = tempfile::tempdir().expect("a folder");
    let tools = folder.path().join("tools");
    write_script(&tools.join("apt-cache"), "echo '  Depends: linux-image-1'");
    let download = "case \"$*\" in *APT::Sandbox::User=root*download*linux-image-1*) echo fine;; *) echo 'W: unsandboxed';; esac >&2; exit 1";
    write_script(&tools.join("apt-get"), download);
    write_fake_go(&folder, "exit 1");
    let mut command = compare(&folder, &["--icount", "--only", "go"]);
    command.env("CARGO_TARGET_DIR", folder.path().join("target"));
    command.env("PATH", format!("{}:/usr/bin:/bin", tools.display()));
    let said = text(&run(command).stderr);
    assert!(said.contains("\nfine\n") && !said.contains("W: "), "{said}");
}

#[test]
fn results_are_summarized() {
    let folder = tempfile::tempdir().expect("a folder");
    // Each run reports a longer time than the run before it.
    let program = "echo x >> \"$0.runs\"; runs=$(wc -l < \"$0.runs\"); echo go of a test\n\
                   echo \"bench $2 $1 $runs.0 ns/op\"; echo bench done";
    let output = run(compare_with_fake_go(&folder, &["--rounds", "3", "yield"], program));
    assert_eq!(status(&output), Some(0), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    assert!(printed.contains("  go       go of a test\n"), "{printed}");
    assert!(printed.contains("yield      1  ns/op  2.0 (1.0 to 3.0)\n"), "{printed}");
    let output = run(compare_with_fake_go(&folder, &["--rounds", "1", "--markdown", "yield"], program));
    assert!(text(&output.stdout).contains("| yield | 1 | ns/op | 4.0 |\n"), "{}", text(&output.stdout));
}

#[test]
fn results_until_a_failure_are_kept() {
    let lines = "echo go of a test; echo bench yield procs=1 10.0 ns/op";
    for (end, complaint) in [
        (
            "echo some reason >&2; exit 3",
            "go --native --procs 1 failed: it ended with exit status: 3\n    some reason\n",
        ),
        ("exit 0", "its last line is missing"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let output = run(compare_with_fake_go(&folder, &["--json"], &format!("{lines}; {end}")));
        let said = text(&output.stderr);
        assert!(said.contains(complaint), "{said}");
        // After the failure, the peer does not run again.
        assert_eq!(said.matches("round ").count(), 1, "{said}");
        assert_eq!(status(&output), Some(1));
        assert_eq!(parse(&output)["comparisons"][0]["rows"][0]["results"]["go"]["all"], serde_json::json!([10.0]));
    }
}

#[test]
fn peer_that_hangs_is_ended_at_the_time_limit() {
    let folder = tempfile::tempdir().expect("a folder");
    let words = ["--timeout", "1", "--rounds", "1"];
    let output = run(compare_with_fake_go(&folder, &words, "exec sleep 100000"));
    assert!(text(&output.stderr).contains("failed: it still ran after 1 s (--timeout)"), "{}", text(&output.stderr));
    assert_eq!(status(&output), Some(1));
}

#[test]
fn interrupt_ends_a_download_and_removes_its_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let tools = folder.path().join("tools");
    write_script(&tools.join("python3"), "echo half > half; echo $$ >&2; exec /bin/sleep 100000");
    let mut command = compare(&folder, &["--icount", "--only", "go"]);
    command.env("PATH", tools);
    let mut running = Running::start(command);
    running.read_errors_until("75 MB)\n");
    let id = running.read_errors_until("\n");
    running.signal(Signal::INT);
    let output = running.finish();
    assert_eq!(status(&output), None, "{}", text(&output.stderr));
    assert_is_gone(id.trim());
    assert_eq!(left_in_cache(&folder), ["lock"]);
}
