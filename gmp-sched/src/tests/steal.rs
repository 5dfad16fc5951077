//! Tests of the order in which a thief visits the other Ps.

use alloc::vec;

use crate::engine::steal::steal_order;
use crate::entities::scheduler::PROCESSOR_LIMIT;

#[test]
fn every_order_visits_each_processor_once() {
    for count in (1..=64).chain([255, 1000, PROCESSOR_LIMIT]) {
        for random in (0..1000u32).map(|n| n.wrapping_mul(0x9E37_79B9)) {
            let mut seen = vec![false; count];
            for index in steal_order(count, random) {
                assert!(!seen[index], "{index} twice among {count} with {random}");
                seen[index] = true;
            }
            assert!(seen.iter().all(|&seen| seen));
        }
    }
}
