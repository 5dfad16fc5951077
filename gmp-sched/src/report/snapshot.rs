//! Numbers that describe the state of a scheduler. They are published periodically in memory that another program reads
//! meanwhile. Such a program may run, for example, on the host of a virtual machine.
//!
//! A [`Publisher`] writes the numbers, and [`Snapshot::from_words`] reads them. The memory consists of words of 64
//! bits. The first two words are [`MAGIC`] and a sequence number, which is odd while the publisher writes. So a reader
//! copies all words, and then loads the sequence number again. If it has changed, or is odd, the copy may be
//! inconsistent, and the reader copies again. The publisher never waits for a reader.
//!
//! ```
//! use gmp_sched::native;
//! use gmp_sched::snapshot::{Publisher, Snapshot, words};
//! use core::sync::atomic::{AtomicU64, Ordering};
//!
//! unsafe { native::enter() }.run_with(2, |scheduler| {
//!     let memory: &[AtomicU64] = Vec::leak((0..words(2)).map(|_| AtomicU64::new(0)).collect());
//!     let mut publisher = Publisher::new(scheduler, memory);
//!     publisher.publish();
//!     let copy: Vec<_> = memory.iter().map(|word| word.load(Ordering::Relaxed)).collect();
//!     let snapshot = Snapshot::from_words(&copy).expect("a consistent copy");
//!     assert_eq!(snapshot.processors.len(), 2);
//!     assert_eq!((snapshot.goroutines.running, snapshot.goroutines.waiting), (1, 0));
//!     assert!(snapshot.processors.iter().any(|processor| processor.goroutine == 1 && processor.busy == 1));
//! });
//! ```

use alloc::vec::Vec;

use crate::base::atomic::{AtomicU64, Ordering, fence};
use crate::entities::processor_status::ProcessorStatus;
use crate::entities::scheduler::Scheduler;
use crate::entities::status::Status;
use crate::platform::Platform;
use crate::record::counters::Counts;
use crate::record::latency::Latencies;
use crate::report::schedtrace::{goroutine_on, holder, is_idle};

/// The first word of the memory: the text `GMPSNAP1`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"GMPSNAP1");
/// The index of the word with the sequence number.
pub const SEQUENCE: usize = 1;
/// The number of words before those of the Ps.
const HEADER: usize = 32;
/// The number of words of a P.
const PROCESSOR: usize = 5;
/// The living Gs are counted only once in this many publications, because counting them takes longest.
const RECOUNT: u64 = 10;

/// The number of words that a scheduler with `processors` Ps needs.
#[must_use]
pub const fn words(processors: usize) -> usize {
    HEADER + processors * PROCESSOR
}

/// Numbers that describe the state of a scheduler. The numbers of Gs may be older than the other numbers, because the
/// Gs are counted only in every tenth publication.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The time of the platform's clock, in nanoseconds.
    pub when: u64,
    /// The length of the global queue.
    pub global_length: u64,
    /// The number of Ms.
    pub machines: u64,
    /// The number of Ms that are parked because there is nothing to run.
    pub idle_machines: u64,
    /// The number of Ms that search for work.
    pub spinning: u64,
    /// The number of Gs by status; see [`Goroutines`].
    pub goroutines: Goroutines,
    /// What all Ps have done since the scheduler's run began.
    pub totals: Totals,
    /// The longest time for which a sampled G was runnable before it ran, in nanoseconds, among the Gs that began to
    /// run since the previous publication. The time is rounded up to the end of its bucket in the histogram, which has
    /// four buckets for each power of two. 0 if no sampled G began to run.
    pub longest_wait: u64,
    /// How many times the state of each P was observed.
    pub observations: u64,
    /// The Ps in use.
    pub processors: Vec<ProcessorNumbers>,
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: u64,)*
        }

        impl $name {
            fn for_each_word(&self, mut put: impl FnMut(u64)) {
                $(put(self.$field);)*
            }

            fn from_words(words: &mut impl Iterator<Item = u64>) -> Option<Self> {
                Some(Self { $($field: words.next()?,)* })
            }
        }
    };
}

words! {
    /// How many Gs are in each state.
    Goroutines {
        /// On a run queue.
        runnable,
        /// Running on an M.
        running,
        /// In a system call.
        syscall,
        /// Parked.
        waiting,
        /// Made, but not started.
        idle,
    }
}

words! {
    /// What all Ps together have done.
    Totals {
        /// The number of times that a G parked, yielded, was preempted or displaced, or ended. A yield counts even if
        /// no other G ran first. The direct switches between the Gs of a coroutine do not count.
        switches,
        /// Gs spawned.
        spawns,
        /// The number of times that an M with a P readied a G.
        readies,
        /// The number of times that a G was preempted or displaced.
        preemptions,
        /// Steals that found Gs.
        steals,
        /// The number of times that a waiting M took over a P that was assigned to it.
        wakes,
        /// The number of times that a P was handed off, by an M whose G entered a blocking call, or by sysmon.
        handoffs,
    }
}

words! {
    /// Numbers that describe one P.
    ProcessorNumbers {
        /// The number of the [`ProcessorStatus`].
        status,
        /// The number of the G that the P runs; 0 if there is none.
        goroutine,
        /// The number of Gs in the local queue, without `runnext`.
        queue_length,
        /// How many of the observations found the P in use, that is, neither idle nor stopped.
        busy,
        /// The number of slices that have begun.
        tick,
    }
}

impl From<Counts> for Totals {
    fn from(counts: Counts) -> Self {
        let preemptions = counts.preemptions + counts.displacements;
        Self {
            switches: counts.parks + counts.yields + preemptions + counts.finished,
            spawns: counts.spawned,
            readies: counts.readies,
            preemptions,
            steals: counts.steals,
            wakes: counts.wakes,
            handoffs: counts.handoffs + counts.retakes,
        }
    }
}

