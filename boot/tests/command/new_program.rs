//! A program that runs on the machine and on the host. Its first argument chooses what it does.
#![no_std]
#![cfg_attr(not(test), no_main)]
#![deny(unsafe_code)]

use core::error::Error;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};

use kernel::chan::{RecvError, TrySendError};
use kernel::console::{Input, SincePowerOn, flush, try_read, write};
use kernel::disk::{Disk, DiskCursor, DiskError, PciError, RequestError, SetupError, delay, disks};
use kernel::embedded_io::{Read as _, Seek as _, SeekFrom, Write as _};
use kernel::mm::{OutOfMemory, Usage, free_cached_memory, usage};
use kernel::percpu::{CpuId, MAX_CPUS, PreemptGuard};
use kernel::platform::{Kernel, Limit, now, pull, scheduler, try_go};
use kernel::prelude::*;
use kernel::program::Termination;
use kernel::select::{Select, recv};
use kernel::sync::{InterruptMutex, InterruptMutexGuard, PreemptMutex, PreemptMutexGuard};
use kernel::watchdog::{OffTimes, interrupts, longest_off_times};
use kernel::{args, clock, cpus, exit, fill_random_until, percpu, random, random_until};

kernel::main!(main);

fn main(arguments: &[&str]) -> Result<i32, String> {
    match arguments {
        ["library"] => library(),
        ["select"] => selects(),
        ["surface"] => surface(),
        ["status", status] => return Ok(status.parse().expect("a number")),
        ["error"] => return Err("it was meant to fail".into()),
        ["exit", status] => {
            let status = status.parse().expect("a number");
            go(move || exit::exit(status)).join().expect("it does not return");
        }
        ["panic"] => {
            let _waits = Builder::new().name("waits").go(|| sleep(Duration::from_secs(1000)));
            sleep(Duration::from_millis(10));
            println!("before");
            go(|| panic!("as it should")).join().expect("not reached");
            println!("after");
        }
        ["deadlock"] => {
            let (_sender, receiver) = channel::<i32>(0);
            println!("before");
            let _ = receiver.recv();
            println!("after");
        }
        ["select-nothing"] => {
            println!("before");
            select! {}
        }
        ["loop"] => loops(),
        ["devices"] => devices(),
        ["readers"] => readers(),
        ["limits"] => limits(),
        ["input"] => input(),
        other => println!("what is {other:?}?"),
    }
    Ok(0)
}

/// Spins without calling the scheduler. Returns whether another G has run meanwhile.
fn loops() {
    static HAS_RUN: AtomicBool = AtomicBool::new(false);
    let other = go(|| HAS_RUN.store(true, Ordering::Relaxed));
    let end = now() + Duration::from_millis(200);
    while now() < end {}
    println!("{}", if HAS_RUN.load(Ordering::Relaxed) { "preempted" } else { "not preempted" });
    other.join().expect("it does not panic");
}

/// Uses the library from one G and from several Gs.
fn library() {
    let (sender, receiver) = channel(2);
    let senders: Vec<_> = (0..4u64)
        .map(|part| {
            let sender: Sender<u64> = sender.clone();
            go(move || (part * 25..part * 25 + 25).for_each(|number| sender.send(number).expect("a receiver")))
        })
        .collect();
    drop(sender);
    let mut sum = 0;
    while let Ok(number) = receiver.recv() {
        sum += number;
    }
    senders.into_iter().for_each(|sender| sender.join().expect("it does not panic"));
    println!("channel: {sum}");

    static COUNT: Mutex<u64> = Mutex::new(0);
    scope(|scope| {
        for _ in 0..10 {
            scope.go(|| (0..100).for_each(|_| *COUNT.lock() += 1));
        }
    });
    println!("mutex: {}", *COUNT.lock());

    let numbers: Vec<u32> = pull(|yielder| (1..=3).for_each(|number| assert!(yielder.yield_value(number)))).collect();
    println!("coroutine: {numbers:?}");

    let (context, cancel) = Context::background().with_cancel();
    let waits = go(move || context.wait());
    cancel.cancel();
    println!("context: {}", waits.join().expect("it does not panic"));

    static LOCK: InterruptMutex<u64> = InterruptMutex::new(0);
    (0..8).map(|_| go(|| *LOCK.lock() += 1)).collect::<Vec<_>>().into_iter().for_each(|g| g.join().expect("no panic"));
    println!("spinning lock: {}", *LOCK.lock());

    let start = clock::now();
    sleep(Duration::from_millis(5));
    assert!(clock::now() - start >= 5_000_000);
    delay(Duration::from_millis(5)).expect("another M");
    assert!(clock::now() - start >= 10_000_000);

    let before = set_procs(1).expect("one is not too many");
    println!("Ps: {}; before, as many as CPUs: {}", procs(), before == num_cpu());
    static HAS_RUN: AtomicBool = AtomicBool::new(false);
    go(|| HAS_RUN.store(true, Ordering::Relaxed)).detach();
    while !HAS_RUN.load(Ordering::Relaxed) {
        core::hint::spin_loop();
    }
    println!("a loop on the only P is preempted");
    println!("arguments: {:?}", args::program());
    write("bytes: \u{e4}\n".as_bytes());
}

