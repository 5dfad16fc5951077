//! Values and stack frames that detect errors: a value is dropped twice or read after its drop, or a frame is
//! overwritten.

use std::cell::Cell;
use std::panic::{PanicHookInfo, panic_any};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::{fmt, mem, process, thread};

thread_local! {
    /// The seed of the program that is simulated on this thread.
    static SIMULATED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Records that the calling thread simulates the program of this seed.
pub(crate) fn set_simulated_seed(seed: u64) {
    SIMULATED.set(Some(seed));
}

/// Ends the process because an invariant does not hold. (A panic would be caught by the program under test.)
pub(crate) fn broken(what: &str) -> ! {
    match SIMULATED.get() {
        Some(seed) => eprintln!("fuzz: {what}; repeat it with GMP_FUZZ_SEED={seed} simulated"),
        None => eprintln!("fuzz: {what}"),
    }
    process::abort();
}

/// Leaks `value`, as a program may do. On threads, only the first values of the process are leaked, and the others are
/// dropped. The reason is that each leaked handle keeps the stack of its G, and Linux allows a process 65,530 mappings.
/// In the simulator all are leaked, so that a program takes the same steps whichever programs ran before it.
pub(crate) fn leak<T>(value: T) {
    const MOST_LEAKED: u64 = 10_000;
    static LEAKED: AtomicU64 = AtomicU64::new(0);
    if SIMULATED.get().is_some() || LEAKED.fetch_add(1, Ordering::Relaxed) < MOST_LEAKED {
        mem::forget(value);
    }
}

/// Ends the process if the panic is a failed check inside of the library. (A panic of a caller that misuses the library
/// has the location of the call, because the public functions are `#[track_caller]`.)
pub(crate) fn check_panic(panic: &PanicHookInfo<'_>) {
    // This panic, too, has a location in the library, although the program is at fault: no single call is to blame.
    let is_of_commit = panic.payload_as_str().is_some_and(|message| message.starts_with("the commit of a park left"));
    if let Some(location) = panic.location()
        && location.file().contains("gmp-sched/src/")
        && !is_of_commit
    {
        broken(&format!("a panic inside of the library: {panic}"));
    }
}

/// The values of a program that are alive.
#[derive(Debug, Default)]
pub(crate) struct Values {
    /// Number of values that have been made and not dropped.
    count: AtomicI64,
    /// Set at the end of the program: from then on no value panics when it is dropped.
    are_harmless: AtomicBool,
}

impl Values {
    /// Number of values that have been made and not dropped.
    pub(crate) fn count(&self) -> i64 {
        self.count.load(Ordering::Relaxed)
    }

    /// From now on no value panics when it is dropped.
    pub(crate) fn become_harmless(&self) {
        self.are_harmless.store(true, Ordering::Relaxed);
    }
}

/// A value that is passed through channels and results.
#[derive(Debug)]
pub(crate) struct Value {
    number: u64,
    /// The complement of `number` until the value is dropped.
    check: u64,
    /// A heap allocation, so that a duplicate of the value causes a double free, which the allocator detects.
    boxed: Box<u64>,
    /// Whether the value panics when it is dropped. It never does while the thread is already panicking.
    panics: bool,
    /// What the drop of the value calls before anything else, unless the thread is already panicking.
    wait: Option<fn()>,
    values: Arc<Values>,
}

impl Value {
    pub(crate) fn new(number: u64, values: &Arc<Values>) -> Self {
        values.count.fetch_add(1, Ordering::Relaxed);
        Self { number, check: !number, boxed: Box::new(number), panics: false, wait: None, values: values.clone() }
    }

    /// Returns the value, whose drop panics if `panics` is set.
    pub(crate) fn with_panic(self, panics: bool) -> Self {
        let mut value = self;
        value.panics = panics;
        value
    }

    /// Returns the value, whose drop calls `wait` if it is given.
    pub(crate) fn with_wait(self, wait: Option<fn()>) -> Self {
        let mut value = self;
        value.wait = wait;
        value
    }

    pub(crate) fn verify(&self) {
        if self.check != !self.number || *self.boxed != self.number {
            broken("a value is not what it was made to be");
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.verify();
        self.number.fmt(f)
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.verify();
        if let Some(wait) =
            self.wait.filter(|_| !thread::panicking() && !self.values.are_harmless.load(Ordering::Relaxed))
        {
            wait();
            self.verify();
        }
        self.check = self.number;
        self.values.count.fetch_sub(1, Ordering::Relaxed);
        if self.panics && !thread::panicking() && !self.values.are_harmless.load(Ordering::Relaxed) {
            panic_any("a value's panic");
        }
    }
}

/// Numbers on the stack of a G. No other G may write them.
pub(crate) struct Canary([u64; 32]);

impl Canary {
    pub(crate) fn new(seed: u64) -> Self {
        Self(std::array::from_fn(|index| seed.rotate_left(index as u32)))
    }

    /// Ends the process if the numbers have changed. Children of a scope call this, too: they borrow the numbers from
    /// another G's frame.
    pub(crate) fn verify(&self) {
        let numbers = std::hint::black_box(&self.0);
        if numbers.iter().enumerate().any(|(index, &number)| number != numbers[0].rotate_left(index as u32)) {
            broken("a stack frame has been overwritten");
        }
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        self.verify();
        // Overwrites the numbers, so that a G that still borrows them detects the error.
        self.0 = std::hint::black_box([0x5AFE_DEAD; 32]);
    }
}
