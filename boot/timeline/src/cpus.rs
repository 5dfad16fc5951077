//! What each CPU did: which threads it ran, and the interrupts that it took.

use gmp_sched::trace::{EventKind, Track};

use crate::Trace;

/// A thread that runs on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuThread {
    /// The thread of the M with this number.
    Machine(u64),
    /// A thread that is not an M, such as that of sysmon.
    Other,
}

/// A period in which a CPU ran one thread. In all other periods, the CPU halted, or the trace does not show what the
/// CPU ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuSlice {
    /// The CPU.
    pub cpu: u32,
    /// The thread that the CPU ran.
    pub thread: CpuThread,
    /// When the period began, in nanoseconds.
    pub from: u64,
    /// When the period ended.
    pub to: u64,
}

/// A period in which a CPU handled an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterruptSlice {
    /// The CPU.
    pub cpu: u32,
    /// The index of the interrupt's name in [`Trace::texts`].
    pub name: usize,
    /// When the interrupt came, in nanoseconds.
    pub from: u64,
    /// When the interrupt's handler returned.
    pub to: u64,
}

/// Returns the periods of all CPUs, in the order in which they ended.
pub(crate) fn slices(trace: &Trace) -> (Vec<CpuSlice>, Vec<InterruptSlice>) {
    let (mut threads, mut interrupts) = (Vec::new(), Vec::new());
    let mut current: Vec<Option<CpuSlice>> = vec![None; trace.cpus() as usize];
    let mut handled: Vec<Option<InterruptSlice>> = vec![None; trace.cpus() as usize];
    for entry in trace.events() {
        let (Track::Cpu(cpu), from) = (entry.track, entry.when) else { continue };
        let thread = match entry.kind {
            EventKind::RunMachine => Some(CpuThread::Machine(entry.detail)),
            EventKind::RunThread => Some(CpuThread::Other),
            EventKind::Halt => None,
            EventKind::Interrupt => {
                handled[cpu as usize] = Some(InterruptSlice { cpu, name: entry.detail as usize, from, to: from });
                continue;
            }
            EventKind::InterruptEnd => {
                interrupts.extend(handled[cpu as usize].take().map(|slice| InterruptSlice { to: from, ..slice }));
                continue;
            }
            _ => continue,
        };
        let begun = thread.map(|thread| CpuSlice { cpu, thread, from, to: from });
        let ended = std::mem::replace(&mut current[cpu as usize], begun);
        threads.extend(ended.map(|slice| CpuSlice { to: from, ..slice }));
    }
    let to = trace.duration();
    threads.extend(current.into_iter().flatten().map(|slice| CpuSlice { to, ..slice }));
    interrupts.extend(handled.into_iter().flatten().map(|slice| InterruptSlice { to, ..slice }));
    (threads, interrupts)
}
