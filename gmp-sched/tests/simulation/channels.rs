//! Channels and selects in the simulator: random programs, one for each seed. Some programs record operations with
//! their beginning, end and result, and check this history afterwards. A failure shows its seed, and `GMP_SIM_SEED=17
//! cargo test -p gmp-sched --test simulation channels::` repeats the run of seed 17.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gmp_sched::chan::{RecvError, TryRecvError, TrySendError};
use gmp_sched::select;
use gmp_sched::select::{Select, recv, send};
use gmp_sched::sim::{self, Chan};

use crate::explore::{Random, explore};
use crate::several::{join_all, spawn_each};

/// What a G of a random program does between two operations on channels.
trait Pause {
    /// Spends some time, or none.
    fn pause(&mut self);
}

impl Pause for Random {
    fn pause(&mut self) {
        match self.below(12) {
            0 => sim::sleep(Duration::from_micros(self.below(40))),
            1 => sim::work(Duration::from_micros(self.below(40))),
            2 => sim::block(Duration::from_micros(self.below(40))),
            3..=5 => sim::yield_now(),
            _ => {}
        }
    }
}

/// The interval of an operation, on a clock that advances with every reading.
#[derive(Clone, Copy, Debug)]
struct During {
    from: usize,
    to: usize,
}

impl During {
    fn is_before(self, other: Self) -> bool {
        self.to < other.from
    }
}

/// An operation on a channel, with its result.
#[derive(Clone, Copy, Debug)]
enum Done {
    Sent(u64),
    Received(u64),
    FoundFull,
    FoundEmpty,
    FoundClosed,
    Closed,
}

/// The recorded operations, each with its channel and interval. Operations that time out are not recorded.
#[derive(Debug, Default)]
struct History {
    clock: AtomicUsize,
    events: Mutex<Vec<(usize, Done, During)>>,
}

