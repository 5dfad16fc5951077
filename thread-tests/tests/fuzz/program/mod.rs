//! Random programs of safe calls on objects that all Gs share, including Gs of different schedulers.
//!
//! The parent module has a module `platform` with the aliases of one platform and what else differs between platforms.
//!
//! Each program ends, whatever its Gs do to each other. The reason is that a wait has a limit, unless the G waits for
//! something that is certain to happen: another G ends, a timer fires, or a lock that is never leaked is unlocked. The
//! Gs drop handles and guards anywhere, leave a lock locked, close channels, panic, and call functions that must not be
//! called in a system call. The drops of many values panic or wait.

mod bubbles;
mod children;
mod communication;
mod devices;
mod faults;
mod groups;
mod initializations;
mod locks;
mod outside;
mod time;

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use gmp_sched::device_signals::Signal;

use super::platform::{
    CancelHandle, Chan, Condvar, Context, Lazy, Mutex, Once, OnceCell, Outside, Pool, ReadMostlyRwLock, RwLock,
    Semaphore, SingleFlight, ThisPlatform, WaitGroup, go, sleep, yield_now,
};
use crate::value::{Canary, Value, Values, broken};

/// The objects that the Gs of a program share.
pub(crate) struct Shared {
    channels: [Chan<Value>; 4],
    /// The last mutex may stay locked forever, because its guard is sometimes leaked. Every wait for it has a limit.
    mutexes: [Mutex<[u64; 8]>; 3],
    lock: RwLock<[u64; 8]>,
    read_mostly: ReadMostlyRwLock<[u64; 8]>,
    condvar: Condvar,
    semaphore: Semaphore,
    once: Once,
    lazy: Lazy<Value>,
    cell: OnceCell<Value>,
    group: WaitGroup,
    pool: Pool<Value, Box<dyn Fn() -> Value + Send + Sync>>,
    flights: SingleFlight<u32, groups::Fetch>,
    /// The number that the next call of [`Shared::moment`] returns.
    moments: AtomicU64,
    signals: [&'static Signal<ThisPlatform>; 2],
    root: (Context, CancelHandle),
    outside: Outside,
    pub(crate) values: Arc<Values>,
    /// Number of values of [`Running`].
    pub(crate) running: Arc<AtomicI64>,
}

/// A panic payload that panics when it is dropped, unless the thread is already panicking.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !thread::panicking() {
            panic_any("a bomb");
        }
    }
}

/// Counts a G, a delayed function or a call from outside as running, from its creation until its closure has been
/// dropped. The closure owns this value.
struct Running {
    /// `None` only while this `Running` is being dropped. The drop releases the objects before it decrements the count,
    /// so that once the count is zero, no G shares the objects any more.
    shared: Option<Arc<Shared>>,
    count: Arc<AtomicI64>,
}

impl Running {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.running.fetch_add(1, Ordering::AcqRel);
        Self { shared: Some(shared.clone()), count: shared.running.clone() }
    }

    fn shared(&self) -> &Arc<Shared> {
        self.shared.as_ref().expect("it is not being dropped")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.shared.take());
        self.count.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Shared {
    pub(crate) fn new(outside: Outside) -> Self {
        let values = Arc::new(Values::default());
        let makes = values.clone();
        Self {
            channels: [0, 0, 1, 3].map(Chan::new),
            mutexes: Default::default(),
            lock: RwLock::default(),
            read_mostly: ReadMostlyRwLock::default(),
            condvar: Condvar::new(),
            semaphore: Semaphore::new(2),
            once: Once::new(),
            lazy: Lazy::new(|| Value::new(7, &Arc::default())),
            cell: OnceCell::new(),
            group: WaitGroup::new(),
            pool: Pool::new(2, Box::new(move || Value::new(8, &makes).with_panic(true))),
            flights: SingleFlight::new(),
            moments: AtomicU64::new(0),
            // A signal must live for ever.
            signals: [(); 2].map(|()| &*Box::leak(Box::default())),
            root: Context::background().with_cancel(),
            outside,
            values,
            running: Arc::default(),
        }
    }

    /// Returns the number of this moment. Later moments have larger numbers.
    fn moment(&self) -> u64 {
        self.moments.fetch_add(1, Ordering::AcqRel)
    }
}

