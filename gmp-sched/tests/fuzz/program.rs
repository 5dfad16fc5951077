//! Random programs of safe calls on objects that all Gs of both schedulers share.
//!
//! Every wait has a limit, so that each program ends whatever its Gs do to each other: they drop handles and guards
//! anywhere, leave locks locked, close channels, panic, and make calls in system calls that are not allowed there.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;
use std::{mem, thread};

use gmp_sched::cancel::ContextError;
use gmp_sched::native::{
    self, CancelHandle, Chan, Condvar, Context, Lazy, Mutex, Once, RwLock, Semaphore, Timer, block_on, go, scope,
    sleep, try_after_func, try_pull, yield_now,
};
use gmp_sched::select;
use gmp_sched::select::{Select, recv, send};
use gmp_sched::sync::{LimitedMutex, LimitedRwLock};

use super::value::{Canary, Value, broken};

/// What the Gs of a program share.
pub(crate) struct Shared {
    channels: [Chan<Value>; 4],
    /// The last one may stay locked forever; waits for it always have a limit.
    mutexes: [Mutex<[u64; 8]>; 3],
    lock: RwLock<[u64; 8]>,
    condvar: Condvar,
    semaphore: Semaphore,
    once: Once,
    lazy: Lazy<Value>,
    root: (Context, CancelHandle),
    /// Work for the foreign thread.
    pub(crate) outside: mpsc::Sender<Outside>,
    /// Number of values that have been made and not dropped.
    pub(crate) alive: Arc<AtomicI64>,
    /// Number of Gs that have not ended.
    pub(crate) running: AtomicI64,
}

/// A task for the foreign thread.
pub(crate) type Outside = Box<dyn FnOnce() + Send>;

/// A panic payload that panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !thread::panicking() {
            panic_any("a bomb");
        }
    }
}

/// Counts a G while it runs, however it ends.
struct Running(Arc<Shared>);

