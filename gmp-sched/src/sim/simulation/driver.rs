//! The driver, which chooses the CPU that steps next, advances the clock, and ends the run.

use alloc::format;
use alloc::string::String;

use super::Simulation;
use crate::base::instant::Instant;
use crate::base::points::Site;
use crate::context::{self, Transfer, Word};
use crate::entities::scheduler::Scheduler;
use crate::sim::exhaustive::explored::Explored;
use crate::sim::{Sim, oracle};

/// Maximum duration of a step, in ns, without the time that a G computes in [`work`](crate::sim::work).
const LONGEST_STEP: u64 = 60;

/// What a switch between CPUs passes on.
const NOTHING: Transfer = Transfer { function: 0, subject: 0, argument: Word::uninit() };

impl Simulation {
    pub(super) fn drive(&self, scheduler: &'static Scheduler<Sim>) -> Result<(), String> {
        loop {
            if let Some(end) = self.end.take() {
                return end;
            }
            match self.choose(scheduler)? {
                Some(cpu) => self.resume(cpu),
                None => self.sleep_until_interrupt(scheduler)?,
            }
        }
    }

    /// Checks the oracles, chooses the CPU that takes the next step, and advances the clock to that step. Returns
    /// `None` if all CPUs halt, and an error if an oracle fails or the step limit is exceeded.
    fn choose(&self, scheduler: &'static Scheduler<Sim>) -> Result<Option<usize>, String> {
        if self.steps.get() > self.config.step_limit {
            return Err(format!("the step limit is reached: a livelock? Gs: {}", oracle::goroutines(scheduler)));
        }
        let mut able = self.able();
        let count = able.count_ones();
        if count == 0 {
            return Ok(None);
        }
        self.transients.check(scheduler, count as usize)?;
        for _ in 0..self.random() % u64::from(count) {
            // Removes the lowest CPU from the set.
            able &= able - 1;
        }
        self.advance(1 + self.random() % LONGEST_STEP);
        Ok(Some(able.trailing_zeros() as usize))
    }

    /// Returns the set of the CPUs that can step now. Bit n of the result is set if CPU n can.
    fn able(&self) -> u64 {
        (0..self.cpus.len()).filter(|&cpu| self.can_step(cpu)).fold(0, |able, cpu| able | 1 << cpu)
    }

    /// Checks the oracles, and advances the clock to the next interrupt. Called when all CPUs halt. Returns an error if
    /// an oracle fails or no interrupt will come.
    fn sleep_until_interrupt(&self, scheduler: &'static Scheduler<Sim>) -> Result<(), String> {
        let timer = self.cpus.iter().map(|cpu| cpu.timer()).min().unwrap_or(Instant::NEVER);
        oracle::when_all_halt(scheduler, timer)?;
        let next = self.next_deadline();
        if next == Instant::NEVER {
            return Err(format!("every CPU halts and nothing is to wake one; Gs: {}", oracle::goroutines(scheduler)));
        }
        self.advance_clock_to(next);
        Ok(())
    }

    #[expect(unsafe_code, reason = "resumes a CPU")]
    pub(in crate::sim) fn resume(&self, cpu: usize) {
        self.running.set(cpu);
        self.is_inside.set(true);
        let (driver, next) = (&raw const self.driver, &raw const self.cpus[cpu].context);
        if self.explored.is_some() {
            // SAFETY: the CPU's context was saved by `to_driver` or `switch_to`, or made by `boot`, and no CPU runs.
            unsafe { context::switch_with_clear_registers(driver, next, NOTHING) };
        } else {
            // SAFETY: the CPU's context was saved or made as in the other case, and no CPU runs.
            unsafe { context::switch(driver, next, NOTHING) };
        }
        self.is_inside.set(false);
    }

    /// Stops the CPU that runs. Returns when it takes its next step.
    pub(in crate::sim) fn stop(&self) {
        if self.explored.is_some() {
            return self.to_driver();
        }
        // The oracles are not part of the simulated machine, so their accesses must not count as steps of a CPU.
        self.is_inside.set(false);
        let scheduler = self.scheduler.get().expect("CPUs run after the scheduler is made");
        match self.choose(scheduler) {
            Ok(Some(next)) => self.switch_to(next),
            // All CPUs halt. The driver will find the same, because nothing changes until it runs, and will advance the
            // clock.
            Ok(None) => self.to_driver(),
            Err(message) => {
                *self.end.borrow_mut() = Some(Err(message));
                self.to_driver();
            }
        }
    }

    /// Switches from the running CPU directly to the CPU `next`. A switch to the driver in between would cost a second
    /// switch in every step. Returns when the CPU that was running takes its next step.
    #[expect(unsafe_code, reason = "leaves a CPU")]
    fn switch_to(&self, next: usize) {
        let from = self.running.replace(next);
        self.is_inside.set(true);
        if next != from {
            // SAFETY: the context of `next` was saved by this function or by `to_driver`, or made by `boot`, and only
            // `choose` decides which CPU runs. The code on `from` is at a point at which another CPU may run next.
            unsafe { context::switch(&raw const self.cpus[from].context, &raw const self.cpus[next].context, NOTHING) };
        }
    }

    /// Switches to the driver. Returns when this CPU takes its next step.
    #[expect(unsafe_code, reason = "leaves a CPU")]
    fn to_driver(&self) {
        // SAFETY: the driver waits in `resume`. The code on this CPU is at a point at which another CPU may run next.
        unsafe { context::switch(&raw const self.cpu().context, &raw const self.driver, NOTHING) };
    }

    /// A point at which the simulation's driver may let another CPU run, or deliver an interrupt to this CPU.
    pub(in crate::sim) fn step(&self, site: Option<Site>) {
        self.take_step(site, false);
    }

    /// Takes a [`step`](Self::step) on a CPU that computes or waits for another CPU.
    pub(in crate::sim) fn wait(&self) {
        self.take_step(None, true);
    }

    /// Called when a G computes on an explored machine. After `begin`, this is [`wait`](Self::wait). Before `begin`,
    /// `wait` would do nothing. So this function switches to the simulation's driver, which then runs the other CPUs.
    pub(in crate::sim) fn compute(&self, explored: &Explored) {
        if explored.has_begun.get() { self.wait() } else { self.to_driver() }
    }

    fn take_step(&self, site: Option<Site>, waits: bool) {
        if !self.is_inside.get() {
            return;
        }
        if let Some(explored) = &self.explored {
            if !explored.has_begun.get() {
                return;
            }
            explored.sites[self.running_cpu()].set(site);
            explored.waits[self.running_cpu()].set(waits);
        }
        self.steps.set(self.steps.get() + 1);
        self.stop();
        while self.cpu().take_interrupts() {}
    }

    /// Starts the exploration of every order of steps.
    pub(in crate::sim) fn begin(&self) {
        let explored = self.explored.as_ref().expect("a program that is explored");
        explored.has_begun.set(true);
        self.to_driver();
    }

    /// Ends the run with `result`. Called by code that runs on a simulated CPU.
    pub(in crate::sim) fn finish(&self, result: Result<(), String>) -> ! {
        *self.end.borrow_mut() = Some(result);
        self.to_driver();
        unreachable!("the run is over")
    }
}
