//! Tests of the kernel options `schedtrace` and `scheddetail`.

use crate::outside::{boot_outside, finish, status, text};
use crate::schedtrace_lines::{Rest, parse};

/// QEMU counts instructions in this test, so the run does not depend on the speed of the host.
#[test]
fn schedtrace_prints_while_all_cpus_are_idle_and_while_all_are_busy() {
    let options = ["--icount", "--smp=2", "--kernel-option=schedtrace=10", "--kernel-option=scheddetail=1"];
    let output = finish(boot_outside(&options, &["idle-then-busy"]));
    let printed = text(&output.stderr);
    assert_eq!(status(&output), Some(0), "{printed}");
    let dumps = parse(&printed);
    assert_eq!(dumps[0].milliseconds, 0, "the time is that since the first text");
    assert!(dumps.windows(2).all(|pair| pair[1].milliseconds - pair[0].milliseconds >= 9), "{printed}");
    // Each phase lasts 100 ms, and a report is due 10 ms after the last one. In the second phase, sysmon's thread waits
    // until the thread of an M has used its time, which the ticks of the CPU measure. So a report may be late by two
    // slices of 10 ms.
    for (idle, least) in [(2, 8), (0, 3)] {
        let count = dumps.iter().filter(|dump| dump.idle_procs == idle).count();
        assert!(count >= least, "{count} times {idle} idle Ps: {printed}");
    }
    let sleeps = |rest: &Rest| match rest {
        Rest::Detail { goroutines, .. } => {
            goroutines.iter().any(|main| (main.id, main.reason.as_str()) == (1, "sleep"))
        }
        Rest::Line { .. } => false,
    };
    assert!(dumps.iter().any(|dump| dump.idle_procs == 2 && sleeps(&dump.rest)), "{printed}");
}