impl History {
    fn now(&self) -> usize {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    fn add(&self, channel: usize, done: Done, from: usize) {
        let during = During { from, to: self.now() };
        self.events.lock().unwrap().push((channel, done, during));
    }

    /// Checks rules that the history of a FIFO queue of this capacity obeys if each operation takes effect at one
    /// instant between its beginning and its end. This is not a complete check of linearizability, because each rule is
    /// checked separately.
    fn judge(&self, channel: usize, capacity: usize) {
        let events = self.events.lock().unwrap();
        let of_channel = || events.iter().filter(move |event| event.0 == channel).map(|event| (event.1, event.2));
        let mut sent = HashMap::new();
        let mut received = HashMap::new();
        for (done, during) in of_channel() {
            match done {
                Done::Sent(value) => assert!(sent.insert(value, during).is_none(), "sent twice"),
                Done::Received(value) => assert!(received.insert(value, during).is_none(), "{value} received twice"),
                _ => {}
            }
        }
        for (value, &taken) in &received {
            let put = sent.get(value).unwrap_or_else(|| panic!("{value} was received, but not sent"));
            assert!(!taken.is_before(*put), "{value} was received before it was sent");
            for (later, &other_taken) in &received {
                if put.is_before(sent[later]) {
                    assert!(!other_taken.is_before(taken), "{later} overtook {value}");
                }
            }
        }
        for (value, &put) in &sent {
            let Some(taken) = received.get(value) else { continue };
            for (done, during) in of_channel() {
                let there_all_the_time = put.is_before(during) && during.is_before(*taken);
                assert!(!(there_all_the_time && matches!(done, Done::FoundEmpty)), "empty, with {value} in it");
                assert!(!(capacity == 0 && put.is_before(*taken)), "unbuffered, but {value} was in it");
            }
        }
        for (done, during) in of_channel() {
            let begun = |map: &HashMap<u64, During>| map.values().filter(|each| each.from < during.to).count();
            let ended = |map: &HashMap<u64, During>| map.values().filter(|each| each.to < during.from).count();
            let is_closed = of_channel().any(|(done, close)| matches!(done, Done::Closed) && close.from < during.to);
            match done {
                Done::FoundFull if capacity > 0 => assert!(
                    begun(&sent) >= ended(&received) + capacity,
                    "full, where at most {} were sent and {} received",
                    begun(&sent),
                    ended(&received)
                ),
                Done::FoundClosed => assert!(is_closed, "closed, but no close had begun"),
                Done::Sent(value) => {
                    let was_closed =
                        |(done, close): (Done, During)| matches!(done, Done::Closed) && close.is_before(during);
                    assert!(!of_channel().any(was_closed), "{value} was sent after the close");
                    let at_end = sent.values().filter(|each| each.to <= during.to).count();
                    let taken = received.values().filter(|each| each.from < during.to).count();
                    assert!(at_end <= taken + capacity, "more sent than fit");
                }
                _ => {}
            }
        }
    }

    /// Returns how many values were sent to this channel and not received.
    fn left(&self, channel: usize) -> usize {
        let events = self.events.lock().unwrap();
        let count = |is: fn(&Done) -> bool| events.iter().filter(|event| event.0 == channel && is(&event.1)).count();
        count(|done| matches!(done, Done::Sent(_))) - count(|done| matches!(done, Done::Received(_)))
    }
}

/// A value that is counted from its creation to its drop.
#[derive(Debug)]
struct Value(u64, Arc<AtomicUsize>);

impl Value {
    fn new(number: u64, alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Self(number, alive.clone())
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The objects that the Gs of one program share.
#[derive(Clone)]
struct Setting {
    chans: Vec<Chan<Value>>,
    history: Arc<History>,
    alive: Arc<AtomicUsize>,
}

impl Setting {
    fn new(capacities: impl IntoIterator<Item = usize>) -> Self {
        let chans = capacities.into_iter().map(Chan::new).collect();
        Self { chans, history: Arc::default(), alive: Arc::default() }
    }

    fn value(&self, number: u64) -> Value {
        Value::new(number, &self.alive)
    }

    /// Sends in one of several ways.
    fn send(&self, channel: usize, number: u64, random: &mut Random) {
        let (value, sender) = (self.value(number), self.chans[channel].sender());
        let from = self.history.now();
        let done = match random.below(4) {
            0 => match sender.try_send(value) {
                Ok(()) => Done::Sent(number),
                Err(TrySendError::Full(_)) => Done::FoundFull,
                Err(TrySendError::Closed(_)) => Done::FoundClosed,
            },
            1 => match sender.send_timeout(value, Duration::from_micros(random.below(30))) {
                Ok(()) => Done::Sent(number),
                Err(_) => return,
            },
            _ => match sender.send(value) {
                Ok(()) => Done::Sent(number),
                Err(_) => Done::FoundClosed,
            },
        };
        self.history.add(channel, done, from);
    }

    /// Receives in one of several ways. Returns `false` if the channel is closed and drained, or if the receive timed
    /// out and the channel is closed.
    fn receive(&self, channel: usize, random: &mut Random) -> bool {
        let receiver = self.chans[channel].receiver();
        let from = self.history.now();
        let done = match random.below(4) {
            0 => match receiver.try_recv() {
                Ok(value) => Done::Received(value.0),
                Err(TryRecvError::Empty) => Done::FoundEmpty,
                Err(TryRecvError::Closed) => return false,
            },
            1 => match receiver.recv_timeout(Duration::from_micros(random.below(30))) {
                Ok(value) => Done::Received(value.0),
                Err(_) => return !receiver.is_closed(),
            },
            _ => match receiver.recv() {
                Ok(value) => Done::Received(value.0),
                Err(RecvError) => return false,
            },
        };
        self.history.add(channel, done, from);
        true
    }

    fn close(&self, channel: usize) {
        let from = self.history.now();
        self.chans[channel].close();
        self.history.add(channel, Done::Closed, from);
    }

    /// Checks the history of each channel. After that, only the values in buffers exist, and dropping the channels
    /// drops them.
    fn judge(self) {
        let mut in_buffers = 0;
        for (channel, chan) in self.chans.iter().enumerate() {
            self.history.judge(channel, chan.receiver().capacity());
            let left = self.history.left(channel);
            assert_eq!(left, chan.receiver().len(), "values are lost");
            in_buffers += left;
        }
        assert_eq!(self.alive.load(Ordering::Relaxed), in_buffers);
        let alive = self.alive.clone();
        drop(self);
        assert_eq!(alive.load(Ordering::Relaxed), 0, "values are not dropped with their channel");
    }
}

#[test]
fn channel_is_linearizable_to_a_queue() {
    explore(|seed| {
        let mut random = Random::new(seed);
        let setting = Setting::new([[0, 0, 1, 3][random.below(4) as usize]]);
        let sending = spawn_each(0..1 + random.below(4), |number| {
            let setting = setting.clone();
            move || {
                let mut random = Random::new(seed * 31 + number);
                for n in 0..6 {
                    setting.send(0, number * 1000 + n, &mut random);
                    random.pause();
                }
            }
        });
        let receiving = spawn_each(0..1 + random.below(4), |number| {
            let setting = setting.clone();
            move || {
                let mut random = Random::new(seed * 37 + number);
                while setting.receive(0, &mut random) {
                    random.pause();
                }
            }
        });
        if random.below(3) == 0 {
            sim::sleep(Duration::from_micros(random.below(60)));
            setting.close(0);
        }
        join_all(sending);
        setting.close(0);
        join_all(receiving);
        setting.judge();
    });
}

/// Selects run concurrently with each other, with plain operations and with a close. Some have a deadline, and some are
/// polled. Each select completes at most one of its cases, and the history of each channel is that of a FIFO queue.
#[test]
fn selects_are_atomic() {
    explore(|seed| {
        let mut random = Random::new(seed);
        let count = 1 + random.below(3) as usize;
        let setting = Setting::new((0..count).map(|_| random.below(3) as usize));
        // Each select of a worker has a case for `stop`. So a select that has to wait, and has no time limit, ends at
        // the latest when `stop` is closed.
        let stop = Chan::<()>::new(0);
        let workers = spawn_each(0..2 + random.below(4), |number| {
            let (setting, stop) = (setting.clone(), stop.clone());
            move || {
                let mut random = Random::new(seed * 41 + number);
                for n in 0..8 {
                    select_once(&setting, &stop, number * 1000 + n * 10, &mut random);
                    random.pause();
                }
            }
        });
        // This G sends and receives without selects, so that the selects of the workers also meet plain operations.
        let partner = {
            let (setting, stop) = (setting.clone(), stop.clone());
            sim::go(move || {
                let mut random = Random::new(seed * 43);
                for n in 0.. {
                    let channel = random.below(count as u64) as usize;
                    if stop.receiver().is_closed() {
                        return;
                    }
                    if random.below(2) == 0 {
                        let (value, from) = (setting.value(n), setting.history.now());
                        if setting.chans[channel].sender().try_send(value).is_ok() {
                            setting.history.add(channel, Done::Sent(n), from);
                        }
                    } else if let (from, Ok(value)) =
                        (setting.history.now(), setting.chans[channel].receiver().try_recv())
                    {
                        setting.history.add(channel, Done::Received(value.0), from);
                    }
                    sim::sleep(Duration::from_micros(1 + random.below(30)));
                }
            })
        };
        sim::sleep(Duration::from_micros(random.below(3000)));
        stop.close();
        join_all(workers);
        partner.join().unwrap();
        setting.judge();
    });
}

/// Makes one select over `stop` and some of the channels, in both directions.
fn select_once(setting: &Setting, stop: &Chan<()>, number: u64, random: &mut Random) {
    let chosen = |random: &mut Random| -> Vec<usize> {
        (0..random.below(3)).map(|_| random.below(setting.chans.len() as u64) as usize).collect()
    };
    let (from_channels, to_channels) = (chosen(random), chosen(random));
    let mut receiving: Vec<_> = from_channels.iter().map(|&n| recv(setting.chans[n].receiver())).collect();
    let mut sending: Vec<_> = (number + 100_000..)
        .zip(&to_channels)
        .map(|(value, &n)| send(setting.chans[n].sender(), setting.value(value)))
        .collect();
    let mut stopping = recv(stop.receiver());
    let from = setting.history.now();
    let mut cases = vec![stopping.case()];
    cases.extend(receiving.iter_mut().map(|each| each.case()));
    cases.extend(sending.iter_mut().map(|each| each.case()));
    let select = Select::new(&mut cases);
    let select = if random.below(2) == 0 { select.ordered() } else { select };
    let chosen = match random.below(4) {
        0 => select.poll(),
        1 => select.wait_timeout(Duration::from_micros(random.below(30))),
        _ => Some(select.wait()),
    };
    let Some(chosen) = chosen else { return };
    // The chosen case has a result, and no other case has one.
    let mut results = vec![stopping.into_result().is_some()];
    for (case, channel) in receiving.into_iter().zip(from_channels) {
        let result = case.into_result();
        results.push(result.is_some());
        if let Some(value) = result {
            setting.history.add(channel, Done::Received(value.expect("nobody closes it").0), from);
        }
    }
    for ((value, case), channel) in (number + 100_000..).zip(sending).zip(to_channels) {
        let result = case.into_result();
        results.push(result.is_some());
        if let Some(sent) = result {
            sent.expect("nobody closes it");
            setting.history.add(channel, Done::Sent(value), from);
        }
    }
    assert!(results.iter().enumerate().all(|(number, &has_result)| has_result == (number == chosen)));
}

/// A token moves between two channels. Whenever the select looks for it, at least one of the channels contains a token,
/// so `default` must never be taken.
#[test]
fn default_is_not_taken_while_one_of_two_channels_is_ready() {
    explore(|seed| {
        let chans = [Chan::new(2), Chan::new(2)];
        chans[0].send(()).unwrap();
        let mover = {
            let chans = chans.clone();
            sim::go(move || {
                let mut random = Random::new(seed);
                for n in 0..12 {
                    // The token is sent to the other channel before it is received from this one.
                    chans[(n + 1) % 2].send(()).unwrap();
                    chans[n % 2].recv().unwrap();
                    random.pause();
                }
            })
        };
        let mut random = Random::new(seed + 1);
        while !mover.is_finished() {
            let found = select! {
                recv(chans[0].receiver()) => 0,
                recv(chans[1].receiver()) => 1,
                default => panic!("a token was missed"),
            };
            chans[found].send(()).unwrap();
            random.pause();
        }
        mover.join().unwrap();
    });
}

/// After the close of `done`, `true` is sent to `work`. An ordered select with `done` as its first case never receives
/// `true`.
#[test]
fn ordered_select_checks_all_cases_at_one_instant() {
    explore(|seed| {
        let (done, work) = (Chan::<()>::new(0), Chan::new(3));
        let consumers = spawn_each(0..1 + seed % 3, |_| {
            let (done, work) = (done.clone(), work.clone());
            move || {
                loop {
                    select! {
                        ordered;
                        recv(done.receiver()) => return,
                        recv(work.receiver()) -> late => assert_eq!(late, Ok(false), "taken before the close"),
                    }
                }
            }
        });
        let mut random = Random::new(seed);
        for _ in 0..random.below(8) {
            work.send(false).unwrap();
            random.pause();
        }
        done.close();
        while work.sender().try_send(true).is_ok() {
            random.pause();
        }
        join_all(consumers);
    });
}

/// Gs send and receive values and then drop their handles. Both sides may lose their last handle at the same time,
/// while the buffer has values. Every value is dropped exactly once.
#[test]
fn handles_and_values_are_dropped_concurrently() {
    explore(|seed| {
        let alive = Arc::new(AtomicUsize::new(0));
        let mut random = Random::new(seed);
        let (sender, receiver) = sim::channel((seed % 3) as usize);
        let mut handles = Vec::new();
        for number in 0..1 + random.below(3) {
            let (sender, alive) = (sender.clone(), alive.clone());
            handles.push(sim::go(move || {
                let mut random = Random::new(seed * 3 + number);
                for n in 0..random.below(4) {
                    random.pause();
                    if sender.send(Value::new(n, &alive)).is_err() {
                        return;
                    }
                }
            }));
        }
        for number in 0..1 + random.below(3) {
            let receiver = receiver.clone();
            handles.push(sim::go(move || {
                let mut random = Random::new(seed * 5 + number);
                for _ in 0..random.below(4) {
                    random.pause();
                    if receiver.recv().is_err() {
                        return;
                    }
                }
            }));
        }
        drop((sender, receiver));
        join_all(handles);
        assert_eq!(alive.load(Ordering::Relaxed), 0);
    });
}
