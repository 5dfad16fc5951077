//! Models of watchdog duty. A CPU becomes busy while the CPUs on duty go off duty; see `kthread/watchdog.rs`.

use loom::sync::Arc;
use loom::thread;

use super::explore;
use crate::kthread::watchdog::{CpuDuty, WatchdogDuty};

/// A computer with three CPUs.
struct Computer {
    duty: WatchdogDuty,
    cpus: [CpuDuty; 3],
}

impl Computer {
    fn new() -> Arc<Self> {
        Arc::new(Self { duty: WatchdogDuty::new(), cpus: [CpuDuty::new(), CpuDuty::new(), CpuDuty::new()] })
    }

    fn is_another_busy(&self, than: usize) -> bool {
        self.cpus.iter().enumerate().any(|(index, cpu)| index != than && cpu.is_busy())
    }

    /// Makes `cpu` busy. Returns whether it must call a halted CPU to watchdog duty.
    fn becomes_busy(&self, cpu: usize) -> bool {
        self.duty.becomes_busy(&self.cpus[cpu])
    }

    fn ticks(&self, cpu: usize) -> bool {
        self.duty.stays_on_duty(&self.cpus[cpu], || self.is_another_busy(cpu))
    }

    fn answers_call(&self, cpu: usize) -> bool {
        self.duty.answers_call(&self.cpus[cpu], || self.is_another_busy(cpu))
    }

    /// Whether another CPU is on duty.
    fn is_checked(&self, cpu: usize) -> bool {
        self.cpus.iter().enumerate().any(|(index, other)| index != cpu && other.is_on_duty())
    }
}

/// Tests the fences of `becomes_busy` and `stays_on_duty`. The last CPU on duty goes off duty while another CPU
/// becomes busy.
#[test]
fn cpu_becoming_busy_is_checked_while_the_last_on_duty_leaves() {
    explore(|| {
        let computer = Computer::new();
        // CPU 1 was busy and has become idle, but it is still on duty.
        assert!(computer.becomes_busy(1));
        computer.cpus[1].becomes_idle();
        let stops = thread::spawn({
            let computer = computer.clone();
            move || computer.ticks(1)
        });
        let calls = computer.becomes_busy(0);
        stops.join().unwrap();
        if calls {
            computer.answers_call(1);
        }
        assert!(computer.is_checked(0));
    });
}

/// CPUs 1 and 2 go off duty while CPU 0 becomes busy. If CPU 0 still counts one of them as on duty, it does not call a
/// halted CPU to duty. In that case the CPU that was counted must notice that CPU 0 is busy, and stay on duty.
#[test]
fn cpu_becoming_busy_is_checked_while_two_leave_duty() {
    explore(|| {
        let computer = Computer::new();
        for cpu in [1, 2] {
            let _ = computer.becomes_busy(cpu);
        }
        computer.cpus[1].becomes_idle();
        computer.cpus[2].becomes_idle();
        let stop = [1, 2].map(|cpu| {
            let computer = computer.clone();
            thread::spawn(move || computer.ticks(cpu))
        });
        let calls = computer.becomes_busy(0);
        for thread in stop {
            let _ = thread.join().unwrap();
        }
        if calls {
            computer.answers_call(1);
        }
        assert!(computer.is_checked(0));
    });
}

/// Two CPUs that become busy at the same time check each other, or one of them calls a third CPU to watchdog duty.
#[test]
fn two_cpus_becoming_busy_check_each_other_or_call() {
    explore(|| {
        let computer = Computer::new();
        let other = thread::spawn({
            let computer = computer.clone();
            move || computer.becomes_busy(1)
        });
        let calls = computer.becomes_busy(0) | other.join().unwrap();
        if calls {
            computer.answers_call(2);
        }
        assert!(computer.is_checked(0) && computer.is_checked(1));
    });
}
