//! Mutants of the park token.

use super::Catcher::Model;
use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "kthread/token.rs",
        "an unpark stores the token without Release",
        "self.state.compare_exchange(state, next, Ordering::AcqRel, Ordering::Relaxed)",
        "self.state.compare_exchange(state, next, Ordering::Acquire, Ordering::Relaxed)",
        Model("token::woken_thread_sees_what_all_givers_did"),
    ),
    mutant(
        "kthread/token.rs",
        "an unpark has no Acquire, so it may not see the thread's saved context",
        "self.state.compare_exchange(state, next, Ordering::AcqRel, Ordering::Relaxed)",
        "self.state.compare_exchange(state, next, Ordering::Release, Ordering::Relaxed)",
        Model("token::token_is_consumed_once_and_not_lost"),
    ),
    mutant(
        "kthread/token.rs",
        "a context is saved without Release",
        "self.state.compare_exchange(RUNNING, PARKED, Ordering::Release, Ordering::Relaxed)",
        "self.state.compare_exchange(RUNNING, PARKED, Ordering::Relaxed, Ordering::Relaxed)",
        Model("token::token_is_consumed_once_and_not_lost"),
    ),
    mutant(
        "kthread/token.rs",
        "a park overwrites a token that has come meanwhile",
        "        if self.state.compare_exchange(RUNNING, PARKED, Ordering::Release, Ordering::Relaxed).is_ok() {
            return true;
        }",
        "        if self.state.swap(PARKED, Ordering::Release) == RUNNING {
            return true;
        }",
        Model("token::"),
    ),
    mutant(
        "kthread/token.rs",
        "a park takes a token without Acquire",
        "self.state.compare_exchange(NOTIFIED, RUNNING, Ordering::Acquire, Ordering::Relaxed)",
        "self.state.compare_exchange(NOTIFIED, RUNNING, Ordering::Relaxed, Ordering::Relaxed)",
        Model("token::woken_thread_sees_what_all_givers_did"),
    ),
    mutant(
        "kthread/token.rs",
        "the far side takes a token without Acquire",
        "        self.state.swap(RUNNING, Ordering::Acquire);",
        "        self.state.swap(RUNNING, Ordering::Relaxed);",
        Model("token::woken_thread_sees_what_all_givers_did"),
    ),
    mutant(
        "kthread/token.rs",
        "an unpark that finds a token does not store it again",
        "            let next = if state == PARKED { RUNNING } else { NOTIFIED };",
        "            if state == NOTIFIED {
                return false;
            }
            let next = if state == PARKED { RUNNING } else { NOTIFIED };",
        Model("token::woken_thread_sees_what_all_givers_did"),
    ),
];
