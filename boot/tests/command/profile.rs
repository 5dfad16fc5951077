//! Tests of `--profile`.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output};

use profile::pprof::{PprofProfile, Sample};

use crate::outside::{boot_outside, finish, status, text};

/// Boots the program on one CPU, with counted instructions. With two CPUs, the G that waits for the lock would spin,
/// and would not park. At each `pause` instruction of the spinning G, QEMU would run the other CPU for a long time. So
/// the lock would be released before the G has stopped spinning.
fn profiled(directory: &Path, options: &[&str], argument: &str) -> Output {
    let option = format!("--profile={}", directory.display());
    finish(boot_outside(&[&["--icount", "--smp=1", &option], options].concat(), &[argument]))
}

fn read(directory: &Path, name: &str) -> PprofProfile {
    PprofProfile::read(File::open(directory.join(name)).expect("a file")).expect("a profile")
}

/// The samples whose call stack contains the function.
fn of<'a>(profile: &'a PprofProfile, function: &str) -> Vec<&'a Sample> {
    profile.sample.iter().filter(|sample| profile.functions(sample).contains(&function)).collect()
}

#[test]
fn profile_shows_who_waits_for_a_lock_and_who_holds_it_and_what_runs() {
    let directory = tempfile::tempdir().expect("a directory");
    let profiles = directory.path().join("new/profiles");
    let timeline = format!("--trace={}", directory.path().join("run").display());
    let output = profiled(&profiles, &[&timeline], "contended");
    let printed = text(&output.stderr);
    assert_eq!(status(&output), Some(0), "{printed}");
    assert!(printed.contains("boot: trace: ") && printed.contains("boot: profile: 0 events lost"), "{printed}");
    let timeline = fs::read_to_string(directory.path().join("run.html")).expect("the timeline");
    assert!(timeline.contains("hold_long"));

    let block = read(&profiles, "block.pb.gz");
    let waits = of(&block, "outside::wait_for_holder");
    assert_eq!(waits.len(), 1, "{block:?}");
    let reasons: Vec<_> = waits[0].label.iter().map(|label| block.text(label.str)).collect();
    assert_eq!((&waits[0].value[..1], &reasons[..]), (&[1][..], &["sync.Mutex.Lock"][..]));
    // The holder computes for 100 ms. The other G begins to wait when the first or the second slice of the holder is
    // over. A slice takes 10 ms.
    let waited = waits[0].value[1];
    assert!((75_000_000..=95_000_000).contains(&waited), "{waited} ns");
    let stack = block.functions(waits[0]);
    assert_eq!(stack[0], "outside::wait_for_holder", "the scheduler's own frames are left out: {stack:?}");
    assert!(stack.last().is_some_and(|innermost| innermost.contains("RawMutex")), "{stack:?}");
    assert!(of(&block, "outside::hold_long").is_empty(), "{block:?}");
    assert!(!of(&block, "outside::contended").is_empty(), "main waits for the other Gs: {block:?}");

    let mutex = read(&profiles, "mutex.pb.gz");
    let charged = of(&mutex, "outside::hold_long");
    assert_eq!((charged.len(), mutex.sample.len()), (1, 1), "{mutex:?}");
    assert_eq!(charged[0].value, [1, waited]);

    let cpu = read(&profiles, "cpu.pb.gz");
    let ran = of(&cpu, "outside::compute_long");
    let time = |samples: &[&Sample]| samples.iter().map(|sample| sample.value[1]).sum::<i64>();
    // The timer interrupts the computation every 10 ms. The time after the last interrupt is not counted.
    assert!((80_000_000..=101_000_000).contains(&time(&ran)), "{} ns: {cpu:?}", time(&ran));
    assert_eq!(time(&of(&cpu, "outside::hold_long")), time(&ran));

    let folded = fs::read_to_string(profiles.join("mutex.folded")).expect("folded stacks");
    assert!(folded.starts_with("outside::hold_long") && folded.ends_with(&format!(" {waited}\n")), "{folded}");
    let flame_graph = fs::read_to_string(profiles.join("cpu.svg")).expect("a flame graph");
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    roxmltree::Document::parse_with_options(&flame_graph, options).expect("valid XML");
    assert!(flame_graph.contains("outside::compute_long"));
}

#[test]
fn profile_of_a_program_that_never_waits_says_so() {
    let directory = tempfile::tempdir().expect("a directory");
    let output = profiled(directory.path(), &[], "arguments");
    let printed = text(&output.stderr);
    assert_eq!(status(&output), Some(0), "{printed}");
    assert!(printed.contains("boot: profile: mutex: no unlock has ended the wait of a G"), "{printed}");
    assert_eq!(read(directory.path(), "mutex.pb.gz").sample, []);
    let picture = fs::read_to_string(directory.path().join("mutex.svg")).expect("a picture");
    assert!(picture.contains("nothing was recorded"), "{picture}");
}

#[test]
fn profile_that_cannot_be_written_is_an_error_before_the_program_runs() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file");
    fs::write(&file, "not a directory").expect("written");
    let output = profiled(&file.join("profiles"), &[], "arguments");
    let printed = text(&output.stderr);
    assert_eq!((status(&output), text(&output.stdout).as_str()), (Some(74), ""), "{printed}");
    assert!(printed.contains("cannot make the directory"), "{printed}");
}

/// Go's own `pprof` opens the profiles, and shows the same functions and numbers. The test needs Go, as `PATH` or
/// `GMP_GO` names it; `compare` keeps one in `~/.cache/gmp-compare`.
#[test]
#[ignore = "needs Go; run with --ignored"]
fn go_tool_pprof_shows_the_profiles() {
    let directory = tempfile::tempdir().expect("a directory");
    let output = profiled(directory.path(), &[], "contended");
    assert_eq!(status(&output), Some(0), "{}", text(&output.stderr));
    let go = std::env::var_os("GMP_GO").unwrap_or_else(|| "go".into());
    let shown = |name: &str, options: &[&str]| {
        let mut command = Command::new(&go);
        command.args(["tool", "pprof"]).args(options).arg(directory.path().join(name));
        let output = command.env("PPROF_TMPDIR", directory.path()).output().expect("Go runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    for (name, function) in [
        ("block.pb.gz", "outside::wait_for_holder"),
        ("mutex.pb.gz", "outside::hold_long"),
        ("cpu.pb.gz", "outside::compute_long"),
    ] {
        let profile = read(directory.path(), name);
        let samples = of(&profile, function);
        let [count, time] = [0, 1].map(|value| samples.iter().map(|sample| sample.value[value]).sum::<i64>());
        let names: Vec<_> = profile.sample_type.iter().map(|kind| profile.text(kind.r#type)).collect();
        for (kind, unit, sum) in [(names[0], "count", count.to_string()), (names[1], "ns", format!("{time}ns"))] {
            let (unit, kind) = (format!("-unit={unit}"), format!("-sample_index={kind}"));
            let table = shown(name, &["-top", &unit, &kind]);
            // The columns are the function's own value, its share, the sum of the shares, the value with that of its
            // callees, its share, and the name.
            let row = table.lines().find(|line| line.ends_with(function)).unwrap_or_else(|| panic!("{table}"));
            let with_callees = row.split_whitespace().nth(3).expect("a column");
            assert_eq!(with_callees, sum, "{table}");
        }
        // Each sample has the lines of the source, too.
        let lines = shown(name, &["-traces", "-lines"]);
        let has_line = |line: &str| line.contains(function) && line.contains("src/main.rs:");
        assert!(lines.lines().any(has_line), "{lines}");
    }
}
