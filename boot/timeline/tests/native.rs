//! Compares the timeline of a run on threads with the clock of the program.

use gmp_sched::native::{self, Native};
use gmp_sched::platform::Platform as _;
use std::time::Duration;
use timeline::Trace;
use timeline::model::{Activity, Model};

/// Main computes, sleeps and computes again. The trace ends with a mark.
#[test]
fn times_of_each_p_add_up_to_the_time_that_the_program_measures() {
    const PROCESSORS: u32 = 2;
    let now = || Native::now().as_nanos();
    let compute = move || {
        let end = now() + 20_000_000;
        while now() < end {}
    };
    // SAFETY: no G uses a thread-local variable.
    let threads = unsafe { native::enter() };
    let (traces, [before, begin, slept, woken, end, after]) = threads.run_with(PROCESSORS as usize, move |scheduler| {
        let before = now();
        scheduler.start_trace(10_000).expect("memory for a trace");
        let begin = now();
        compute();
        let slept = now();
        native::sleep(Duration::from_millis(20));
        let woken = now();
        compute();
        let end = now();
        native::mark("end");
        let after = now();
        scheduler.stop_trace();
        (scheduler.traces(), [before, begin, slept, woken, end, after])
    });
    let trace = Trace::new(traces);
    let model = Model::of(&trace);
    let sum_of = |processor, is_counted: &dyn Fn(Activity) -> bool| -> u64 {
        let slices = model.slices.iter().filter(|slice| slice.processor == processor && is_counted(slice.activity));
        slices.map(|slice| slice.to - slice.from).sum()
    };
    assert_eq!(trace.processors(), PROCESSORS);
    for processor in 0..PROCESSORS {
        let sum = sum_of(processor, &|_| true);
        assert!((end - begin..=after - before).contains(&sum), "P{processor}: {sum} ns, and {} ns", after - before);
    }
    let of_main = |activity| matches!(activity, Activity::Run(index) if trace.goroutines()[index].id == 1);
    let ran: u64 = (0..PROCESSORS).map(|processor| sum_of(processor, &of_main)).sum();
    let computed = slept - begin + (end - woken);
    assert!((computed..after - before).contains(&ran), "main ran {ran} ns, and computed {computed} ns");
}
