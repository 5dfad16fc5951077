//! Sections of code in which a G must not wait, such as a section that holds a lock for which other threads spin.
//!
//! If a G waited in such a section, its M would run other Gs, and these could spin for the lock for a long time or for
//! ever. On the bare machine preemption is off in such a section, so the scheduler refuses to switch. Threads have no
//! preemption to turn off. So each M counts the sections that its thread is in, and the scheduler refuses to switch
//! while this number is above zero.

use alloc::vec::Vec;
use core::cell::RefCell;
use core::marker::PhantomData;
use core::panic::Location;
use core::sync::atomic::{AtomicU64, Ordering};

use super::Native;
use crate::entities::machine::Machine;
use crate::platform::Platform;

/// A section that a thread is in. If a G must not wait but tries to, the message of the panic contains `context` and
/// `location`, which is the line at which the section begins.
struct Section {
    number: u64,
    context: &'static str,
    location: &'static Location<'static>,
}

std::thread_local! {
    /// The sections that this thread is in, the outermost first.
    static HERE: RefCell<Vec<Section>> = const { RefCell::new(Vec::new()) };
}

/// While a value of this type exists, a G must not wait. See [`forbid_waits`].
#[derive(Debug)]
#[must_use = "waits are forbidden until this is dropped"]
pub struct WaitsForbidden {
    number: u64,
    machine: Option<&'static Machine<Native>>,
    not_send: PhantomData<*mut ()>,
}

/// Begins a section in which a G must not wait. Until the returned value is dropped, a G panics if it blocks, yields,
/// ends or makes a system call on the calling thread. The message is `a G blocks, yields or ends`, followed by
/// `context` and the line of code that called this function.
///
/// Callable from any thread; does not block.
///
/// ```
/// use gmp_sched::native;
///
/// # std::panic::set_hook(Box::new(|_| ()));
/// let refused = unsafe { native::enter() }.run(1, || {
///     native::go(|| {
///         let _held = native::forbid_waits("with a spin lock held");
///         native::yield_now();
///     })
///     .join()
/// });
/// assert!(refused.is_err());
/// ```
#[track_caller]
pub fn forbid_waits(context: &'static str) -> WaitsForbidden {
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    let (number, location) = (NUMBERS.fetch_add(1, Ordering::Relaxed), Location::caller());
    // `try_with` fails only while the thread ends. At that time nothing reads the list of sections any more.
    let _ = HERE.try_with(|here| here.borrow_mut().push(Section { number, context, location }));
    let machine = Native::current_machine();
    machine.inspect(|machine| machine.forbid_waits());
    WaitsForbidden { number, machine, not_send: PhantomData }
}

impl Drop for WaitsForbidden {
    fn drop(&mut self) {
        if let Some(machine) = self.machine {
            machine.allow_waits();
        }
        // As in `forbid_waits`.
        let _ = HERE.try_with(|here| here.borrow_mut().retain(|section| section.number != self.number));
    }
}

/// Whether a G may block, yield or end on the calling thread. Returns `false` in a [section](forbid_waits) that forbids
/// this, and while the G has stopped the world. Returns `true` on a thread that runs no Gs. Callable from any thread;
/// does not block.
#[must_use]
pub fn may_wait() -> bool {
    Native::current_machine().is_none_or(|machine| !machine.are_waits_forbidden())
}

/// Panics if a G may not block, yield or end on the calling thread, as the functions that block do. For functions that
/// block only in some calls, and are to be refused in every call. Callable from any thread; does not block.
///
/// # Panics
///
/// If [`may_wait`] returns `false`.
#[track_caller]
pub fn assert_may_wait() {
    if !may_wait() {
        refuse_to_wait();
    }
}

/// Called when a G tries to wait where it must not.
///
/// # Panics
///
/// Always. The message describes the outermost section that this thread is in, if it is in one.
#[cold]
#[inline(never)]
#[track_caller]
pub(super) fn refuse_to_wait() -> ! {
    let outermost = HERE.with_borrow(|here| here.first().map(|section| (section.context, section.location)));
    match outermost {
        Some((context, location)) => panic!("a G blocks, yields or ends {context} since {location}"),
        None => panic!("a G blocks, yields or ends where it may not"),
    }
}
