//! What is left behind by a G that ends without dropping its values. On the machine a panic ends a G in this way if
//! `panic=isolate` is set.
//!
//! The stack cannot know which values the G owned, but it knows which Gs have used an object. A connection ends with
//! the G that has used it last: its peer gets a reset, and a later call of another G returns the error of a reset
//! connection. A listener, or a UDP socket, ends only if no other G has ever used it, because a server may have several
//! Gs that accept or receive.
//!
//! The port and the memory for data are free then. What is left is an entry in a table, for the values that may still
//! refer to it: less than the stack of the G, which is not used again, either. If another G drops the value later, the
//! entry is free, too. Queries of names are over before a G runs code of the program, so none is left.

use gmp_sched::goroutine::GoroutineId;
use gmp_sched::platform::{Pinned, Platform};
use gmp_sched::time::Instant;

use crate::connection::{Connection, Owner};
use crate::key::Protocol;
use crate::state::State;

/// The Gs that have used an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Users {
    Nobody,
    One(GoroutineId),
    Several,
}

impl Users {
    /// Notes that the caller uses the object.
    pub(crate) fn add(&mut self, user: GoroutineId) {
        *self = match *self {
            Self::Nobody => Self::One(user),
            Self::One(other) if other == user => Self::One(user),
            Self::One(_) | Self::Several => Self::Several,
        };
    }
}

/// Returns the calling G.
pub(crate) fn caller<Plat: Platform>() -> GoroutineId {
    Pinned::<Plat>::new().goroutine().id()
}

impl<Plat: Platform> State<Plat> {
    /// Ends what is left behind by a G that has ended without dropping its values.
    pub(crate) fn abandon(&mut self, goroutine: GoroutineId, now: Instant) {
        for index in self.connections.indices() {
            if self.connections.get(index).is_some_and(|connection| connection.users == Users::One(goroutine)) {
                self.abandon_connection(index, now);
            }
        }
    }

    /// Ends all connections and UDP sockets, because the link is broken for ever. The listeners have ended before.
    pub(crate) fn close(&mut self, now: Instant) {
        for index in self.connections.indices() {
            self.abandon_connection(index, now);
            // No peer will answer.
            if self.connections.get(index).is_some_and(|connection| connection.owner == Owner::Closing) {
                self.connections.remove(index);
            }
        }
        self.wake_all();
    }

    /// Ends a connection or a UDP socket whose value a program has not dropped.
    fn abandon_connection(&mut self, index: usize, now: Instant) {
        let Some(connection) = self.connections.get(index) else { return };
        match connection.owner {
            Owner::Stream => connection.socket().abort(),
            Owner::Datagrams => {
                connection.datagrams().close();
                self.udp_sockets -= 1;
            }
            Owner::HalfOpen(_) | Owner::Queued(_) | Owner::Closing | Owner::Abandoned => return,
        }
        connection.owner = Owner::Abandoned;
        self.abandoned += 1;
        self.settle(index, now);
    }

    /// Called when the value of a connection or a UDP socket is dropped. If the connection or socket was
    /// [abandoned](Self::abandon), removes it, and returns `true`.
    pub(crate) fn remove_abandoned(&mut self, index: usize) -> bool {
        let was_abandoned = self.connections.get(index).is_some_and(|it| it.owner == Owner::Abandoned);
        if was_abandoned {
            self.abandoned -= 1;
            self.connections.remove(index);
        }
        was_abandoned
    }

    /// Notes that a G uses a connection or a UDP socket, and returns it.
    pub(crate) fn note_user(&mut self, index: usize, user: GoroutineId) -> Option<&mut Connection> {
        let connection = self.connections.get(index)?;
        match connection.key.protocol {
            Protocol::Tcp => connection.users = Users::One(user),
            Protocol::Udp => connection.users.add(user),
        }
        Some(connection)
    }
}
