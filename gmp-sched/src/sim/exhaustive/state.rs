//! The state of an explored machine: what belongs to it, and what is left out.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use std::thread;

use super::invariants::elements;
use super::memory::MachineMemory;
use super::{Choice, Setting, Who};
use crate::base::instant::Instant;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::entities::status::Status;
use crate::kthread::Thread;
use crate::lifecycle::{closure, join};
use crate::sim::exhaustive::explored::Explored;
use crate::sim::simulation::{Entered, Simulation};
use crate::sim::{Config, Sim};

/// Maximum number of attempts to let a CPU step while a panic unwinds.
const LONGEST_UNWINDING: usize = 100_000;

/// An explored machine. Between two choices, each of its CPUs is stopped: at a point, at a lock, in a G's own code, or
/// because it halts.
pub(super) struct Explorable {
    /// The first field, because it must be dropped before the memory that contains the simulation.
    _entered: Entered,
    pub(super) memory: MachineMemory,
    pub(super) simulation: &'static Simulation,
    pub(super) scheduler: &'static Scheduler<Sim>,
    order: u64,
}

impl Explorable {
    /// Makes a machine in `memory` and runs its program up to `begin`. Returns an error if the program fails before.
    pub(super) fn new(setting: Setting, memory: MachineMemory, program: fn()) -> Result<Self, String> {
        let Setting { cpus, processors, procs_limit, ticks, order, reduces, .. } = setting;
        let config = Config { cpus, processors, procs_limit, seed: order, ..Config::default() };
        let simulation: &'static Simulation = memory.inside(|| {
            let explored = Explored::default();
            explored.ticks.set(ticks);
            explored.reduces.set(reduces);
            &*Box::leak(Box::new(Simulation::new(config, Some(explored))))
        });
        let entered = simulation.enter();
        let scheduler = memory.inside(|| simulation.set_up(None, Box::new(program)));
        let machine = Self { _entered: entered, memory, simulation, scheduler, order };
        let mut all = (0..cpus).cycle();
        while !machine.explored().has_begun.get() {
            let able = all.by_ref().take(cpus).find(|&cpu| simulation.can_step(cpu));
            let able = able.expect("the program never calls `begin`");
            machine.memory.inside(|| simulation.resume(able));
            if let Some(end) = machine.end() {
                end?;
                panic!("the program ends before it calls `begin`");
            }
        }
        Ok(machine)
    }

    pub(super) fn explored(&self) -> &'static Explored {
        self.simulation.explored.as_ref().expect("it is")
    }

    /// Whether `cpu` can step and make progress. A CPU that only computes or waits for another CPU makes no progress.
    pub(super) fn can_progress(&self, cpu: usize) -> bool {
        self.simulation.can_step(cpu) && !self.explored().waits[cpu].get()
    }

    fn able(&self) -> impl Iterator<Item = usize> {
        (0..self.simulation.cpus.len()).filter(|&cpu| self.simulation.can_step(cpu))
    }

    /// Returns every choice that is possible next.
    pub(super) fn choices(&self) -> Vec<Choice> {
        let mut choices = Vec::new();
        for cpu in self.able() {
            choices.push(Choice::Step { cpu, is_late: false });
            if self.simulation.cpus[cpu].may_be_late() {
                choices.push(Choice::Step { cpu, is_late: true });
            }
        }
        if (choices.is_empty() || self.explored().ticks.get() > 0) && self.simulation.next_deadline() != Instant::NEVER
        {
            choices.push(Choice::Tick);
        }
        choices
    }

    /// Carries out `choice`; returns how the program has ended, if it has.
    pub(super) fn carry_out(&self, choice: Choice) -> Option<Result<(), String>> {
        match choice {
            Choice::Step { cpu, is_late } => {
                self.explored().is_late.set(is_late);
                self.memory.inside(|| self.simulation.resume(cpu));
            }
            Choice::Tick => {
                if self.able().next().is_some() {
                    self.explored().ticks.set(self.explored().ticks.get() - 1);
                }
                self.simulation.advance_clock_to(self.simulation.next_deadline());
            }
        }
        self.end()
    }

    /// Returns how the program has ended, if it has. If a panic unwinds, first runs the machine until the panic has
    /// ended the program. All steps of this run are taken in one order. There is no need to try other orders, because
    /// the program has failed. And the search must not go back to a state before the panic, because a part of the
    /// panic is outside of the machine's memory: its report, and the count of the panics of this thread.
    fn end(&self) -> Option<Result<(), String>> {
        let first = self.simulation.running_cpu();
        for cpu in (0..self.simulation.cpus.len()).cycle().take(LONGEST_UNWINDING) {
            match self.simulation.take_end() {
                // Copies the message out of the arena.
                Some(Err(message)) => return Some(Err(message.as_str().into())),
                end if !thread::panicking() => return end,
                Some(Ok(())) => break,
                None => {}
            }
            let cpu = if self.can_progress(first) { first } else { cpu };
            if self.simulation.can_step(cpu) {
                self.memory.inside(|| self.simulation.resume(cpu));
            } else if self.able().next().is_none() && self.simulation.next_deadline() != Instant::NEVER {
                self.simulation.advance_clock_to(self.simulation.next_deadline());
            }
        }
        Some(Err("a panic unwinds, but the program goes on for ever or ends without an error".into()))
    }

    /// The ids of the M and the G on a CPU.
    pub(super) fn who(&self, cpu: usize) -> Who {
        let machine = self.simulation.cpus[cpu].machine.get();
        let goroutine = machine.and_then(Machine::current_goroutine);
        (machine.map(Machine::id), goroutine.map(Goroutine::id))
    }

    /// Describes which G runs on which M, P and CPU, which of them are idle, and what waits where.
    pub(super) fn situation(&self) -> String {
        use core::fmt::Write;

        let Self { simulation, scheduler, .. } = self;
        let mut text = String::new();
        let now = simulation.now();
        let mut write = |what: fmt::Arguments<'_>| text.write_fmt(what).expect("a string takes everything");
        write(format_args!("{now} {} {}; ", scheduler.is_stopping(), scheduler.procs()));
        for cpu in &simulation.cpus {
            write(format_args!("{:?} {}; ", cpu.machine.get().map(Machine::id), cpu.halts(now)));
        }
        for processor in scheduler.processors_ever() {
            let queue: Vec<_> = processor.queue.elements().map(Goroutine::id).collect();
            write(format_args!("{:?} {queue:?} {}; ", processor.status(), processor.timers.earliest()));
        }
        for machine in scheduler.machines() {
            let runs = machine.current_goroutine().map(Goroutine::id);
            write(format_args!("{:?} {:?} {runs:?}; ", machine.id(), machine.processor().map(Processor::id)));
        }
        for goroutine in scheduler.goroutines() {
            write(format_args!("{} {:?}; ", goroutine.id(), goroutine.status()));
        }
        if let Some(shared) = scheduler.shared.try_lock() {
            let idle: Vec<_> = elements(&shared.idle_machines).map(Machine::id).collect();
            let processors: Vec<_> = elements(&shared.idle_processors).map(Processor::id).collect();
            let global: Vec<_> = shared.global.iter().map(Goroutine::id).collect();
            write(format_args!("{idle:?} {processors:?} {global:?} {}", shared.blocked_machines));
        }
        text
    }

    fn threads(&self) -> impl Iterator<Item = &'static Thread<Sim>> {
        let machines = self.scheduler.machines().filter_map(|machine| machine.thread().copied());
        machines.chain(self.simulation.sysmon.get())
    }

    /// Clears the state on which no later step depends, and saves the rest; returns its hash.
    pub(super) fn save(&self) -> u128 {
        self.simulation.forget_history();
        self.explored().is_late.set(false);
        let now = Instant::from_nanos(self.simulation.now());
        self.explored().sites.iter().for_each(|site| site.set(None));
        self.scheduler.processors_ever().iter().for_each(|processor| processor.forget_history(self.order));
        self.scheduler.goroutines().for_each(|goroutine| goroutine.forget_times(now));
        if self.simulation.is_reduced() {
            self.simulation.threads.forget_links(self.threads());
            self.scheduler.processors_ever().iter().for_each(Processor::forget_links);
            self.scheduler.machines().for_each(Machine::forget_links);
        }
        let saved = self.saved_stack_pointers();
        let pointers: Vec<usize> = self
            .memory
            .stacks()
            .map(|stack| {
                let here = saved.iter().copied().filter(|pointer| (stack.start..stack.end).contains(pointer));
                here.min().unwrap_or(stack.end)
            })
            .collect();
        self.memory.save(&pointers)
    }

    /// Clears the contexts of the flows of control that run or have ended. Returns the saved stack pointers of the
    /// others, and the addresses from which on the stacks of Gs that have ended are still in use.
    fn saved_stack_pointers(&self) -> Vec<usize> {
        let mut saved: Vec<usize> = self.simulation.cpus.iter().map(|cpu| cpu.context.stack_pointer()).collect();
        let threads = self.threads().map(|thread| self.simulation.threads.context_of(thread));
        for (context, runs) in threads.chain(self.simulation.threads.idle_contexts()) {
            if runs { context.forget() } else { saved.push(context.stack_pointer()) }
        }
        for machine in self.scheduler.machines() {
            match machine.current_goroutine() {
                Some(_) => saved.push(machine.g0.stack_pointer()),
                None => machine.g0.forget(),
            }
        }
        for goroutine in self.scheduler.goroutines() {
            let runs = self
                .scheduler
                .machines()
                .any(|machine| machine.current_goroutine().is_some_and(|current| core::ptr::eq(current, goroutine)));
            if !runs && goroutine.status() != Status::Dead {
                saved.push(goroutine.context.stack_pointer());
                continue;
            }
            goroutine.context.forget();
            if runs && self.simulation.is_reduced() {
                goroutine.forget_link();
            }
            if !runs && join::has_result(goroutine) {
                saved.extend(closure::result_start(goroutine));
            }
        }
        saved.extend_from_slice(&self.explored().exited.borrow());
        saved
    }
}
