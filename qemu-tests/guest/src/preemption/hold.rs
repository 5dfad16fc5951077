//! Gs hold known values in all registers while they are preempted every few microseconds. In some tests, all pages of
//! the stacks are committed from the start. In others, pages of the stacks are committed while the Gs are preempted. In
//! some tests, other CPUs also send non-maskable interrupts.

use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use kernel::cpus;
use kernel::internals::{PAGE_SIZE, Slot, answers, ask, leave_red_zone_unprotected_in};
use kernel::mm;
use kernel::percpu::{self, PreemptGuard};
use kernel::prelude::*;

use super::state::{Lost, State};
use super::{preemptions, storm};

use crate::several::go_each;

/// The combined results of Gs that loaded known values into all registers, held them for a while, and compared them.
#[derive(Default)]
struct Tally {
    lost: Vec<Lost>,
    /// The number of rounds. Each round loads, holds and compares the values once.
    rounds: usize,
    /// The number of rounds that ended on another CPU than the one on which they began.
    migrations: usize,
    /// The number of stacks whose pages were committed while a G of [`go_down`] ran: at most two pages were committed
    /// before, and at most one page was still missing in the end.
    fresh_stacks: usize,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.lost.extend(other.lost);
        self.rounds += other.rounds;
        self.migrations += other.migrations;
        self.fresh_stacks += other.fresh_stacks;
    }

    /// Loads all registers, holds the values for a time that depends on the round, and compares them.
    fn hold(&mut self, state: &mut State, seed: u64) {
        let (cpu, round) = (percpu::current(), self.rounds as u64);
        self.lost.extend(state.hold_for(1 + (round * 997 + seed * 131) % 8000).err());
        self.rounds += 1;
        if percpu::current() != cpu {
            self.migrations += 1;
            MIGRATIONS.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The number of migrations of the Gs of [`hold_through`] so far.
static MIGRATIONS: AtomicUsize = AtomicUsize::new(0);
/// The number of fresh stacks of the Gs of [`hold_through`] so far, in the sense of [`Tally::fresh_stacks`].
static FRESH_STACKS: AtomicUsize = AtomicUsize::new(0);

/// Whether the count of preemptions has reached `end`. If there is more than one P, a G must also have been resumed on
/// another CPU. This is a separate condition, because the host determines how many preemptions happen before a G
/// migrates.
fn is_over(end: u64) -> bool {
    preemptions() >= end && (procs() == 1 || MIGRATIONS.load(Ordering::Relaxed) > 0)
}

/// Holds registers repeatedly on the same stack, until [`is_over`] returns true.
fn stay(seed: u64, end: u64) -> Tally {
    let (mut state, mut tally) = (State::new(seed + 1), Tally::default());
    while !is_over(end) {
        tally.hold(&mut state, seed);
    }
    tally
}

/// The stack size of the Gs of `go_down`. Few other Gs have stacks of this size class, so most of these stacks contain
/// no pages that other Gs have committed. Stacks that contain such pages are not counted as fresh.
const DEEP: usize = 128 * 1024;

/// In a test of `go_down`, the number of fresh stacks must reach at least this bound.
const FEW: usize = 10;

/// Spawns Gs one after the other, each on a stack that has almost no committed pages. Each G recurses down its stack.
/// At each depth it loads known values into the registers, waits, and compares the registers with the values, while
/// preemptions interrupt it. So preemptions, and writes to the red zone, touch pages that are not committed yet.
/// Continues until [`is_over`] returns true and the pages of [`FEW`] stacks have been committed in this way.
fn go_down(seed: u64, end: u64) -> Tally {
    let mut tally = Tally::default();
    while !is_over(end) || FRESH_STACKS.load(Ordering::Relaxed) < FEW {
        let child = Builder::new().stack_size(DEEP).try_go(move || {
            let (mut state, mut tally) = (State::new(seed + 1), Tally::default());
            let here = 0u8;
            let slot = Slot::containing((&raw const here).addr()).expect("a G's stack");
            let begins_fresh = slot.touched() <= 2 * PAGE_SIZE;
            deeper(slot.bottom() + PAGE_SIZE..slot.top(), &mut |tally| tally.hold(&mut state, seed), &mut tally);
            tally.fresh_stacks = usize::from(begins_fresh && slot.touched() >= DEEP - PAGE_SIZE);
            tally
        });
        let child = child.expect("memory for a stack").join().expect("it does not panic");
        FRESH_STACKS.fetch_add(child.fresh_stacks, Ordering::Relaxed);
        tally.add(child);
        // Frees the pages of the dead G's stack, so that the stack of the next G has almost no committed pages.
        mm::free_cached_memory();
    }
    tally
}

/// Recurses down to the start of `stack`, and calls `act` at each depth.
#[inline(never)]
fn deeper(stack: Range<usize>, act: &mut dyn FnMut(&mut Tally), tally: &mut Tally) {
    // The frame size is not a power of two, so the stack pointer takes many different positions within a page.
    let mut frame = [stack.end; 85];
    core::hint::black_box(&mut frame);
    act(tally);
    if frame.as_ptr().addr() > stack.start {
        deeper(stack.clone(), act, tally);
    }
    assert!(core::hint::black_box(&frame).iter().all(|&word| word == stack.end), "a stack has changed");
}

/// Runs `how`, which is `stay` or `go_down`, in three Gs per P. The Gs continue until at least `wanted` preemptions
/// have happened. Returns the sum of their results.
fn hold_through(wanted: u64, how: fn(u64, u64) -> Tally) -> Tally {
    MIGRATIONS.store(0, Ordering::Relaxed);
    FRESH_STACKS.store(0, Ordering::Relaxed);
    let end = preemptions() + wanted;
    let storm = storm();
    let holders = go_each(0..3 * procs() as u64, move |seed| how(seed, end));
    let mut tally = Tally::default();
    holders.into_iter().for_each(|holder| tally.add(holder.join().unwrap()));
    drop(storm);
    tally
}

fn check(tally: &Tally) -> Result<(), String> {
    assert!(procs() == 1 || tally.migrations > 0, "no G was resumed on another CPU");
    match tally.lost.first() {
        None => Ok(()),
        Some(first) => Err(format!("{} times something was lost, first {first}", tally.lost.len())),
    }
}

/// The general registers, the flags, the x87 and SSE state and the red zone of Gs survive 10,000 preemptions.
fn state_survives() -> Result<(), String> {
    check(&hold_through(10_000, stay))
}
guest_test!(state_survives, smp = &[1, 2, 8], seconds = 60);

/// Does the same as `state_survives`, but with 20,000 preemptions, on one CPU, and with a clock that counts
/// instructions (`icount`). So all runs are equal. The preemptions are spread over all instructions of the code.
fn state_survives_repeatably() -> Result<(), String> {
    check(&hold_through(20_000, stay))
}
guest_test!(state_survives_repeatably, smp = &[1], icount, seconds = 60);

fn on_new_stacks(preemptions: u64) -> Result<(), String> {
    let tally = hold_through(preemptions, go_down);
    println!("{} stacks of {} pages", tally.fresh_stacks, DEEP / PAGE_SIZE);
    assert!(tally.fresh_stacks >= FEW, "only {} stacks got their pages", tally.fresh_stacks);
    check(&tally)
}

fn state_survives_page_faults() -> Result<(), String> {
    on_new_stacks(10_000)
}
guest_test!(state_survives_page_faults, smp = &[1, 2, 8], seconds = 60);

fn state_survives_page_faults_repeatably() -> Result<(), String> {
    on_new_stacks(20_000)
}
guest_test!(state_survives_page_faults_repeatably, smp = &[1], icount, seconds = 60);

/// Runs `body` while a G asks all CPUs except its own for their state, by non-maskable interrupts. Returns the result
/// of `body`, and how many requests were answered. One interrupt can answer several requests.
fn with_questions<T>(body: impl FnOnce() -> T) -> (T, u64) {
    static STOP: AtomicBool = AtomicBool::new(false);
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    STOP.store(false, Ordering::Relaxed);
    ASKED.store(0, Ordering::Relaxed);
    let answers = || cpus::all().map(|cpu| u64::from(answers(cpu))).sum::<u64>();
    let before = answers();
    let asker = go(|| {
        while !STOP.load(Ordering::Relaxed) {
            let others = {
                let _here = PreemptGuard::new();
                let me = percpu::current();
                cpus::all().filter(|&cpu| cpu != me).collect::<Vec<_>>()
            };
            others.into_iter().for_each(ask);
            // The delay varies, so that the interrupts come at different points of the code of the other CPUs.
            (0..ASKED.fetch_add(1, Ordering::Relaxed) % 500).for_each(|_| core::hint::spin_loop());
        }
    });
    let result = body();
    STOP.store(true, Ordering::Relaxed);
    asker.join().expect("it does not panic");
    (result, answers() - before)
}

/// The state also survives non-maskable interrupts, which may come while a preemption saves or restores registers, or
/// while a page fault is handled.
fn state_survives_non_maskable_interrupts() -> Result<(), String> {
    for how in [stay, go_down] {
        let (mut tally, mut answers) = (Tally::default(), 0);
        // How many requests are made and answered in one call depends on how the host runs the CPUs. So the loop runs
        // until 2,000 requests were answered. There may be fewer interrupts, because an interrupt answers all requests
        // to its CPU that are still open.
        while answers < 2_000 {
            let (more, more_answers) = with_questions(|| hold_through(5_000, how));
            tally.add(more);
            answers += more_answers;
        }
        println!("{answers} requests answered by non-maskable interrupts, {} rounds", tally.rounds);
        check(&tally)?;
    }
    Ok(())
}
guest_test!(state_survives_non_maskable_interrupts, smp = &[2, 8], seconds = 90);

/// A third of the preemptions happens while Gs run `stay`, a third while they run `go_down`, and a third while they run
/// `go_down` and non-maskable interrupts come.
fn state_survives_a_million_preemptions() -> Result<(), String> {
    let before = preemptions();
    check(&hold_through(334_000, stay))?;
    on_new_stacks(333_000)?;
    let (tally, answers) = with_questions(|| hold_through(333_000, go_down));
    println!("{} preemptions, {answers} requests answered by non-maskable interrupts", preemptions() - before);
    check(&tally)
}
guest_test!(state_survives_a_million_preemptions, smp = &[1, 2, 8], isolated, seconds = 1800, ignored);

/// Checks that these tests detect errors. If preemptions do not skip the red zone, the tests find that words of the red
/// zone are lost, and that no other state is lost.
fn red_zone_is_lost_if_it_is_not_skipped() {
    #[expect(unsafe_code, reason = "has something lost")]
    // SAFETY: the code in this range only compares the words of its red zone, and nothing else depends on these words.
    let unprotect = |code| unsafe { leave_red_zone_unprotected_in(code) };
    unprotect(State::new(1).code());
    let mut tally = Tally::default();
    // How many preemptions hit the code whose red zone is unprotected depends on the host's speed. In the first round
    // there are usually 600 to 2,000 of them.
    while tally.lost.len() <= 100 {
        tally.add(hold_through(5_000, stay));
    }
    unprotect(0..0);
    let other = tally.lost.iter().find(|lost| !matches!(lost, Lost::RedZone(_)));
    assert_eq!(other, None);
}
guest_test!(red_zone_is_lost_if_it_is_not_skipped, smp = &[1, 8], isolated, seconds = 60);
