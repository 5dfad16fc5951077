//! Who looks at busy CPUs: one that begins against others that stop, as `kthread/watch.rs` describes it.

use loom::sync::Arc;
use loom::thread;

use super::explore;
use crate::kthread::watch::{Lookout, Lookouter};

/// A machine of three CPUs.
struct Machine {
    lookout: Lookout,
    cpus: [Lookouter; 3],
}

impl Machine {
    fn new() -> Arc<Self> {
        Arc::new(Self { lookout: Lookout::new(), cpus: [Lookouter::new(), Lookouter::new(), Lookouter::new()] })
    }

    fn is_another_busy(&self, than: usize) -> bool {
        self.cpus.iter().enumerate().any(|(index, cpu)| index != than && cpu.is_busy())
    }

    /// Returns whether another one is to be called.
    fn begins(&self, cpu: usize) -> bool {
        self.lookout.begins(&self.cpus[cpu])
    }

    fn ticks(&self, cpu: usize) -> bool {
        self.lookout.goes_on(&self.cpus[cpu], || self.is_another_busy(cpu))
    }

    fn is_called(&self, cpu: usize) -> bool {
        self.lookout.is_called(&self.cpus[cpu], || self.is_another_busy(cpu))
    }

    /// Whether somebody else looks at a busy CPU.
    fn is_watched(&self, cpu: usize) -> bool {
        self.cpus.iter().enumerate().any(|(index, other)| index != cpu && other.looks())
    }
}

/// The fences of `begins` and `goes_on`: one CPU halts and looks no more, while another one begins.
#[test]
fn one_begins_while_the_last_that_looks_stops() {
    explore(|| {
        let machine = Machine::new();
        // It has looked at a CPU that was busy and is not any more.
        assert!(machine.begins(1));
        machine.cpus[1].halts();
        let stops = thread::spawn({
            let machine = machine.clone();
            move || machine.ticks(1)
        });
        let calls = machine.begins(0);
        stops.join().unwrap();
        if calls {
            machine.is_called(1);
        }
        assert!(machine.is_watched(0));
    });
}

/// Two that look stop at once, one of them too late for the other's count.
#[test]
fn one_begins_while_two_that_look_stop() {
    explore(|| {
        let machine = Machine::new();
        for cpu in [1, 2] {
            let _ = machine.begins(cpu);
        }
        machine.cpus[1].halts();
        machine.cpus[2].halts();
        let stop = [1, 2].map(|cpu| {
            let machine = machine.clone();
            thread::spawn(move || machine.ticks(cpu))
        });
        let calls = machine.begins(0);
        for thread in stop {
            let _ = thread.join().unwrap();
        }
        if calls {
            machine.is_called(1);
        }
        assert!(machine.is_watched(0));
    });
}

/// Two that begin at once look at each other, or call.
#[test]
fn two_begin_at_once() {
    explore(|| {
        let machine = Machine::new();
        let other = thread::spawn({
            let machine = machine.clone();
            move || machine.begins(1)
        });
        let calls = machine.begins(0) | other.join().unwrap();
        if calls {
            machine.is_called(2);
        }
        assert!(machine.is_watched(0) && machine.is_watched(1));
    });
}
