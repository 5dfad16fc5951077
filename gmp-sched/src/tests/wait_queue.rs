use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::entities::waiter::Waiter;
use crate::library::waiter::WaitQueue;
use crate::native::Native;

#[test]
fn waiters_are_removed_from_any_position() {
    let waiters: &[Waiter<Native>] = Box::leak((0..3).map(|_| Waiter::new()).collect::<Vec<_>>().into_boxed_slice());
    let queue = WaitQueue::new();
    for waiter in waiters {
        queue.push_back(waiter);
    }
    assert!(queue.remove(&waiters[1]));
    assert!(!queue.remove(&waiters[1]));
    assert!(core::ptr::eq(queue.front().unwrap(), &raw const waiters[0]));
    assert!(queue.remove(&waiters[0]));
    assert!(core::ptr::eq(queue.front().unwrap(), &raw const waiters[2]));
    queue.push_front(&waiters[1]);
    assert!(queue.remove(&waiters[2]) && queue.remove(&waiters[1]));
    assert!(queue.is_empty());
}
