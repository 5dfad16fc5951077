//! Tests of operations in contexts that do not allow them. Each operation that the table in
//! `kernel/src/cpu/contexts.md` forbids must panic, with a message that names the context.

use gmp_sched::device_signals::Signal;
use gmp_sched::platform::{Pinned, Platform as _};
use gmp_sched::preempt;
use kernel::internals;
use kernel::percpu::{CpuId, PreemptGuard};
use kernel::platform::Kernel;
use kernel::prelude::*;
use kernel::sync::{InterruptMutex, PreemptMutex};

use crate::vectors;

static HANDLERS: InterruptMutex<()> = InterruptMutex::new(());
static THREADS: PreemptMutex<()> = PreemptMutex::new(());

fn block() {
    static GROUP: WaitGroup = WaitGroup::new();
    GROUP.add(1);
    GROUP.wait();
}

fn spawn() {
    go(|| ()).detach();
}

fn allocate() {
    core::hint::black_box(Box::new(0));
}

/// Memory that [`free`] frees. Each test fills it before it enters the context.
static GARBAGE: spin::Mutex<Option<Box<u32>>> = spin::Mutex::new(None);

fn free() {
    drop(GARBAGE.try_lock().and_then(|mut garbage| garbage.take()).expect("filled by the test"));
}

fn unpark() {
    Kernel::unpark_thread(Pinned::<Kernel>::new().machine());
}

fn request_preemption() {
    Kernel::request_preemption(Pinned::<Kernel>::new().machine());
}

fn raise() {
    static SIGNAL: Signal<Kernel> = Signal::new();
    SIGNAL.raise();
}

fn take_preempt_mutex() {
    drop(THREADS.lock());
}

fn make_system_call() {
    let _ = kernel::disk::delay(Duration::from_micros(1));
}

/// Interrupts the calling G and runs `body` in the handler. There must be only one CPU.
fn in_handler(body: fn()) {
    static BODY: InterruptMutex<Option<fn()>> = InterruptMutex::new(None);
    *BODY.lock() = Some(body);
    let vector = vectors::allocate(|_| {
        let body = *BODY.lock();
        body.expect("set before the interrupt")();
    });
    vectors::send(CpuId::BOOT, vector);
    loop {
        core::hint::spin_loop();
    }
}

fn with_interrupt_mutex_held(body: fn()) {
    let _held = HANDLERS.lock();
    body();
}

fn with_interrupts_off(body: fn()) {
    Kernel::with_cpu_tracer(|_| body());
}

fn pinned(body: fn()) {
    let _pinned = PreemptGuard::new();
    body();
}

/// Runs `leak`, which leaks a guard, in a G. The G ends when `leak` has returned.
fn in_a_goroutine_that_leaks(leak: fn()) {
    go(leak).join().expect("the G does not end");
}

fn in_nmi(body: fn()) {
    internals::as_if_in_nmi(body);
}

/// Defines a test that performs `$act` in `$context`. The panic must end the machine, and its report must name the
/// operation and the context. If `$act` runs in a handler, the kernel is at fault, so the status must be 101. If `$act`
/// runs in a G that is pinned, holds a lock or has interrupts off, the program is at fault, so the status must be 2.
macro_rules! refused {
    ($name:ident: in_handler($act:expr), $($text:literal),+) => {
        refused!($name, in_handler($act), 101, "panic on CPU 0", $($text),+);
    };
    ($name:ident: in_nmi($act:expr), $($text:literal),+) => {
        refused!($name, in_nmi($act), 101, "panic on CPU 0", $($text),+);
    };
    ($name:ident: $context:ident($act:expr), $($text:literal),+) => {
        refused!($name, $context($act), 2, "panic at ", $($text),+);
    };
    ($name:ident, $context:ident($act:expr), $status:literal, $panic:literal, $what:literal, $place:literal) => {
        fn $name() {
            *GARBAGE.lock() = Some(Box::new(1));
            $context($act);
        }
        guest_test!(
            $name,
            isolated,
            smp = &[1],
            status = $status,
            texts = &[$panic, concat!($what, " ", $place), stringify!($name)]
        );
    };
}

