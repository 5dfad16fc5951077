//! The channel that is closed when a context is done.

use alloc::sync::Arc;
use core::convert::Infallible;

use super::ContextFunction;
use crate::base::error::OutOfResources;
use crate::base::instant::Instant;
use crate::library::chan::{Receiver, Sender, try_channel, try_never};
use crate::library::limit::{Hook, Node, OnEnd};
use crate::platform::Platform;

/// The shared hook of a node: closes the channel when the node is cancelled.
struct Done<Plat: Platform> {
    sender: Sender<Infallible, Plat>,
    receiver: Receiver<Infallible, Plat>,
}

impl<Plat: Platform> OnEnd for Done<Plat> {
    fn node_ended(&self) {
        self.sender.close_from_anywhere();
    }
}

/// Returns a channel on which nothing is sent and which is closed when `node` ends. All callers for the same node get
/// the same channel, unless the end of the node was recorded before the first call. In that case each caller gets a
/// closed channel of its own. If `node` is `None`, the channel is a nil channel.
#[track_caller]
pub(super) fn channel<Plat: Platform>(
    node: Option<&Arc<Node<Plat>>>,
) -> Result<Receiver<Infallible, Plat>, OutOfResources> {
    let Some(node) = node else { return try_never() };
    if let Some(receiver) = existing(node) {
        return Ok(receiver);
    }
    let (sender, receiver) = try_channel(0)?;
    let hook = Hook::new(Done { sender: sender.clone(), receiver: receiver.clone() })?;
    if node.deadline() != Instant::NEVER {
        let sender = sender.clone();
        // At the deadline, a `ContextFunction` closes the channel. Dropping the function's handle does not stop the
        // function. A cancellation closes the channel directly.
        let close = move || {
            sender.close();
        };
        drop(ContextFunction::new(Some(node), close)?);
    }
    if node.set_shared_hook(hook).is_ok() {
        return Ok(receiver);
    }
    Ok(existing(node).unwrap_or_else(|| {
        // The node has ended meanwhile, so the channel is closed at once.
        sender.close();
        receiver
    }))
}

fn existing<Plat: Platform>(node: &Node<Plat>) -> Option<Receiver<Infallible, Plat>> {
    Some(node.shared_hook()?.get::<Done<Plat>>()?.receiver.clone())
}
