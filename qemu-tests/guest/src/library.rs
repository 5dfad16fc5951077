//! The shared tests of the library, from the same source as `gmp-sched/tests/library`.

/// The platform under test, as `shared` needs it.
mod platform {
    pub(crate) use kernel::platform::*;

    /// Maximum number of concurrent Gs of a test that takes many.
    pub(crate) const MANY: usize = 100_000;

    /// Runs `call` as a system call whose P sysmon may retake.
    pub(crate) fn syscall<R>(call: impl FnOnce() -> R) -> R {
        gmp_sched::syscall::syscall::<Kernel, _>(call)
    }

    /// Slices that have begun on the P of the calling G.
    pub(crate) fn tick() -> u64 {
        gmp_sched::platform::Pinned::<Kernel>::new().processor().tick()
    }
}

/// Makes the named function a test on 1, 2 and 8 CPUs, or on the given numbers.
macro_rules! shared_test {
    ($name:ident) => {
        shared_test!($name, procs = &[1, 2, 8]);
    };
    ($name:ident, procs = $procs:expr) => {
        guest_test!($name, smp = $procs, seconds = 60);
    };
}

#[path = "../../../gmp-sched/tests/shared/mod.rs"]
mod shared;

/// The list of Gs shows for what each G waits.
fn deadlock_on_channels_is_reported() {
    use gmp_sched::select::{Select, recv, send};
    use kernel::platform::{Kernel, Receiver, Sender, channel};
    use kernel::prelude::*;
    let (sender, receiver) = channel::<u8>(0);
    let (other, nobody) = (sender.clone(), receiver.clone());
    go(move || sender.send(1)).detach();
    yield_now();
    receiver.recv().unwrap();
    go(move || receiver.recv()).detach();
    go(|| Receiver::<u8>::never().recv()).detach();
    go(|| Sender::never().send(1)).detach();
    go(move || Select::new(&mut [recv(&nobody).case(), send(&Sender::never(), 1).case()]).wait()).detach();
    yield_now();
    let _kept_open = other;
    Select::<Kernel>::new(&mut []).wait();
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