refused!(handler_that_blocks_is_refused: in_handler(block), "a G blocks, yields or ends", "in the handler of an interrupt");
refused!(handler_that_yields_is_refused: in_handler(yield_now), "a G blocks, yields or ends", "in the handler of an interrupt");
refused!(handler_that_exits_is_refused: in_handler(|| goexit()), "a G blocks, yields or ends", "in the handler of an interrupt");
refused!(handler_that_spawns_is_refused: in_handler(spawn), "a G is spawned", "in the handler of an interrupt");
refused!(handler_that_allocates_is_refused: in_handler(allocate), "memory is allocated or freed", "in the handler of an interrupt");
refused!(handler_that_makes_a_system_call_is_refused: in_handler(make_system_call), "a G blocks, yields or ends", "in the handler of an interrupt");
refused!(handler_that_frees_is_refused: in_handler(free), "memory is allocated or freed", "in the handler of an interrupt");
refused!(
    handler_that_takes_a_preempt_mutex_is_refused: in_handler(take_preempt_mutex),
    "a `PreemptMutex` is taken", "in the handler of an interrupt"
);

refused!(
    blocking_with_an_interrupt_mutex_is_refused: with_interrupt_mutex_held(block),
    "a G blocks, yields or ends", "with an `InterruptMutex` held since qemu-tests/guest/src/contexts.rs:"
);
refused!(
    yielding_with_an_interrupt_mutex_is_refused: with_interrupt_mutex_held(yield_now),
    "a G blocks, yields or ends", "with an `InterruptMutex` held since qemu-tests/guest/src/contexts.rs:"
);
refused!(
    spawning_with_an_interrupt_mutex_is_refused: with_interrupt_mutex_held(spawn),
    "a G is spawned", "with an `InterruptMutex` held since qemu-tests/guest/src/contexts.rs:"
);
refused!(
    allocating_with_an_interrupt_mutex_is_refused: with_interrupt_mutex_held(allocate),
    "memory is allocated or freed", "with an `InterruptMutex` held since qemu-tests/guest/src/contexts.rs:"
);
refused!(
    preempt_mutex_under_an_interrupt_mutex_is_refused: with_interrupt_mutex_held(take_preempt_mutex),
    "a `PreemptMutex` is taken", "with an `InterruptMutex` held since qemu-tests/guest/src/contexts.rs:"
);
refused!(
    system_call_with_an_interrupt_mutex_is_refused: with_interrupt_mutex_held(make_system_call),
    "a G blocks, yields or ends", "with an `InterruptMutex` held since qemu-tests/guest/src/contexts.rs:"
);

refused!(
    exiting_with_an_interrupt_mutex_is_refused: with_interrupt_mutex_held(|| goexit()),
    "a G blocks, yields or ends", "with an `InterruptMutex` held since qemu-tests/guest/src/contexts.rs:"
);
refused!(
    freeing_with_an_interrupt_mutex_is_refused: with_interrupt_mutex_held(free),
    "memory is allocated or freed", "with an `InterruptMutex` held since qemu-tests/guest/src/contexts.rs:"
);

// If a G yielded or blocked in a closure that runs with interrupts off, the next G would run with interrupts off.
refused!(
    yielding_with_interrupts_off_is_refused: with_interrupts_off(yield_now),
    "a G blocks, yields or ends", "with interrupts turned off since qemu-tests/guest/src/contexts.rs:"
);
refused!(
    blocking_with_interrupts_off_is_refused: with_interrupts_off(block),
    "a G blocks, yields or ends", "with interrupts turned off since qemu-tests/guest/src/contexts.rs:"
);
refused!(
    allocating_with_interrupts_off_is_refused: with_interrupts_off(allocate),
    "memory is allocated or freed", "with interrupts turned off since qemu-tests/guest/src/contexts.rs:"
);

