use crate::entities::processor::{GLOBAL_QUEUE_INTERVAL, Processor};
use crate::native::Native;

/// A G that is alone on its P and yields all the time advances the tick at each yield, without a pick by g0. So
/// 2^31 ticks may pass within a minute.
#[test]
fn slow_pick_stays_due_however_many_ticks_pass() {
    let processor = Processor::<Native>::new(0);
    assert!(!processor.needs_slow_pick());
    for passed in [0, 1, 1 << 31, 1 << 32] {
        processor.set_tick(GLOBAL_QUEUE_INTERVAL + passed);
        assert!(processor.needs_slow_pick() && processor.is_global_check_due(), "{passed} ticks later");
    }
}