impl Snapshot {
    /// Converts a copy of the memory. Returns `None` if the publisher has not written yet, was writing while the first
    /// words were copied, or published more words than the copy contains.
    #[must_use]
    pub fn from_words(memory: &[u64]) -> Option<Self> {
        let mut words = memory.iter().copied();
        if words.next()? != MAGIC || !words.next()?.is_multiple_of(2) {
            return None;
        }
        let mut next = || words.next();
        let (processors, when, global_length, machines) = (next()?, next()?, next()?, next()?);
        let (idle_machines, spinning, longest_wait, observations) = (next()?, next()?, next()?, next()?);
        let goroutines = Goroutines::from_words(&mut words)?;
        let totals = Totals::from_words(&mut words)?;
        let mut of_processors = memory.get(HEADER..)?.iter().copied();
        let processors = (0..processors).map(|_| ProcessorNumbers::from_words(&mut of_processors));
        Some(Self {
            when,
            global_length,
            machines,
            idle_machines,
            spinning,
            goroutines,
            totals,
            longest_wait,
            observations,
            processors: processors.collect::<Option<_>>()?,
        })
    }
}

/// Publishes the numbers of a scheduler in memory. The thread that publishes need not be an M.
#[derive(Debug)]
pub struct Publisher<Plat: Platform> {
    scheduler: &'static Scheduler<Plat>,
    memory: &'static [AtomicU64],
    observations: u64,
    goroutines: Goroutines,
    latencies: Latencies,
}

impl<Plat: Platform> Publisher<Plat> {
    /// Makes a publisher that writes into `memory`. Nothing else may write into this memory.
    ///
    /// # Panics
    ///
    /// The memory has fewer than [`words`](fn@words)`(1)` words.
    #[must_use]
    #[track_caller]
    pub fn new(scheduler: &'static Scheduler<Plat>, memory: &'static [AtomicU64]) -> Self {
        assert!(memory.len() >= words(1), "{} words of memory are too few", memory.len());
        memory.iter().take(words(scheduler.procs_limit())).for_each(|word| word.store(0, Ordering::Relaxed));
        Self { scheduler, memory, observations: 0, goroutines: Goroutines::default(), latencies: Latencies::default() }
    }

    /// Observes the Ps, and publishes the numbers. Takes no lock and does not allocate; Ps for which the memory has no
    /// room are left out.
    pub fn publish(&mut self) {
        if self.observations.is_multiple_of(RECOUNT) {
            self.goroutines = self.count_goroutines();
        }
        self.observations += 1;
        let latencies = self.scheduler.latencies();
        let longest_wait = latencies.longest_since(&self.latencies);
        self.latencies = latencies;
        // The sequence number is computed and not loaded, because other code may write to the memory.
        let sequence = 2 * self.observations;
        self.memory[SEQUENCE].store(sequence - 1, Ordering::Relaxed);
        // Ordering: Release, so that a reader that copies one of the words below also finds the odd sequence number
        // when it loads that number after the copy. Partner: the second load of the sequence number by the reader.
        fence(Ordering::Release);
        self.write(longest_wait);
        self.memory[0].store(MAGIC, Ordering::Relaxed);
        // Ordering: Release publishes the words. Partner: the first load of the sequence number by the reader.
        self.memory[SEQUENCE].store(sequence, Ordering::Release);
    }

    fn write(&self, longest_wait: u64) {
        let scheduler = self.scheduler;
        let room = (self.memory.len() - HEADER) / PROCESSOR;
        let processors = scheduler.processors().iter().take(room);
        let mut rest = self.memory[SEQUENCE + 1..HEADER].iter();
        let mut put = |word| rest.next().expect("the header has room").store(word, Ordering::Relaxed);
        put(processors.len() as u64);
        put(Plat::now().as_nanos());
        put(scheduler.global_length.load(Ordering::Relaxed) as u64);
        put(scheduler.machines().count() as u64);
        put(scheduler.machines().filter(|machine| is_idle(machine)).count() as u64);
        put(scheduler.spinning.load(Ordering::Relaxed).into());
        put(longest_wait);
        put(self.observations);
        self.goroutines.for_each_word(&mut put);
        Totals::from(scheduler.counts()).for_each_word(&mut put);
        for (processor, words) in processors.zip(self.memory[HEADER..].chunks_exact(PROCESSOR)) {
            let status = processor.status();
            let goroutine = holder(scheduler, processor).and_then(goroutine_on);
            let is_busy = match status {
                ProcessorStatus::Running | ProcessorStatus::Syscall => 1,
                _ => 0,
            };
            // `busy` continues from its value in the previous publication, which is still in the memory, unless other
            // code has written there. Any value is valid.
            let numbers = ProcessorNumbers {
                status: status as u64,
                goroutine: goroutine.map_or(0, |goroutine| goroutine.id().get()),
                queue_length: processor.queue_length() as u64,
                busy: words[3].load(Ordering::Relaxed).wrapping_add(is_busy),
                tick: processor.tick(),
            };
            let mut words = words.iter();
            numbers.for_each_word(|word| words.next().expect("a word for each number").store(word, Ordering::Relaxed));
        }
    }

    fn count_goroutines(&self) -> Goroutines {
        let mut counts = Goroutines::default();
        for goroutine in self.scheduler.goroutines() {
            match goroutine.status() {
                Status::Idle => counts.idle += 1,
                Status::Runnable => counts.runnable += 1,
                Status::Running => counts.running += 1,
                Status::Syscall => counts.syscall += 1,
                Status::Waiting => counts.waiting += 1,
                Status::Dead => {}
            }
        }
        counts
    }
}
