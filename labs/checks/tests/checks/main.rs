//! The tests by which `cargo lab` checks what a student has written. Each of them tries small cases first, so that the
//! case with which it fails is the smallest. No test depends on the time, on threads or on chance.

mod channels;
mod connections;
mod contest;
mod context;
mod exam;
#[path = "../../../../kernel/net/tests/shared/guarded.rs"]
mod guarded;
mod links;
mod machine;
mod models;
mod picks;
mod policy;
mod poller;
mod predictions;
mod preemption;
mod promises;
mod puzzles;
mod run_queue;
mod stealing;
mod switches;
mod system_calls;
mod trials;
mod waking;

use kernel_net::{PAGE_BYTES, ROOM_PAGES, Room};