refused!(pinned_goroutine_that_blocks_is_refused: pinned(block), "a G blocks, yields or ends", "with preemption turned off");
refused!(pinned_goroutine_that_yields_is_refused: pinned(yield_now), "a G blocks, yields or ends", "with preemption turned off");
refused!(pinned_goroutine_that_exits_is_refused: pinned(|| goexit()), "a G blocks, yields or ends", "with preemption turned off");
refused!(
    pinned_goroutine_that_makes_a_system_call_is_refused: pinned(make_system_call),
    "a G blocks, yields or ends", "with preemption turned off"
);
refused!(
    pinned_goroutine_that_gives_way_is_refused: pinned(|| drop(preempt::give_way(Pinned::<Kernel>::new()))),
    "a G blocks, yields or ends", "with preemption turned off"
);

refused!(
    nmi_that_takes_an_interrupt_mutex_is_refused: in_nmi(|| drop(HANDLERS.lock())),
    "an `InterruptMutex` is taken", "in the handler of a non-maskable interrupt"
);
refused!(nmi_that_prints_is_refused: in_nmi(|| println!("from an NMI")), "an `InterruptMutex` is taken", "in the handler of a non-maskable");
refused!(nmi_that_blocks_is_refused: in_nmi(block), "a G blocks, yields or ends", "in the handler of a non-maskable");
refused!(nmi_that_spawns_is_refused: in_nmi(spawn), "a G is spawned", "in the handler of a non-maskable");
refused!(nmi_that_allocates_is_refused: in_nmi(allocate), "memory is allocated or freed", "in the handler of a non-maskable");

refused!(nmi_that_frees_is_refused: in_nmi(free), "memory is allocated or freed", "in the handler of a non-maskable");
refused!(nmi_that_yields_is_refused: in_nmi(yield_now), "a G blocks, yields or ends", "in the handler of a non-maskable");
refused!(nmi_that_exits_is_refused: in_nmi(|| goexit()), "a G blocks, yields or ends", "in the handler of a non-maskable");
refused!(nmi_that_makes_a_system_call_is_refused: in_nmi(make_system_call), "a G blocks, yields or ends", "in the handler of a non-maskable");
refused!(nmi_that_takes_a_preempt_mutex_is_refused: in_nmi(take_preempt_mutex), "a `PreemptMutex` is taken", "in the handler of a non-maskable");
refused!(nmi_that_unparks_is_refused: in_nmi(unpark), "a thread is unparked or preempted", "in the handler of a non-maskable");
refused!(nmi_that_requests_a_preemption_is_refused: in_nmi(request_preemption), "a thread is unparked or preempted", "in the handler of a non-maskable");

refused!(nmi_in_an_nmi_is_refused: in_nmi(|| in_nmi(|| ())), "`as_if_in_nmi` is called", "in a handler");
refused!(nmi_that_raises_a_signal_is_refused: in_nmi(raise), "a signal is raised", "in the handler of a non-maskable");

/// Only a debug build checks the locks of the scheduler. `qemu-tests/tests/unoptimised.rs` runs these tests.
#[cfg(debug_assertions)]
mod scheduler_locks {
    use super::{Box, GARBAGE, Kernel, Pinned, in_handler, in_nmi, with_interrupt_mutex_held};

    fn take_a_lock_of_the_scheduler() {
        let _ = Pinned::<Kernel>::new().machine().scheduler().stops();
    }

    refused!(in_a_handler: in_handler(take_a_lock_of_the_scheduler), "a lock of the scheduler is taken", "in the handler of an interrupt");
    refused!(in_an_nmi: in_nmi(take_a_lock_of_the_scheduler), "a lock of the scheduler is taken", "in the handler of a non-maskable");
    refused!(
        under_an_interrupt_mutex: with_interrupt_mutex_held(take_a_lock_of_the_scheduler),
        "a lock of the scheduler is taken", "with an `InterruptMutex` held since qemu-tests/guest/src/contexts.rs:"
    );
}