/// Uses channels, selects, contexts and timers in the same way as a program that was ported from Go.
fn selects() {
    let (requests, answers) = (Chan::new(0), Chan::new(1));
    let (context, cancel) = Context::background().with_cancel();
    let (asked, answered) = (requests.clone(), answers.clone());
    let server = go(move || {
        let mut served = 0;
        loop {
            select! {
                recv(context.done()) => break served,
                recv(asked) -> number => match number {
                    Ok(number) => {
                        served += 1;
                        select! { send(answered, number * number) -> sent => sent.expect("a receiver") }
                    }
                    Err(RecvError) => break 0,
                },
            }
        }
    });
    let mut answered = Vec::new();
    for number in 1..=3 {
        requests.send(number).expect("a receiver");
        select! {
            recv(answers) -> answer => answered.push(answer.expect("a sender")),
            recv(after(Duration::from_secs(60))) => println!("late"),
        }
    }
    cancel.cancel();
    println!("answers: {answered:?}, served: {:?}", server.join());

    let full: Chan<u8> = Chan::new(1);
    println!("{:?} {:?}", full.try_send(1), full.try_send(2) == Err(TrySendError::Full(2)));
    full.close();
    println!("length {} of {}: {:?}", full.len(), full.capacity(), full.iter().collect::<Vec<_>>());
    println!("closing nothing: {}", Sender::<u8>::never().close());

    let start = now();
    let taken = select! { timeout(Duration::from_millis(2)) => now() - start >= Duration::from_millis(2) };
    println!("timeout: {taken}, default: {}", select! { default => 1 });
    let never = Receiver::<u8>::never();
    println!("list: {:?}", Select::new(&mut [recv(&never).case()]).wait_timeout(Duration::from_micros(1)));

    let mut words = ["to", "be", "or", "not"];
    scope(|scope| {
        for word in &mut words {
            scope.go(move || *word = &word[..1]);
        }
    });
    let ticker = Ticker::new(Duration::from_millis(1));
    println!("{words:?}, ticks: {}", (0..3).filter(|_| ticker.wait() <= now()).count());
}

