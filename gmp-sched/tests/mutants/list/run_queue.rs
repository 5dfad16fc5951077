//! Mutants of the ring and `runnext`.

use super::Catcher::{Model, Nobody, Properties};
use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "base/run_queue.rs",
        "a push publishes the slot without Release",
        "        self.tail.store(tail.wrapping_add(1), Ordering::Release);
        Ok(())",
        "        self.tail.store(tail.wrapping_add(1), Ordering::Relaxed);
        Ok(())",
        Model("run_queue::owner_pushes"),
    ),
    mutant(
        "base/run_queue.rs",
        "a push writes the slot after the tail",
        "        self.slot(tail).store(Some(item), Ordering::Relaxed);
        self.tail.store(tail.wrapping_add(1), Ordering::Release);
        Ok(())",
        "        self.tail.store(tail.wrapping_add(1), Ordering::Release);
        self.slot(tail).store(Some(item), Ordering::Relaxed);
        Ok(())",
        Model("run_queue::owner_pushes"),
    ),
    mutant(
        "base/run_queue.rs",
        "a push overruns a full ring",
        "        if tail.wrapping_sub(head) >= Self::SIZE {
            return Err(Full);",
        "        if tail.wrapping_sub(head) > Self::SIZE {
            return Err(Full);",
        Properties("behaves_like"),
    ),
    mutant(
        "base/run_queue.rs",
        "a push does not wait for thieves to have read the slot",
        "        let head = self.head.load(Ordering::Acquire);
        let tail = self.tail.load(Ordering::Relaxed);
        if tail.wrapping_sub(head) >= Self::SIZE {",
        "        let head = self.head.load(Ordering::Relaxed);
        let tail = self.tail.load(Ordering::Relaxed);
        if tail.wrapping_sub(head) >= Self::SIZE {",
        Nobody(
            "the mutant differs only if a thief reads what the owner stores after it has seen the thief's claim, \
             although the claim follows the read. The language allows this (load buffering). x86 does not do it, and \
             loom, which runs one step after the other, cannot show it. The Acquire stays for the language.",
        ),
    ),
    mutant(
        "base/run_queue.rs",
        "pop takes from the ring without a compare-exchange",
        "            return self.head.compare_exchange(head, next, Ordering::AcqRel, Ordering::Relaxed).is_ok();",
        "            self.head.store(next, Ordering::Release);
            return true;",
        Model("run_queue::two_thieves"),
    ),
    mutant(
        "base/run_queue.rs",
        "pop takes runnext although a thief has taken it",
        "            return self.next.replace(next, None, Ordering::AcqRel, Ordering::Relaxed);",
        "            self.next.store(None, Ordering::Release);
            return true;",
        Model("run_queue::run_next"),
    ),
    mutant(
        "base/run_queue.rs",
        "pop empties runnext without Release",
        "            return self.next.replace(next, None, Ordering::AcqRel, Ordering::Relaxed);",
        "            return self.next.replace(next, None, Ordering::Acquire, Ordering::Relaxed);",
        Model("run_queue::queue_with_an_element_is_never_seen_empty"),
    ),
    mutant(
        "base/run_queue.rs",
        "is_empty loads runnext without Acquire",
        "            let next = self.next.load(Ordering::Acquire);",
        "            let next = self.next.load(Ordering::Relaxed);",
        Model("run_queue::queue_with_an_element_is_never_seen_empty"),
    ),
    mutant(
        "base/run_queue.rs",
        "is_empty does not load the tail a second time",
        "            if self.tail.load(Ordering::Acquire) == tail {
                return head == tail && next.is_none();
            }",
        "            return head == tail && next.is_none();",
        Model("run_queue::queue_with_an_element_is_never_seen_empty"),
    ),
    mutant(
        "base/run_queue.rs",
        "runnext is set without Release",
        "            self.next.store(Some(item), Ordering::Release);",
        "            self.next.store(Some(item), Ordering::Relaxed);",
        Model("run_queue::first_run_next_against_two_thieves"),
    ),
    mutant(
        "base/run_queue.rs",
        "runnext is exchanged without Release",
        "        self.next.swap(Some(item), Ordering::AcqRel)",
        "        self.next.swap(Some(item), Ordering::Acquire)",
        Model("run_queue::run_next"),
    ),
    mutant(
        "base/run_queue.rs",
        "an element displaced from runnext may already have been stolen",
        "        self.next.swap(Some(item), Ordering::AcqRel)",
        "        let kicked = self.next.load(Ordering::Relaxed);
        self.next.store(Some(item), Ordering::Release);
        kicked",
        Model("run_queue::run_next"),
    ),
    mutant(
        "base/run_queue.rs",
        "a thief takes runnext without a compare-exchange",
        "        self.next.replace(Some(next), None, Ordering::AcqRel, Ordering::Relaxed)",
        "        self.next.store(None, Ordering::Release);
        let _ = next;
        true",
        Model("run_queue::run_next"),
    ),
    mutant(
        "base/run_queue.rs",
        "a thief takes runnext without Acquire",
        "        self.next.replace(Some(next), None, Ordering::AcqRel, Ordering::Relaxed)",
        "        self.next.replace(Some(next), None, Ordering::Release, Ordering::Relaxed)",
        Model("run_queue::run_next"),
    ),
    mutant(
        "base/run_queue.rs",
        "a thief loads the tail without Acquire",
        "            let tail = self.tail.load(Ordering::Acquire);
            let length",
        "            let tail = self.tail.load(Ordering::Relaxed);
            let length",
        Model("run_queue::owner_pushes"),
    ),
    mutant(
        "base/run_queue.rs",
        "a thief claims elements without a compare-exchange",
        "            if self.head.compare_exchange(head, head.wrapping_add(count), Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return count;
            }",
        "            self.head.store(head.wrapping_add(count), Ordering::Release);
            return count;",
        Model("run_queue::two_thieves"),
    ),
    mutant(
        "base/run_queue.rs",
        "a thief copies the elements after its claim",
        "            for offset in 0..count {
                let item = self.slot(head.wrapping_add(offset)).load(Ordering::Relaxed);
                thief.slot(base.wrapping_add(offset)).store(item, Ordering::Relaxed);
            }
            S::point(Site::RunQueue);
            if self.head.compare_exchange(head, head.wrapping_add(count), Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return count;
            }",
        "            if self.head.compare_exchange(head, head.wrapping_add(count), Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                for offset in 0..count {
                    let item = self.slot(head.wrapping_add(offset)).load(Ordering::Relaxed);
                    thief.slot(base.wrapping_add(offset)).store(item, Ordering::Relaxed);
                }
                return count;
            }",
        Model("run_queue::owner_wraps"),
    ),
    mutant(
        "base/run_queue.rs",
        "a thief publishes what it stole without Release",
        "            thief.tail.store(base.wrapping_add(kept), Ordering::Release);",
        "            thief.tail.store(base.wrapping_add(kept), Ordering::Relaxed);",
        Model("run_queue::thief_is_stolen_from_while_it_steals"),
    ),
    mutant(
        "base/run_queue.rs",
        "a thief uses a head and a tail of different moments",
        "            if length > Self::SIZE {",
        "            if false {",
        Nobody(
            "the thief's claim fails, because the head has moved. Until then the thief has written only to unused \
             entries of its own ring. The check saves the copy and makes this argument unnecessary.",
        ),
    ),
    mutant(
        "base/run_queue.rs",
        "half of a full ring is moved away without a compare-exchange",
        "        if self.head.compare_exchange(head, head.wrapping_add(half), Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return None;
        }",
        "        self.head.store(head.wrapping_add(half), Ordering::Release);",
        Model("run_queue::overflow"),
    ),
];
