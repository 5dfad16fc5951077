//! Namespaces of Linux, in which a test has a network of its own, and the rights of root over it.

use std::env;
use std::process::Command;

/// Set in the process that runs in the namespaces.
const IS_INSIDE: &str = "GMP_TEST_IN_NAMESPACE";

/// Returns whether the calling process runs in the namespaces. If it does not, runs `test` in new ones, after the shell
/// has run `script` there, and panics if the test fails.
pub(crate) fn run_inside(test: &str, script: &str) -> bool {
    if env::var_os(IS_INSIDE).is_some() {
        return true;
    }
    let mut inside = Command::new("unshare");
    inside.args(["--map-root-user", "--net", "--mount", "sh", "-c", &format!("{script} && exec \"$@\""), "sh"]);
    inside.arg(env::current_exe().expect("this program")).args(["--exact", test, "--ignored", "--nocapture"]);
    let status = inside.env(IS_INSIDE, "1").status().expect("`unshare` of util-linux runs");
    assert!(status.success(), "{status}");
    false
}
