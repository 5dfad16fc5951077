//! Mutants of `base::modelled_lock`, which repeats the algorithm of `spin`'s mutex for loom. The mutants show that the
//! models would detect these errors in the algorithm.

use super::Catcher::Model;
use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "base/modelled_lock.rs",
        "a mutex is taken by a load and a store instead of a compare-exchange",
        "        let taken = self.lock.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();",
        "        let taken = !self.is_locked();
        self.lock.store(true, Ordering::Relaxed);",
        Model("lock::holder_of_a_spin_mutex_sees_what_the_previous_one_did"),
    ),
    mutant(
        "base/modelled_lock.rs",
        "a mutex is taken without Acquire",
        "self.lock.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)",
        "self.lock.compare_exchange_weak(false, true, Ordering::Relaxed, Ordering::Relaxed)",
        Model("lock::holder_of_a_spin_mutex_sees_what_the_previous_one_did"),
    ),
    mutant(
        "base/modelled_lock.rs",
        "a mutex is taken by try_lock without Acquire",
        "self.lock.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)",
        "self.lock.compare_exchange(false, true, Ordering::Relaxed, Ordering::Relaxed)",
        Model("lock::spin_mutex_that_is_held_is_not_taken_by_try_lock"),
    ),
    mutant(
        "base/modelled_lock.rs",
        "a mutex is released without Release",
        "        self.inner.lock.store(false, Ordering::Release);",
        "        self.inner.lock.store(false, Ordering::Relaxed);",
        Model("lock::holder_of_a_spin_mutex_sees_what_the_previous_one_did"),
    ),
    mutant(
        "base/modelled_lock.rs",
        "a mutex is not released by a holder that panics",
        "        self.inner.lock.store(false, Ordering::Release);",
        "        if !std::thread::panicking() {
            self.inner.lock.store(false, Ordering::Release);
        }",
        Model("lock::spin_mutex_of_a_holder_that_panics_is_released"),
    ),
];
