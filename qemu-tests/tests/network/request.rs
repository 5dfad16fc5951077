//! Tests the program `request`, which shows that a G that waits for the network needs no M, and that a G in a blocking
//! call keeps its M.

use super::boot;

#[test]
fn request_parks_a_g_and_a_call_that_blocks_takes_an_m() {
    let output = boot(&["--icount", "--smp=1"], &["request"]).output().expect("boot runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).expect("text");
    let mut rest = said.as_str();
    for step in [
        "the client parks; M0 keeps P0\n",
        "the other G runs\n",
        "the other G is displaced\n",
        "the G `network` runs\n",
        "the client is runnable\n",
        "the client runs\n",
        "The client waited on M0, and continues on M0. The other G ran on M0. New Ms: 0.\n",
        "the client blocks M0, and P0 is handed off\n",
        "M1 gets P0\n",
        "the other G runs\n",
        "the call has ended, and the other G is displaced\n",
        "the client runs\n",
        "The client waited on M0, and continues on M1. The other G ran on M1. New Ms: 1.\n",
    ] {
        let (_, after) = rest.split_once(step).unwrap_or_else(|| panic!("no `{}` in {rest}", step.trim()));
        rest = after;
    }
    assert_eq!(rest, "");
}