// A G that has leaked a guard can neither wait nor end, because the next G would run with the lock or the pin.
refused!(
    end_of_a_goroutine_that_has_leaked_the_guard_of_an_interrupt_mutex_is_refused:
    in_a_goroutine_that_leaks(|| core::mem::forget(HANDLERS.lock())),
    "a G blocks, yields or ends", "with an `InterruptMutex` held since qemu-tests/guest/src/contexts.rs:"
);
refused!(
    end_of_a_goroutine_that_has_leaked_the_guard_of_a_preempt_mutex_is_refused:
    in_a_goroutine_that_leaks(|| core::mem::forget(THREADS.lock())),
    "a G blocks, yields or ends", "with preemption turned off"
);
refused!(
    end_of_a_goroutine_that_has_leaked_a_preempt_guard_is_refused:
    in_a_goroutine_that_leaks(|| core::mem::forget(PreemptGuard::new())),
    "a G blocks, yields or ends", "with preemption turned off"
);

/// Leaks more guards than the preempt count can count. The count must not reach the next field of the preempt word, so
/// a further guard panics.
fn leaked_guards_are_refused() {
    (0..70_000).for_each(|_| core::mem::forget(PreemptGuard::new()));
}
/// Leaks values of [`Pinned`], the proof that the caller is pinned. As with guards, a further value panics.
fn leaked_pins_are_refused() {
    (0..70_000).for_each(|_| core::mem::forget(Pinned::<Kernel>::new()));
}
guest_test!(
    leaked_pins_are_refused,
    isolated,
    smp = &[1],
    status = 2,
    texts = &["panic at ", "preemption is turned off 32768 times on one CPU: guards were leaked"]
);
guest_test!(
    leaked_guards_are_refused,
    isolated,
    smp = &[1],
    status = 2,
    texts = &["panic at ", "preemption is turned off 32768 times on one CPU: guards were leaked"]
);

/// With preemption off, a G can spawn, allocate and lock. In a handler, and while an `InterruptMutex` is held, code can
/// print and can lock another `InterruptMutex`.
fn operations_allowed_by_the_table_work() {
    static OTHER: InterruptMutex<u32> = InterruptMutex::new(0);
    pinned(|| {
        spawn();
        allocate();
        take_preempt_mutex();
    });
    with_interrupt_mutex_held(|| {
        *OTHER.lock() += 1;
        println!("printed with an `InterruptMutex` held: {:>300}", "long");
    });
    // The handler prints before it counts. It cannot allocate memory, so its long text is printed in pieces. If the test
    // ended between two pieces, the harness would not find the line with its result.
    let vector = vectors::allocate(|_| {
        println!("printed in a handler: {:>300}", "long");
        *OTHER.lock() += 1;
    });
    vectors::send(CpuId::BOOT, vector);
    while *OTHER.lock() < 2 {
        yield_now();
    }
}
guest_test!(operations_allowed_by_the_table_work, smp = &[1, 2, 8]);

/// The `Debug` implementation of a lock does not take the lock. So memory for the text can be allocated, and the lock
/// may be held.
fn locks_are_shown_without_being_taken() {
    let (first, second) = (InterruptMutex::new(1), PreemptMutex::new(2));
    let show = || [format!("{first:?}"), format!("{second:?}")];
    let free = show();
    assert_eq!(free, ["InterruptMutex { .. }", "PreemptMutex { .. }"]);
    let held = second.lock();
    assert_eq!(show(), free);
    drop(held);
}
guest_test!(locks_are_shown_without_being_taken, smp = &[1]);

/// Several locks are held at the same time. Interrupts stay off until the last of them is released, although the
/// first one is released first. Otherwise a handler could find a lock held by its own CPU and wait for it forever.
fn interrupts_stay_off_until_the_last_interrupt_mutex_is_released() {
    static SECOND: InterruptMutex<u32> = InterruptMutex::new(0);
    let vector = vectors::allocate(|_| *SECOND.lock() += 1);
    for round in 1..=200 {
        let first = HANDLERS.lock();
        let second = SECOND.lock();
        drop(first);
        vectors::send(CpuId::BOOT, vector);
        (0..1_000).for_each(|_| core::hint::spin_loop());
        drop(second);
        while *SECOND.lock() < round {
            yield_now();
        }
    }
}
guest_test!(interrupts_stay_off_until_the_last_interrupt_mutex_is_released, smp = &[1, 2]);
