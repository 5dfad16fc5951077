//! Wrong channels, on which the tests of students are tried: a model of a channel, and what may be wrong with it. A sequence of
//! steps finds a flaw if, after one of them, some step has ended otherwise with the flaw than without.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::trial::Trial;

/// A step of a sequence. A G of its own performs each step, and may wait. The next step comes when no G can run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// A send, which may wait.
    Send,
    /// A receive, which may wait.
    Recv,
    /// A send that does not wait.
    TrySend,
    /// A receive that does not wait.
    TryRecv,
    /// A send that ends after some time, before the next step.
    SendTimeout,
    /// A receive that ends after some time, before the next step.
    RecvTimeout,
    /// A close.
    Close,
}

/// How the operation of a step ended. The value that the step with the number n sends is n.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    /// The value is received, or in the buffer.
    Sent,
    /// A receive of this value.
    Received(usize),
    /// A send that gives its value back, because the channel is closed.
    ClosedFor(usize),
    /// A receive that finds the channel closed.
    Closed,
    /// A send that gives its value back, because it would have to wait, or has waited long enough.
    Full(usize),
    /// A receive that would have to wait, or has waited long enough.
    Empty,
    /// A close, with whether the channel was open before.
    WasOpen(bool),
}

/// What may be wrong with a channel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Flaw {
    /// The buffer has room for one value less.
    LeavesOneEntryFree,
    /// A receive takes the newest value of the buffer.
    TakesTheNewest,
    /// A receive takes the value of a sender that waits, before those in the buffer.
    OvertakesTheBuffer,
    /// The sender that came last is served first.
    ServesTheLastSender,
    /// The receiver that came last is served first.
    ServesTheLastReceiver,
    /// A send goes into the buffer, although a receiver waits.
    PrefersTheBuffer,
    /// A close takes the values out of the buffer.
    EmptiesTheBuffer,
    /// A close leaves senders waiting.
    LeavesSendersWaiting,
    /// A send to a closed channel goes into the buffer.
    SendsOnAClosedChannel,
}

/// The model: a buffer, those who wait, and how each step ended.
#[derive(Debug)]
pub struct Model {
    flaw: Option<Flaw>,
    capacity: usize,
    /// The values in the buffer.
    pub buffer: VecDeque<usize>,
    senders: VecDeque<usize>,
    receivers: VecDeque<usize>,
    is_closed: bool,
    /// How each step ended; `None` if it waits.
    pub ends: Vec<Option<End>>,
}

impl Model {
    /// A channel whose buffer has room for `capacity` values, perhaps with a flaw.
    #[must_use]
    pub fn new(capacity: usize, flaw: Option<Flaw>) -> Self {
        let [buffer, senders, receivers] = [const { VecDeque::new() }; 3];
        Self { flaw, capacity, buffer, senders, receivers, is_closed: false, ends: Vec::new() }
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Takes a step. If it sends, its number is the value.
    pub fn take(&mut self, step: Step) {
        let number = self.ends.len();
        self.ends.push(None);
        let end = match step {
            Step::Send | Step::TrySend | Step::SendTimeout => self.send(number),
            Step::Recv | Step::TryRecv | Step::RecvTimeout => self.receive(),
            Step::Close => Some(self.close()),
        };
        self.ends[number] = end.or_else(|| match step {
            Step::TrySend | Step::SendTimeout => Some(End::Full(number)),
            Step::TryRecv | Step::RecvTimeout => Some(End::Empty),
            Step::Send => {
                self.senders.push_back(number);
                None
            }
            Step::Recv => {
                self.receivers.push_back(number);
                None
            }
            Step::Close => None,
        });
    }

    fn send(&mut self, number: usize) -> Option<End> {
        if self.is_closed && !self.has(Flaw::SendsOnAClosedChannel) {
            return Some(End::ClosedFor(number));
        }
        let has_room = self.buffer.len() + usize::from(self.has(Flaw::LeavesOneEntryFree)) < self.capacity;
        let is_for_buffer = self.has(Flaw::PrefersTheBuffer) && has_room;
        let is_last_first = self.has(Flaw::ServesTheLastReceiver);
        if let Some(receiver) = (!is_for_buffer).then(|| pop(&mut self.receivers, is_last_first)).flatten() {
            self.ends[receiver] = Some(End::Received(number));
        } else if has_room {
            self.buffer.push_back(number);
        } else {
            return None;
        }
        Some(End::Sent)
    }

    fn receive(&mut self) -> Option<End> {
        let sender = pop(&mut self.senders, self.flaw == Some(Flaw::ServesTheLastSender));
        if let Some(sender) = sender {
            self.ends[sender] = Some(End::Sent);
            if self.has(Flaw::OvertakesTheBuffer) {
                return Some(End::Received(sender));
            }
        }
        let oldest = pop(&mut self.buffer, self.flaw == Some(Flaw::TakesTheNewest));
        self.buffer.extend(sender);
        let value = oldest.or_else(|| self.buffer.pop_front());
        value.map(End::Received).or(self.is_closed.then_some(End::Closed))
    }

    fn close(&mut self) -> End {
        let was_open = !self.is_closed;
        self.is_closed = true;
        if self.has(Flaw::EmptiesTheBuffer) {
            self.buffer.clear();
        }
        let woken = if self.has(Flaw::LeavesSendersWaiting) { 0 } else { self.senders.len() };
        for sender in self.senders.drain(..woken) {
            self.ends[sender] = Some(End::ClosedFor(sender));
        }
        for receiver in self.receivers.drain(..) {
            self.ends[receiver] = Some(End::Closed);
        }
        End::WasOpen(was_open)
    }
}

/// Takes the first of those in `queue`, or the last.
fn pop(queue: &mut VecDeque<usize>, last: bool) -> Option<usize> {
    if last { queue.pop_back() } else { queue.pop_front() }
}

impl Trial for (usize, &[Step]) {
    type Flaw = Flaw;
    /// After each step: how each of the steps so far has ended.
    type Seen = Vec<Vec<Option<End>>>;

    const FLAWS: &'static [&'static [Flaw]] = &[
        &[
            Flaw::LeavesOneEntryFree,
            Flaw::TakesTheNewest,
            Flaw::OvertakesTheBuffer,
            Flaw::ServesTheLastSender,
            Flaw::ServesTheLastReceiver,
            Flaw::PrefersTheBuffer,
        ],
        &[Flaw::EmptiesTheBuffer, Flaw::LeavesSendersWaiting, Flaw::SendsOnAClosedChannel],
    ];
    const LIMIT: &'static str = "at most six steps, on a channel of 0 to 2";

    fn is_small(&self) -> bool {
        self.0 <= 2 && self.1.len() <= 6
    }

    fn run(&self, flaw: Option<Flaw>) -> Self::Seen {
        let mut model = Model::new(self.0, flaw);
        let mut seen = |step: &Step| {
            model.take(*step);
            model.ends.clone()
        };
        self.1.iter().map(&mut seen).collect()
    }
}
