//! A child process that is on a list of running ones, so that a signal that ends this process can end the child, too.

use std::collections::BTreeMap;
use std::io;
use std::process::{Child, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};

/// The process ids of running children, each with what belongs to the child.
pub(crate) type List<T> = Mutex<BTreeMap<i32, T>>;

/// Locks a list. While the list is locked, each id on it is that of a child that has not been waited for.
pub(crate) fn lock<T>(list: &List<T>) -> MutexGuard<'_, BTreeMap<i32, T>> {
    // Poisoning is ignored, because the map is consistent even if a holder of the lock has panicked.
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends `signal` to all children on a list that is locked.
pub(crate) fn send_to_all<T>(list: &BTreeMap<i32, T>, signal: Signal) {
    for &id in list.keys() {
        if let Some(process) = Pid::from_raw(id) {
            // An error means that this child has ended, so no signal is needed.
            let _ = kill_process(process, signal);
        }
    }
}

/// A child process. Dropping it ends the child.
///
/// When a child that has ended is waited for, its id is free, and another process may get it. So the child is waited
/// for, and its id is removed from the list, in one critical section. Otherwise a signal could end that other process.
#[derive(Debug)]
pub(crate) struct ListedChild<T: 'static> {
    child: Child,
    list: &'static List<T>,
    /// The status of the child. `None` until the child has been waited for. After that, its id may be that of another
    /// process.
    status: Option<ExitStatus>,
}

impl<T> ListedChild<T> {
    /// Puts `child` on the list, with `entry`.
    pub(crate) fn new(child: Child, list: &'static List<T>, entry: T) -> Self {
        lock(list).insert(child.id().cast_signed(), entry);
        Self { child, list, status: None }
    }

    /// Ends the child at once if it is still running.
    pub(crate) fn kill(&mut self) {
        // The call also succeeds if the process has ended already. It fails only if the signal cannot be sent.
        drop(self.child.kill());
    }

    /// Like [`kill`](Self::kill), for a child that leads a process group: also ends the other processes of the group.
    pub(crate) fn kill_group(&mut self) {
        // After the wait for the child, its id may be that of another group.
        if self.status.is_none() {
            // The call fails only if no process of the group is left.
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        }
    }

    /// Returns the status of the child if it has ended.
    pub(crate) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            let mut list = lock(self.list);
            self.status = self.child.try_wait()?;
            if self.status.is_some() {
                list.remove(&self.child.id().cast_signed());
            }
        }
        Ok(self.status)
    }

    /// Waits until the child has ended, and returns its status.
    pub(crate) fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(status);
            }
            // Waits without the lock. The child keeps its status, and with it its id, until `try_wait` has the lock.
            let id = WaitId::Pid(Pid::from_child(&self.child));
            retry_on_intr(|| waitid(id.clone(), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT))?;
        }
    }
}

impl<T> Drop for ListedChild<T> {
    fn drop(&mut self) {
        self.kill();
        // Without this wait, the process would remain as a zombie. An error cannot be handled here.
        drop(self.wait());
    }
}