/// The longest limit of a single wait.
const SHORT: Duration = Duration::from_micros(200);

/// Spawns one of the first Gs of a program. The G takes `steps` steps.
pub(crate) fn start(shared: &Arc<Shared>, seed: u64, steps: u32) {
    let running = Running::new(shared);
    go(move || Fuzzer { random: fastrand::Rng::with_seed(seed), shared: running.shared(), depth: 0 }.steps(steps))
        .detach();
}

/// The part of a program that one G runs.
struct Fuzzer<'a> {
    random: fastrand::Rng,
    shared: &'a Arc<Shared>,
    depth: u32,
}

/// Maximum depth of spawns.
const DEEPEST: u32 = 2;

impl<'a> Fuzzer<'a> {
    fn steps(&mut self, steps: u32) {
        for _ in 0..steps {
            let canary = Canary::new(self.random.u64(..));
            // A panic of a G that is not joined ends the process, as documented. So panics are caught here.
            defuse(catch_unwind(AssertUnwindSafe(|| self.step())));
            canary.verify();
        }
    }

    fn step(&mut self) {
        match self.random.u32(..40) {
            0..=2 => self.send(),
            3..=5 => self.receive(),
            6 | 7 => self.select_macro(),
            8 => self.select_cases(),
            9 | 10 => self.lock(),
            11 => self.lock_shared(),
            12 => self.condvar(),
            13 => self.semaphore(),
            14 | 15 => self.scope(),
            16 => self.spawn(),
            17 => self.system_call(),
            18 => self.wake_from_outside(),
            19 => self.timers(),
            20 => self.coroutine(),
            21 => self.future(),
            22 => self.contexts(),
            23 => self.upgradable(),
            24 => self.read_mostly(),
            25 => self.shared_group(),
            26 => self.task_group(),
            27 => self.error_group(),
            28 => self.fallible_scope(),
            29 => self.barrier(),
            30 => self.pool(),
            31 => self.single_flight(),
            32 => self.initialization(),
            33 => self.signal(),
            34 => self.bubble(),
            35 => self.blocking_call(),
            36 | 37 => self.commit(),
            38 => self.overwrite_trace(),
            _ => self.rest(),
        }
    }

    /// Makes a value, whose drop may panic. It must not be dropped where a panic ends the program.
    fn value(&mut self) -> Value {
        let value = self.harmless_value();
        value.with_panic(self.random.u32(..8) == 0).with_wait((self.random.u32(..8) == 0).then_some(wait_in_drop))
    }

    /// Makes a value whose drop does not panic.
    fn harmless_value(&mut self) -> Value {
        Value::new(self.random.u64(..), &self.shared.values)
    }

    fn channel(&mut self) -> &'a Chan<Value> {
        &self.shared.channels[self.random.usize(..4)]
    }

    fn limit(&mut self) -> Duration {
        SHORT.mul_f32(self.random.f32())
    }
}

/// What the drop of some values does. It waits if the caller may wait.
fn wait_in_drop() {
    let _ = catch_unwind(AssertUnwindSafe(|| {
        yield_now();
        sleep(Duration::from_micros(1));
    }));
}

fn verify(value: Option<Value>) {
    value.inspect(Value::verify);
}

/// Drops the payload of a panic, and catches a panic of that drop.
fn defuse(ended: thread::Result<()>) {
    if let Err(payload) = ended {
        let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
    }
}

fn verify_equal(numbers: &[u64]) {
    if numbers.iter().any(|number| *number != numbers[0]) {
        broken("two Gs were under one lock");
    }
}
