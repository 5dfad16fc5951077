//! Tests of traces and latencies: the records agree with what has happened.

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use crate::entered::THREADS;
use gmp_sched::goroutine::WaitReason;
use gmp_sched::native::{self, Native};
use gmp_sched::park::{park, ready};
use gmp_sched::platform::{Pinned, Platform};
use gmp_sched::scheduler::Scheduler;
use gmp_sched::sim::{self, Config, Sim};
use gmp_sched::trace::{Event, EventKind, Track};

fn scheduler() -> &'static Scheduler<Sim> {
    Pinned::<Sim>::new().machine().scheduler()
}

/// Returns the events of all Ps, each with its P's number, ordered by time.
fn all_events<Plat: Platform>(scheduler: &'static Scheduler<Plat>) -> Vec<(usize, Event)> {
    let of = |index: usize| scheduler.processors()[index].trace().into_iter().map(move |event| (index, event));
    let mut events: Vec<_> = (0..scheduler.procs()).flat_map(of).collect();
    events.sort_by_key(|(_, event)| event.when);
    events
}

fn mixed_program() {
    let workers: Vec<_> = (0..20)
        .map(|number| {
            sim::go(move || {
                sim::work(Duration::from_micros(20));
                match number % 4 {
                    0 => sim::yield_now(),
                    1 => sim::sleep(Duration::from_micros(100)),
                    2 => sim::block(Duration::from_micros(100)),
                    _ => {}
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
}

#[test]
fn trace_shows_each_g_from_spawn_to_end() {
    for seed in 0..200 {
        let config = Config { cpus: 4, processors: [1, 2, 4][seed as usize % 3], seed, ..Config::default() };
        sim::run(config, move || {
            scheduler().start_trace(10_000).unwrap();
            mixed_program();
            scheduler().stop_trace();
            let events = all_events(scheduler());
            // A P runs at most one G at a time. So the G that has started last on a P is the next one to park, to end
            // or to be preempted there.
            let mut running = HashMap::new();
            for (processor, event) in &events {
                match event.kind {
                    EventKind::Start | EventKind::SyscallExit => {
                        running.insert(processor, event.goroutine);
                    }
                    EventKind::Park | EventKind::Preempt | EventKind::End => {
                        if let Some(started) = running.get(processor) {
                            assert_eq!(*started, event.goroutine, "seed {seed}: {event:?} on P{processor}");
                        }
                    }
                    _ => {}
                }
            }
            let spawned: Vec<_> = events.iter().filter(|(_, event)| event.kind == EventKind::Spawn).collect();
            assert_eq!(spawned.len(), 20, "seed {seed}");
            for (_, spawn) in spawned {
                let of = |kind| {
                    let mut found = events.iter().filter(|(_, e)| e.kind == kind && e.goroutine == spawn.goroutine);
                    (found.clone().count(), found.next().map(|(_, event)| event.when))
                };
                assert!(spawn.detail == 1, "seed {seed}: spawned by main");
                let ((_, start), (ends, end)) = (of(EventKind::Start), of(EventKind::End));
                assert!(Some(spawn.when) <= start, "seed {seed}: {spawn:?} {start:?}");
                // A G publishes its result before it leaves. So main may join the last G and stop the trace before the
                // end of that G is recorded.
                assert!(ends == 1 && start <= end || ends == 0, "seed {seed}: {spawn:?} {start:?} {end:?}");
            }
            assert!(scheduler().latencies().count() > 20, "seed {seed}");
        })
        .unwrap();
    }
}

#[test]
fn events_read_during_writes_are_whole() {
    THREADS.run_with(2, |scheduler| {
        scheduler.start_trace(64).unwrap();
        let writers: Vec<_> = (0..4)
            .map(|_| {
                native::go(|| {
                    for _ in 0..20_000 {
                        native::yield_now();
                    }
                })
            })
            .collect();
        // A scheduler may be reused by several tests, and the ids of its Gs continue to increase. The Gs of this test
        // have the highest ids.
        let latest = writers.iter().map(|writer| writer.id()).max().unwrap();
        while !writers.iter().all(|writer| writer.is_finished()) {
            for processor in scheduler.processors() {
                let events = processor.trace();
                assert!(events.is_sorted_by_key(|event| event.when), "{events:?}");
                assert!(events.iter().all(|event| event.goroutine.is_none_or(|id| id <= latest)), "{events:?}");
            }
            native::yield_now();
        }
    });
}

/// A thread that is not an M readies a G. The event is on the track of callers without a P.
#[test]
fn foreign_thread_that_readies_a_g_is_recorded() {
    THREADS.run_with(1, |scheduler| {
        scheduler.start_trace(1000).unwrap();
        let (to_thread, from_g) = std::sync::mpsc::channel();
        let woken = native::go(move || {
            park::<Native>(WaitReason::Parked, move |_, me| {
                to_thread.send(me).unwrap();
                true
            });
        });
        let id = woken.id();
        // SAFETY: the commit made the G known to this thread only, and uses nothing of the G's stack afterwards.
        let thread = thread::spawn(move || unsafe { ready(from_g.recv().unwrap()) });
        // Main stays runnable, because the scheduler does not know that the thread is to ready the G.
        while !woken.is_finished() {
            native::yield_now();
        }
        woken.join().unwrap();
        thread.join().unwrap();
        scheduler.stop_trace();
        let traces = scheduler.traces();
        let outside = traces.iter().find(|trace| trace.track == Track::Outside).unwrap();
        let readied = |event: &&Event| event.kind == EventKind::Ready && event.goroutine == Some(id);
        assert_eq!(outside.events.iter().filter(readied).count(), 1, "{outside:?}");
        let on_p = traces.iter().filter(|trace| trace.track != Track::Outside).flat_map(|trace| &trace.events);
        assert_eq!(on_p.filter(readied).count(), 0);
    });
}

#[test]
fn latencies_are_sampled_without_a_trace() {
    THREADS.run_with(1, |scheduler| {
        // The Gs that `passing` spawns share the slice of main, and are sampled when sysmon requests a sample. The Gs
        // that `yielding` spawns begin slices of their own, and are sampled at checks of the global queue.
        let passing = |_| native::go(|| {}).join().unwrap();
        let yielding = |_| native::go(native::yield_now).join().unwrap();
        for spawns in [&passing as &dyn Fn(u64), &yielding] {
            let before = scheduler.latencies().count();
            (0..100_000_000).take_while(|_| scheduler.latencies().count() < before + 10).for_each(spawns);
            assert!(scheduler.latencies().count() >= before + 10);
        }
        assert!(scheduler.latencies().percentile(50).is_some());
    });
}

/// Each value of a coroutine takes two direct switches, one to the coroutine and one back.
#[cfg(feature = "extras")]
#[test]
fn direct_switches_of_coroutines_are_recorded() {
    THREADS.run_with(1, |scheduler| {
        scheduler.start_trace(1000).unwrap();
        let mut values = native::pull(|yielder| assert!((0..5).all(|value| yielder.yield_value(value))));
        assert!((0..5).all(|value| values.next() == Some(value)));
        assert_eq!(values.next(), None);
        drop(values);
        scheduler.stop_trace();
        let events = scheduler.processors()[0].trace();
        let switches: Vec<_> = events.iter().filter(|event| event.kind == EventKind::Switch).collect();
        let main = switches[0].goroutine.unwrap().get();
        // The coroutine is resumed six times. It yields five times, and then ends, which readies main.
        assert_eq!(switches.len(), 11, "{events:?}");
        for (index, event) in switches.iter().enumerate() {
            let (from, to) = (event.goroutine.unwrap().get(), event.detail);
            assert_eq!(if index % 2 == 0 { from } else { to }, main, "{events:?}");
            assert_ne!(from, to);
        }
        let after: Vec<_> =
            events.iter().skip_while(|event| event.kind != EventKind::End).map(|event| event.kind).collect();
        assert!(after.contains(&EventKind::Start), "main runs again: {events:?}");
    });
}
