//! The tests in `gmp-sched/tests/shared`, run on the kernel. `thread-tests/tests/library` includes the same files, and
//! runs them on threads of an operating system.

/// What the module `shared` needs of the platform under test.
mod platform {
    pub(crate) use kernel::platform::*;

    /// Number of concurrent Gs in tests with many Gs.
    pub(crate) const MANY: usize = 100_000;

    /// Runs `call` as a system call whose P sysmon may retake.
    pub(crate) fn syscall<R>(call: impl FnOnce() -> R) -> R {
        gmp_sched::syscall::syscall::<Kernel, _>(call)
    }

    /// Returns how many slices have begun on the P of the calling G.
    pub(crate) fn tick() -> u64 {
        gmp_sched::platform::Pinned::<Kernel>::new().processor().tick()
    }
}

/// Turns the named function into a test, which runs on 1, 2 and 8 CPUs, or on the numbers of CPUs in `procs`.
macro_rules! shared_test {
    ($name:ident) => {
        shared_test!($name, procs = &[1, 2, 8]);
    };
    ($name:ident, procs = $procs:expr) => {
        guest_test!($name, smp = $procs, seconds = 60);
    };
}

use crate::several;

#[path = "../../../gmp-sched/tests/shared/mod.rs"]
mod shared;

/// Main waits for ever. No G waits for the ticker or for a timer, although one timer is still armed, because an earlier
/// select waited for it. So there is a deadlock, which is reported before this timer is due.
fn deadlock_beside_unread_timers_is_reported() {
    use kernel::prelude::*;
    const HOUR: Duration = Duration::from_secs(3600);
    let _unread = (Ticker::new(Duration::from_millis(10)), Timer::new(HOUR));
    let timer = Timer::new(HOUR);
    select! { recv(timer) => unreachable!(), timeout(Duration::from_millis(1)) => {} }
    select! {}
}
guest_test!(
    deadlock_beside_unread_timers_is_reported,
    smp = &[1, 2],
    isolated,
    status = 2,
    texts = &["fatal error: all goroutines are asleep - deadlock!", "goroutine 1 [select (no cases)"]
);

/// All Gs wait for channels, so there is a deadlock. The report shows what each G waits for.
fn deadlock_on_channels_is_reported() {
    use kernel::prelude::*;
    use kernel::select::{Select, recv, send};
    // The report lists the Gs in the order of their slots, the newest slot first. No G ends, so each slot is used once.
    let (_sender, receiver) = channel::<u8>(0);
    let nobody = receiver.clone();
    go(move || receiver.recv()).detach();
    go(|| Receiver::<u8>::never().recv()).detach();
    go(|| Sender::never().send(1)).detach();
    go(move || Select::new(&mut [recv(&nobody).case(), send(&Sender::never(), 1).case()]).wait()).detach();
    select! {}
}
guest_test!(
    deadlock_on_channels_is_reported,
    smp = &[1],
    isolated,
    status = 2,
    texts = &[
        "fatal error: all goroutines are asleep - deadlock!",
        "[select",
        "[chan send (nil chan)",
        "[chan receive (nil chan)",
        "[chan receive",
        "goroutine 1 [select (no cases)"
    ]
);
