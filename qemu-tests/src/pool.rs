//! The pool of machines that wait for tests, and the limit on the number of machines.

use core::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Maximum number of concurrent machines. It is low because each machine may have more CPUs than the host.
const LIMIT: usize = 2;

/// A pool of machines of type `M`. Each machine belongs to one configuration of type `K`.
#[derive(Debug)]
pub(crate) struct Pool<K, M> {
    state: Mutex<State<K, M>>,
    room: Condvar,
}

#[derive(Debug)]
struct State<K, M> {
    /// Number of machines in use.
    busy: usize,
    /// Idle machines, the most recently used one last.
    idle: Vec<(K, M)>,
}

/// A permit for one machine.
#[derive(Debug)]
pub(crate) struct Permit<'a, K, M> {
    pool: &'a Pool<K, M>,
}

impl<K: PartialEq, M> Pool<K, M> {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(State { busy: 0, idle: Vec::new() }), room: Condvar::new() }
    }

    /// Waits for a permit. Returns the permit, and an idle machine of the configuration `key` if there is one. Ends the
    /// idle machines that have been idle for the longest time, if there would be too many machines otherwise.
    pub(crate) fn acquire(&self, key: Option<&K>) -> (Permit<'_, K, M>, Option<M>) {
        let state = self.room.wait_while(self.state(), |state| state.busy >= LIMIT);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        state.busy += 1;
        let found = key.and_then(|key| state.idle.iter().position(|(idle, _)| idle == key));
        let machine = found.map(|index| state.idle.remove(index).1);
        let surplus = (state.busy + state.idle.len()).saturating_sub(LIMIT);
        let ended = state.idle.drain(..surplus).collect::<Vec<_>>();
        // Ending a machine takes some time, so the lock is released first.
        drop(state);
        drop(ended);
        (Permit { pool: self }, machine)
    }

    fn state(&self) -> MutexGuard<'_, State<K, M>> {
        // Poisoning is ignored, because no panic can happen between two changes that belong together.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: PartialEq, M> Permit<'_, K, M> {
    /// Releases the permit, and keeps the machine in the pool for other tests of this configuration.
    pub(crate) fn release(self, key: K, machine: M) {
        let mut state = self.pool.state();
        state.busy -= 1;
        state.idle.push((key, machine));
        drop(state);
        self.pool.room.notify_one();
        mem::forget(self);
    }
}

impl<K, M> Drop for Permit<'_, K, M> {
    fn drop(&mut self) {
        self.pool.state.lock().unwrap_or_else(PoisonError::into_inner).busy -= 1;
        self.pool.room.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn machine_is_reused_for_its_configuration_only() {
        let pool = Pool::new();
        let (permit, machine) = pool.acquire(Some(&"a"));
        assert_eq!(machine, None);
        permit.release("a", 1);
        assert_eq!(pool.acquire(Some(&"b")).1, None);
        assert_eq!(pool.acquire(None).1, None);
        let (permit, machine) = pool.acquire(Some(&"a"));
        assert_eq!(machine, Some(1));
        drop(permit);
        assert_eq!(pool.acquire(Some(&"a")).1, None, "a machine that was not released was kept");
    }

    #[test]
    fn least_recently_used_machine_is_ended() {
        let pool = Pool::new();
        for (key, machine) in [("a", 1), ("b", 2)] {
            let (permit, _) = pool.acquire(Some(&key));
            permit.release(key, machine);
        }
        let (permit, _) = pool.acquire(Some(&"c"));
        permit.release("c", 3);
        assert_eq!(pool.acquire(Some(&"a")).1, None);
        assert_eq!(pool.acquire(Some(&"c")).1, Some(3));
    }

    #[test]
    fn number_of_machines_stays_within_the_limit() {
        static ALIVE: AtomicUsize = AtomicUsize::new(0);
        static MOST: AtomicUsize = AtomicUsize::new(0);

        struct Machine;
        impl Machine {
            fn start() -> Self {
                MOST.fetch_max(ALIVE.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                Self
            }
        }
        impl Drop for Machine {
            fn drop(&mut self) {
                ALIVE.fetch_sub(1, Ordering::SeqCst);
            }
        }

        let pool = Pool::new();
        thread::scope(|scope| {
            for worker in 0..6 {
                let pool = &pool;
                scope.spawn(move || {
                    for round in 0..200 {
                        let key = (worker + round) % 4;
                        let (permit, machine) = pool.acquire(Some(&key));
                        let machine = machine.unwrap_or_else(Machine::start);
                        thread::yield_now();
                        if round % 3 == 0 { permit.release(key, machine) } else { drop(machine) }
                    }
                });
            }
        });
        assert_eq!(MOST.load(Ordering::SeqCst), LIMIT);
    }
}