/// Names items of the kernel's public interface. The function is compiled twice, for the machine and for the host. Each
/// build fails if one of these items is missing there.
fn surface() {
    fn is_error<E: Error + Copy + Eq>() {}
    fn is_shown<T: fmt::Debug>() {}
    is_error::<DiskError>();
    is_error::<PciError>();
    is_error::<RequestError>();
    is_error::<SetupError>();
    is_error::<OutOfMemory>();
    is_shown::<(Disk, DiskCursor<'_>, Usage, OffTimes, CpuId, PreemptGuard, Kernel)>();
    is_shown::<(InterruptMutex<u8>, InterruptMutexGuard<'_, u8>, PreemptMutex<u8>, PreemptMutexGuard<'_, u8>)>();

    let _: fn() -> Option<Input> = try_read;
    let _: fn() -> bool = flush;
    let _: fn() -> ! = goexit;
    let _: fn(&Disk, u64, &mut [u8]) -> Result<usize, DiskError> = Disk::read_at;
    let _: fn(&Disk, u64, &[u8]) -> Result<(), DiskError> = Disk::write_at;
    let _: fn(i32) -> u8 = Termination::report;
    let _: fn() -> usize = free_cached_memory;

    assert!(cpus::count() == num_cpu() && cpus::all().count() == num_cpu() && num_cpu() <= MAX_CPUS);
    assert!(percpu::current().index() < num_cpu() && CpuId::new(0) == CpuId::BOOT);
    assert!(scheduler().is_some_and(|scheduler| scheduler.procs() == procs()) && num_goroutine() >= 1);
    assert_eq!(args::option("no_such_option"), None);
    assert_eq!(args::options("no_such_option").count(), 0);
    assert!(usage().total >= usage().free && longest_off_times().lockups == 0 && interrupts(CpuId::BOOT) < u64::MAX);
    let now = clock::now();
    assert!(clock::since_power_on() >= now);
    drop(PreemptGuard::default());
    assert!(try_go(|| 1).expect("memory").join() == Ok(1));
    assert!(format!("{}", SincePowerOn(Duration::from_millis(1500))).starts_with("1.500 s"));
}

/// Many Gs read lines at the same time. Another G counts while all of them wait.
fn readers() {
    let counts = go(|| (0..1000).inspect(|_| yield_now()).count());
    let read = || stdin().lines().map(|line| line.expect("another M")).collect::<Vec<_>>();
    let readers: Vec<_> = (0..20).map(|_| go(read)).collect();
    println!("waiting, {} rounds", counts.join().expect("it does not panic"));
    let mut lines: Vec<_> = readers.into_iter().flat_map(|reader| reader.join().expect("it does not panic")).collect();
    lines.sort();
    println!("{} lines, {}", lines.len(), lines.concat());
}

/// Reads with limits. The test sends the first half of a line after the first line of the output, and the second half
/// after the line `halves`.
fn limits() {
    const SHORT: Duration = Duration::from_millis(20);
    let (request, cancel) = Context::background().with_cancel();
    let mut line = String::new();
    println!("{:?}", stdin().read_line_until(&mut line, Limit::after(SHORT)));
    go(move || {
        sleep(SHORT);
        cancel.cancel();
    })
    .detach();
    println!("{:?}", stdin().read_line_until(&mut line, &request));
    let reader = go(|| {
        let mut line = String::new();
        let read = stdin().read_line(&mut line);
        format!("{read:?} {line:?}")
    });
    // Only one G reads from the console at a time. So this call waits for the input, or for the G `reader`, which is
    // reading.
    println!("{:?} {line:?}", stdin().read_line_until(&mut line, Limit::after(SHORT)));
    println!("halves");
    println!("{}", reader.join().expect("it does not panic"));
    // Each of these calls can return at once: the input has ended, and no random bytes are requested.
    println!("{:?}", stdin().read_line(&mut line));
    println!("{:?} {line:?}", stdin().read_line_until(&mut line, &request));
    println!("{:?}", fill_random_until(&mut [], &request));
    println!("{}", random_until(Limit::after(Duration::MAX)) != random_until(Limit::after(Duration::MAX)));
}

/// Reads a line, and then copies the rest of the input to the output.
fn input() {
    let mut line = String::new();
    let read = stdin().read_line(&mut line);
    println!("{read:?} {line:?}");
    let mut buffer = [0; 1000];
    while match stdin().read(&mut buffer) {
        Ok(count) => write(&buffer[..count]) && count > 0,
        Err(error) => {
            println!("{error}");
            false
        }
    } {}
}

/// Reads the input, and reads and writes the disks.
fn devices() {
    let lines: Vec<_> = stdin().lines().map(|line| line.expect("another M")).collect();
    println!("{lines:?}, {} lines", lines.len());
    let mut after_the_end = String::from("unchanged");
    let read = stdin().read_line(&mut after_the_end).ok();
    println!("{read:?}, {after_the_end}; random numbers differ: {}", random() != random());
    for disk in disks() {
        println!("{} bytes, read-only: {}", disk.len_bytes(), disk.is_read_only());
        for (offset, length) in [(0, 4), (510, 4), (1298, 4), (1300, 4), (1301, 4), (u64::MAX, 4), (0, 2000)] {
            let mut buffer = vec![0; length];
            let read = disk.read_at(offset, &mut buffer);
            let sum: u32 = buffer.iter().copied().map(u32::from).sum();
            println!("at {offset}: {read:?}, sum {sum}");
        }
        for (offset, length) in [(0, 512), (1, 512), (0, 1), (1024, 512), (1536, 512), (u64::MAX, 512), (0, 0)] {
            println!("write at {offset}: {:?}", disk.write_at(offset, &vec![0; length]));
        }
        let mut cursor = disk.asynchronous().cursor();
        for target in [SeekFrom::Start(1299), SeekFrom::End(-9), SeekFrom::Current(99), SeekFrom::End(i64::MIN)] {
            let (position, mut buffer) = (cursor.seek(target), [0; 4]);
            let read = cursor.read(&mut buffer);
            println!("{target:?}: {position:?}, {read:?} {buffer:?}, write: {:?}", cursor.write(&[0; 3]));
        }
        println!("flush: {:?}", cursor.flush());
    }
}
