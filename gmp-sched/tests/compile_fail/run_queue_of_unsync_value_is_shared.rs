//! A thief would get a reference to a value that only its owner's thread may access.

use std::cell::Cell;
use std::thread;

use gmp_sched::native::Native;
use gmp_sched::run_queue::RunQueue;

fn main() {
    let queue: &'static RunQueue<Cell<u32>, Native, 4> = Box::leak(Box::new(RunQueue::new()));
    let value: &'static Cell<u32> = Box::leak(Box::new(Cell::new(0)));
    queue.push_back(value).unwrap();
    thread::spawn(move || queue.pop().unwrap().0.set(1));
    value.set(2);
}
