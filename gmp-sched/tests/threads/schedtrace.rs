//! The reports of a running scheduler.

use std::time::Duration;

use crate::entered::THREADS;
use gmp_sched::native;
use gmp_sched::platform::Pinned;

/// Returns the `schedtrace` line and the `scheddetail` table of a scheduler in which main runs and another G sleeps.
fn written() -> (String, String) {
    THREADS.run(2, || {
        let sleeper = native::go(|| native::sleep(Duration::from_millis(300)));
        // Lets another G run to its end, and the sleeper begin to sleep.
        while !native::go(|| true).join().unwrap() {}
        native::sleep(Duration::from_millis(20));
        let scheduler = Pinned::<native::Native>::new().machine().scheduler();
        let texts = (scheduler.schedtrace().to_string(), scheduler.scheddetail().to_string());
        sleeper.join().unwrap();
        texts
    })
}

#[test]
fn schedtrace_line_has_gos_form() {
    let (trace, _) = written();
    let words: Vec<_> = trace.split(' ').collect();
    assert_eq!(words[0], "SCHED");
    assert!(words[1].strip_suffix("ms:").is_some_and(|time| time.parse::<u64>().is_ok()), "{trace}");
    let keys = ["gomaxprocs", "idleprocs", "threads", "spinningthreads", "idlethreads", "runqueue"];
    for (word, key) in words[2..].iter().zip(keys) {
        let value = word.strip_prefix(key).and_then(|rest| rest.strip_prefix('='));
        assert!(value.is_some_and(|value| value.parse::<u64>().is_ok()), "{key} in {trace}");
    }
    assert!(trace.contains("gomaxprocs=2 ") && trace.ends_with(" ]") && trace.contains(" schedticks=[ "), "{trace}");
}

#[test]
fn scheddetail_lists_every_p_m_and_g() {
    let (_, detail) = written();
    for line in ["\n  P0: status=", "\n  P1: status="] {
        assert!(detail.contains(line), "{detail}");
    }
    // An M that an earlier run has used keeps its number, so only the number of Ms is checked.
    let machines = detail.lines().filter(|line| line.starts_with("  M") && line.contains(": p=")).count();
    assert_eq!(machines, 2, "{detail}");
    let goroutine = |number: u64| {
        let start = format!("  G{number}: ");
        detail.lines().find_map(|line| line.strip_prefix(&start)).map(str::to_owned)
    };
    let main = goroutine(1).expect("the main G");
    assert!(main.starts_with("status=2(running) m=") && !main.contains("m=nil"), "{detail}");
    let sleeper = detail.lines().find(|line| line.contains("(sleep)")).expect("the sleeper");
    assert!(sleeper.contains("status=4(sleep) m=nil") && sleeper.contains("creator=1"), "{detail}");
}
