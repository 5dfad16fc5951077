//! Tests of non-maskable interrupts (NMIs) to idle CPUs.

use core::sync::atomic::{AtomicUsize, Ordering};

use kernel::percpu::{self, PreemptGuard};
use kernel::prelude::*;
use kernel::sync::InterruptMutex;
use kernel::{cpus, internals, watchdog};

use crate::vectors;

/// Wakes a G, the worker, by an IPI to a halted CPU. At about the same time, main sends NMIs to all CPUs except its
/// own. If an NMI arrives at a CPU before an IPI does, the CPU wakes and finds the worker, but no interrupt handler has
/// flushed the CPU's TLB. In this case the CPU must flush its TLB itself before it runs the worker.
fn cpu_woken_by_an_nmi_flushes_its_tlb_before_it_runs_a_thread() {
    const ROUNDS: usize = 3_000;
    static DONE: AtomicUsize = AtomicUsize::new(0);
    let (wake, woken) = channel::<usize>(1);
    let worker = go(move || {
        let mut unflushed = 0;
        while let Ok(round) = woken.recv() {
            {
                let _here = PreemptGuard::new();
                unflushed += usize::from(internals::is_halted());
            }
            DONE.store(round, Ordering::Release);
        }
        unflushed
    });
    for round in 1..=ROUNDS {
        // The worker parks and its CPU halts during this loop.
        (0..2_000).for_each(|_| core::hint::spin_loop());
        let here = PreemptGuard::new();
        let me = percpu::current();
        let ask_others = || cpus::all().filter(|&cpu| cpu != me).for_each(internals::ask);
        if round % 2 == 0 {
            ask_others();
            (0..round % 64).for_each(|_| core::hint::spin_loop());
        }
        wake.try_send(round).expect("the worker has taken the last one");
        if round % 2 == 1 {
            ask_others();
        }
        drop(here);
        // Keep this CPU busy, so that it does not run the worker itself.
        while DONE.load(Ordering::Acquire) < round {
            core::hint::spin_loop();
        }
    }
    drop(wake);
    assert_eq!(worker.join(), Ok(0), "times that a thread ran on a CPU that had not flushed its TLB");
}
// The test runs on 8 CPUs, so that the worker is usually found by a CPU other than the one to which the IPI was sent.
guest_test!(cpu_woken_by_an_nmi_flushes_its_tlb_before_it_runs_a_thread, isolated, seconds = 60);

/// An NMI arrives between `sti` and `hlt` while another interrupt is pending. The CPU must not halt after it has
/// handled the pending interrupt, because it is not certain that another interrupt comes.
fn nmi_between_sti_and_hlt_hides_no_interrupt() {
    static WOKEN: AtomicUsize = AtomicUsize::new(0);
    let vector = vectors::allocate(|_| _ = WOKEN.fetch_add(1, Ordering::SeqCst));
    // A CPU that halts by mistake is woken by its next timer tick, so the mistake shows only as one more interrupt.
    // Unrelated interrupts may come in between, so the test takes the smallest count of many rounds. The test does not
    // run with `icount`, because with `icount` three interrupts are counted in every round.
    let mut fewest = usize::MAX;
    for round in 1..=20 {
        let masked = InterruptMutex::new(());
        let masked = masked.lock();
        let before = watchdog::interrupts(percpu::current());
        vectors::send(percpu::current(), vector);
        shadow::take_non_maskable_interrupt_before_the_halt();
        let taken = watchdog::interrupts(percpu::current()) - before;
        drop(masked);
        assert_eq!(WOKEN.load(Ordering::SeqCst), round);
        fewest = fewest.min(taken as usize);
    }
    // Two interrupts are expected: the one sent above, and one of the timer. The timer's interrupt comes because of the
    // simulated NMI. No CPU has sent that NMI, so the handler takes it for a request for a report, and makes the timer
    // fire. The timer's handler then writes the report.
    assert!(fewest <= 2, "the CPU halted after the interrupt, until another one came: {fewest} in the best round");
}
guest_test!(nmi_between_sti_and_hlt_hides_no_interrupt, smp = &[1], isolated);

/// Simulates, at a chosen instruction, what a processor does for an NMI.
#[expect(unsafe_code, reason = "enters a handler as the processor does")]
mod shadow {
    use core::arch::{asm, naked_asm};

    use kernel::internals::halt_address;

    const NON_MASKABLE: usize = 2;

    /// Makes the CPU behave as if it took an NMI directly after the `sti` of its halt. The caller must have interrupts
    /// off.
    pub(super) fn take_non_maskable_interrupt_before_the_halt() {
        // The code at the address of the halt returns to this function, with interrupts off.
        take(handler(), halt_address());
    }

    /// Returns the address of the NMI handler.
    fn handler() -> u64 {
        #[repr(C, packed)]
        struct Table {
            limit: u16,
            base: usize,
        }
        let mut table = Table { limit: 0, base: 0 };
        // SAFETY: this instruction stores ten bytes, which is the size of `table`.
        unsafe { asm!("sidt [{}]", in(reg) &raw mut table, options(nostack, preserves_flags)) };
        let gate = core::ptr::with_exposed_provenance::<u64>(table.base).wrapping_add(2 * NON_MASKABLE);
        // SAFETY: the interrupt descriptor table has a gate of two words for each vector, and this is the first word of
        // vector 2.
        let low = unsafe { gate.read() };
        // SAFETY: this is the second word of the same gate.
        let high = unsafe { gate.wrapping_add(1).read() };
        low & 0xffff | low >> 32 & 0xffff_0000 | high << 32
    }

    /// Pushes onto this stack the frame that the processor would push, and jumps to `handler`. The handler returns to
    /// `address` with interrupts on and with the stack pointer as it was when this function was called.
    #[unsafe(naked)]
    extern "sysv64" fn take(handler: u64, address: u64) {
        naked_asm!(
            "mov rax, rsp",
            // The processor aligns the stack before it pushes a frame.
            "and rsp, -16",
            "mov ecx, ss",
            "push rcx",
            "push rax",
            "pushfq",
            "or qword ptr [rsp], 0x200",
            "mov ecx, cs",
            "push rcx",
            "push rsi",
            "jmp rdi",
        )
    }
}
