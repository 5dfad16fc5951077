//! The list of Gs in the report of a panic or a deadlock.

use core::fmt;

use crate::entities::goroutine::WaitReason;
use crate::entities::scheduler::Scheduler;
use crate::entities::status::Status;
use crate::platform::Platform;

impl<P: Platform> Scheduler<P> {
    /// Displays a line for each living G: its number and name, its status or (if it waits) why and for how long, and
    /// the G that spawned it. Go: `goroutineheader`.
    ///
    /// Each line begins with a line break. Callable from anywhere; takes no lock.
    #[doc(alias = "goroutineheader")]
    pub fn goroutine_list(&'static self) -> impl fmt::Display {
        List(self)
    }
}

struct List<P: Platform>(&'static Scheduler<P>);

impl<P: Platform> fmt::Display for List<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for goroutine in self.0.goroutines().filter(|goroutine| goroutine.status() != Status::Dead) {
            let (status, reason) = (goroutine.status(), goroutine.wait_reason());
            write!(f, "\ngoroutine {} ", goroutine.id())?;
            if let Some(name) = goroutine.name() {
                write!(f, "({name}) ")?;
            }
            if status == Status::Waiting && reason != WaitReason::None {
                let waited = P::now() - goroutine.waiting_since();
                write!(f, "[{reason}, {}.{:03} s]", waited.as_secs(), waited.subsec_millis())?;
            } else {
                write!(f, "[{status}]")?;
            }
            if let Some(creator) = goroutine.creator() {
                write!(f, " created by goroutine {creator}")?;
            }
        }
        Ok(())
    }
}
