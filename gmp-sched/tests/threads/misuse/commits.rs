//! A commit is the function that runs after the switch away from a parking G. If a commit panics, the process ends.

use std::env;
use std::process::Command;
use std::time::Duration;

use gmp_sched::goroutine::WaitReason;
use gmp_sched::native::{Native, go, sleep};
use gmp_sched::park::park;

use crate::entered::THREADS;

/// This variable is set in the environment of the child process that is to die.
const IN_CHILD: &str = "GMP_TEST_COMMIT_PANICS";

/// A commit that panics ends the process with a message, because the panic must not unwind the stack on which the
/// commit runs. If a G is runnable, as in this test, the commit runs on the stack of that G, and otherwise on g0.
#[test]
fn panic_in_a_commit_ends_the_program_with_a_message() {
    if env::var_os(IN_CHILD).is_some() {
        THREADS.run(1, || {
            // The new G is runnable, so the commit of the park runs on the new G's stack, which the panic would unwind.
            go(|| sleep(Duration::from_secs(60))).detach();
            park::<Native>(WaitReason::Parked, |_, _| panic!("a commit that is wrong"));
        });
        return;
    }
    let name = "misuse::commits::panic_in_a_commit_ends_the_program_with_a_message";
    let child = Command::new(env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(IN_CHILD, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stderr);
    assert!(said.contains("a commit that is wrong"), "{said}");
    assert!(said.contains("fatal error: the commit of a park panicked"), "{said}");
    assert_eq!(child.status.code(), Some(2), "{said}");
}
