//! The tests by which `cargo lab` checks what a student has written, and the runs that answer its questions. Tests of all
//! sequences of steps try the shortest first, so that the one with which they fail is the shortest. No test depends on the
//! time, on threads or on chance.

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