impl Running {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.running.fetch_add(1, Ordering::AcqRel);
        Self(shared.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Shared {
    pub(crate) fn new(outside: mpsc::Sender<Outside>) -> Self {
        let alive = Arc::new(AtomicI64::new(0));
        Self {
            channels: [0, 0, 1, 3].map(Chan::new),
            mutexes: Default::default(),
            lock: RwLock::default(),
            condvar: Condvar::new(),
            semaphore: Semaphore::new(2),
            once: Once::new(),
            lazy: Lazy::new(|| Value::new(7, &Arc::new(AtomicI64::new(0)))),
            root: Context::background().with_cancel(),
            outside,
            alive,
            running: AtomicI64::new(0),
        }
    }
}

/// The longest wait of a single call.
const SHORT: Duration = Duration::from_micros(200);

/// Spawns one of the first Gs of a program, which takes `steps` steps.
pub(crate) fn start(shared: &Arc<Shared>, seed: u64, steps: u32) {
    let running = Running::new(shared);
    go(move || Fuzzer { random: fastrand::Rng::with_seed(seed), shared: &running.0, depth: 0 }.steps(steps)).detach();
}

/// One G's part of a program.
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
            // A panic of a G that is not joined ends the process, as documented.
            defuse(catch_unwind(AssertUnwindSafe(|| self.step())));
            canary.verify();
        }
    }

    fn step(&mut self) {
        match self.random.u32(..24) {
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
            _ => self.rest(),
        }
    }

    fn value(&mut self) -> Value {
        Value::new(self.random.u64(..), &self.shared.alive)
    }

    fn channel(&mut self) -> &'a Chan<Value> {
        &self.shared.channels[self.random.usize(..4)]
    }

    fn limit(&mut self) -> Duration {
        SHORT.mul_f32(self.random.f32())
    }

    fn send(&mut self) {
        let (value, limit, how) = (self.value(), self.limit(), self.random.u32(..3));
        let sender = self.channel().sender();
        match how {
            0 => drop(sender.try_send(value)),
            1 => drop(sender.send_timeout(value, limit)),
            _ => {
                let (context, _cancel) = self.shared.root.0.with_timeout(limit);
                drop(sender.send_until(value, &context));
            }
        }
    }

    fn receive(&mut self) {
        let (limit, how) = (self.limit(), self.random.u32(..3));
        let receiver = self.channel().receiver();
        let received = match how {
            0 => receiver.try_recv().ok(),
            1 => receiver.recv_timeout(limit).ok(),
            _ => {
                let (context, _cancel) = self.shared.root.0.with_timeout(limit);
                receiver.recv_until(&context).ok()
            }
        };
        verify(received);
    }

    fn select_macro(&mut self) {
        let (value, limit) = (self.value(), self.limit());
        let [one, two, three] = [(); 3].map(|()| self.channel().clone());
        if self.random.bool() {
            select! {
                recv(one.receiver()) -> received => verify(received.ok()),
                send(two.sender(), value) -> sent => drop(sent),
                recv(three.receiver()) -> received => verify(received.ok()),
                timeout(limit) => {}
            }
        } else {
            let mut kept = Some(value);
            select! {
                send_from(one.sender(), kept) -> sent => drop(sent),
                recv(two.receiver()) -> received => verify(received.ok()),
                recv(native::after(limit)) => {}
            }
            verify(kept);
        }
    }

    /// Cases that are stored, reused where possible, and dropped in every state.
    fn select_cases(&mut self) {
        let (value, limit, rounds) = (self.value(), self.limit(), self.random.u32(1..3));
        let [one, two] = [(); 2].map(|()| self.channel().clone());
        let (mut receiving, mut sending) = (recv(one.receiver()), send(two.sender(), value));
        let _ = catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..rounds {
                // Panics for a case whose value has been sent.
                let mut cases = [receiving.case(), sending.case()];
                let select = Select::new(&mut cases);
                let _ = if self.random.bool() { select.poll() } else { select.wait_timeout(limit) };
            }
        }));
        if self.random.bool() {
            verify(receiving.into_result().and_then(Result::ok));
            verify(sending.into_inner());
        }
    }

    fn lock(&mut self) {
        let (limit, index, waits) = (self.limit(), self.random.usize(..3), self.random.u32(..4) == 0);
        let leaked = index == 2 && self.random.u32(..100) == 0;
        let Ok(mut numbers) = self.shared.mutexes[index].lock_until(limit) else { return };
        verify_equal(&numbers[..]);
        let next = numbers[0] + 1;
        numbers.fill(next);
        if waits {
            // Panics in a system call.
            yield_now();
            if numbers.iter().any(|&number| number != next) {
                broken("two Gs were under one lock");
            }
        }
        if leaked {
            mem::forget(numbers);
        } else if waits {
            drop(numbers);
            sleep(limit / 8);
        }
    }

    fn lock_shared(&mut self) {
        let limit = self.limit();
        if self.random.u32(..4) == 0 {
            let Ok(mut numbers) = self.shared.lock.write_until(limit) else { return };
            let next = numbers[0] + 1;
            numbers.fill(next);
        } else if let Ok(numbers) = self.shared.lock.read_until(limit) {
            let first = numbers[0];
            yield_now();
            if numbers.iter().any(|&number| number != first) {
                broken("a G wrote under a lock that others had to read");
            }
        }
    }

    /// Waits with one mutex or the other: if another G waits with the other mutex, this panics, and keeps its lock.
    fn condvar(&mut self) {
        let (limit, all) = (self.limit(), self.random.bool());
        if self.random.bool() {
            if all {
                self.shared.condvar.notify_all()
            } else {
                usize::from(self.shared.condvar.notify_one())
            };
            return;
        }
        let Ok(mut numbers) = self.shared.mutexes[self.random.usize(..2)].lock_until(limit) else { return };
        let waited = catch_unwind(AssertUnwindSafe(|| self.shared.condvar.wait_for(&mut numbers, limit)));
        verify_equal(&numbers[..]);
        drop((waited, numbers));
    }

    fn semaphore(&mut self) {
        let (limit, permits) = (self.limit(), self.random.u32(1..4));
        let acquired = self.shared.semaphore.acquire_timeout(permits, limit);
        if self.random.u32(..8) == 0 {
            // More than there ever were: this panics, or the number of permits changes.
            let _ = catch_unwind(AssertUnwindSafe(|| self.shared.semaphore.release(u32::MAX)));
        }
        if self.random.bool() {
            yield_now();
        }
        drop(acquired);
    }

    /// Children that borrow from this frame, of a scope that may be left by a panic.
    fn scope(&mut self) {
        if self.depth == DEEPEST {
            return yield_now();
        }
        let canary = Canary::new(self.random.u64(..));
        let (shared, depth) = (self.shared, self.depth + 1);
        let children: Vec<(u64, u32)> =
            (0..self.random.u32(1..4)).map(|_| (self.random.u64(..), self.random.u32(..8))).collect();
        let (ends, body) = (self.random.u32(..6), self.random.u64(..));
        let ended = catch_unwind(AssertUnwindSafe(|| {
            scope(|scope| {
                for (seed, fate) in children {
                    let canary = &canary;
                    let child = scope.go(move || {
                        let mut fuzzer = Fuzzer { random: fastrand::Rng::with_seed(seed), shared, depth };
                        for _ in 0..3 {
                            fuzzer.step();
                            canary.verify();
                        }
                        match fate {
                            0 => panic_any("a child's panic"),
                            1 => panic_any(Bomb),
                            _ => fuzzer.value(),
                        }
                    });
                    match fate {
                        2 => drop(child),
                        3 => mem::forget(child),
                        4 => drop(child.join()),
                        _ => {}
                    }
                }
                match ends {
                    0 => panic_any("a body's panic"),
                    1 => panic_any(Bomb),
                    2 => native::goexit(),
                    _ => Fuzzer { random: fastrand::Rng::with_seed(body), shared, depth }.step(),
                }
            });
        }));
        canary.verify();
        defuse(ended);
    }

    fn spawn(&mut self) {
        if self.depth == DEEPEST {
            return yield_now();
        }
        let running = Running::new(self.shared);
        let (seed, depth, how) = (self.random.u64(..), self.depth + 1, self.random.u32(..6));
        // A child that is not joined must not panic, and the result of one whose handle is leaked is never dropped.
        let fate = match how {
            0 => self.random.u32(..8),
            1 => 2,
            _ => self.random.u32(2..8),
        };
        let handle = go(move || {
            let mut fuzzer = Fuzzer { random: fastrand::Rng::with_seed(seed), shared: &running.0, depth };
            fuzzer.steps(4);
            match fate {
                0 => panic_any("a G's panic"),
                1 => panic_any(Bomb),
                2 => native::goexit(),
                _ => fuzzer.value(),
            }
        });
        match how {
            0 => drop(handle.join()),
            1 => mem::forget(handle),
            2 => drop(handle),
            3 => handle.detach(),
            4 => self.outside(move || drop(handle)),
            _ => drop(handle.is_finished().then(|| handle.join())),
        }
    }

    /// Calls that wait or spawn must not be made in a system call; other calls may be.
    fn system_call(&mut self) {
        if self.depth == DEEPEST {
            return yield_now();
        }
        let mut inner = Fuzzer { random: self.random.fork(), shared: self.shared, depth: self.depth + 1 };
        let mut inside = move || {
            for _ in 0..2 {
                defuse(catch_unwind(AssertUnwindSafe(|| inner.step())));
            }
        };
        if self.random.bool() {
            native::syscall(&mut inside);
        } else {
            let _ = native::try_blocking(&mut inside);
        }
    }

    /// Makes the foreign thread do something that may wake a G.
    fn wake_from_outside(&mut self) {
        let (shared, value, which, index) =
            (self.shared.clone(), self.value(), self.random.u32(..7), self.random.usize(..4));
        let running = Running::new(self.shared);
        self.outside(move || {
            let channel = &shared.channels[index];
            match which {
                0 => drop(channel.sender().try_send(value)),
                1 => verify(channel.receiver().try_recv().ok()),
                2 => _ = shared.mutexes[index % 2].try_lock().map(|numbers| verify_equal(&numbers[..])),
                3 => drop(shared.semaphore.try_acquire(1)),
                4 => _ = shared.condvar.notify_all(),
                5 => _ = shared.lock.try_write().map(|mut numbers| numbers.fill(0)),
                // Only Gs may wait.
                _ => _ = catch_unwind(AssertUnwindSafe(|| channel.recv())),
            }
            drop(running);
        });
    }

    /// Calls `body` on a foreign thread.
    fn outside(&self, body: impl FnOnce() + Send + 'static) {
        if self.shared.outside.send(Box::new(body)).is_err() {
            broken("the thread outside has ended");
        }
    }

    fn timers(&mut self) {
        let (limit, how) = (self.limit(), self.random.u32(..5));
        match how {
            0 => {
                let timer = Timer::new(limit);
                let _ = timer.wait_until(limit / 2);
                timer.reset(limit);
                self.outside(move || drop(timer));
            }
            1 => {
                let running = Running::new(self.shared);
                if let Ok(function) = try_after_func(limit, move || {
                    drop(running.0.channels[3].sender().try_send(Value::new(1, &running.0.alive)));
                }) {
                    if self.random.bool() {
                        sleep(limit);
                    }
                    function.stop();
                }
            }
            2 => sleep(limit),
            3 => drop(Timer::new(limit).wait()),
            _ => yield_now(),
        }
    }

    fn coroutine(&mut self) {
        let (seed, count, end) = (self.random.u64(..), self.random.u32(..4), self.random.u32(..6));
        let alive = self.shared.alive.clone();
        let Ok(mut values) = try_pull(move |yielder| {
            let mut random = fastrand::Rng::with_seed(seed);
            while yielder.yield_value(Value::new(random.u64(..), &alive)) {
                if random.u32(..4) == 0 {
                    yield_now();
                }
                match random.u32(..24) {
                    0 => panic_any("a coroutine's panic"),
                    1 => panic_any(Bomb),
                    _ => {}
                }
            }
        }) else {
            return;
        };
        let taken = catch_unwind(AssertUnwindSafe(|| {
            for value in values.by_ref().take(count as usize) {
                value.verify();
            }
        }));
        match end {
            0 => defuse(catch_unwind(AssertUnwindSafe(|| values.stop()))),
            _ => defuse(catch_unwind(AssertUnwindSafe(|| drop(values)))),
        }
        defuse(taken);
    }

    /// A future that is woken at once, by a G, or by the foreign thread; and once more after its end.
    fn future(&mut self) {
        let (how, mut polls) = (self.random.u32(..3), 0);
        let outside = self.shared.outside.clone();
        block_on(poll_fn(move |task| {
            polls += 1;
            if polls > 2 {
                return Poll::Ready(());
            }
            let waker = task.waker().clone();
            match how {
                0 => waker.wake(),
                1 => go(move || waker.wake()).detach(),
                _ => {
                    let sent = outside.send(Box::new(move || {
                        waker.wake_by_ref();
                        waker.wake();
                    }));
                    if sent.is_err() {
                        broken("the thread outside has ended");
                    }
                }
            }
            Poll::Pending
        }));
    }

    fn contexts(&mut self) {
        let (limit, how) = (self.limit(), self.random.u32(..4));
        let (context, cancel) = self.shared.root.0.with_value(self.random.u64(..)).with_timeout(limit);
        match how {
            0 => self.outside(move || drop(cancel)),
            1 => self.outside(move || cancel.cancel()),
            2 => drop(cancel),
            _ => _ = context.sleep(limit / 2),
        }
        if !matches!(context.wait(), ContextError::Canceled | ContextError::DeadlineExceeded) {
            broken("a context has ended for no reason");
        }
    }

    fn rest(&mut self) {
        match self.random.u32(..6) {
            0 => self.shared.once.call_once(yield_now),
            1 => self.shared.lazy.verify(),
            2 => {
                if let Ok(locked) = native::try_lock_thread() {
                    yield_now();
                    drop(locked);
                }
            }
            3 => {
                let world = native::stop_the_world();
                // Without waits, because no other G runs that could end them.
                let value = self.channel().receiver().try_recv();
                drop(world);
                verify(value.ok());
            }
            4 if self.random.u32(..50) == 0 => _ = self.channel().close(),
            _ => _ = native::set_procs(self.random.usize(1..5)),
        }
    }
}

fn verify(value: Option<Value>) {
    value.inspect(Value::verify);
}

/// Drops a panic's payload, which may panic again.
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
