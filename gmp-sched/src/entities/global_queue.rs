//! The global run queue, and the list of runnable Gs that are locked to their Ms. The scheduler lock guards both.

use crate::base::atomic::Ordering;
use crate::base::list::List;
use crate::entities::goroutine::Goroutine;
use crate::entities::scheduler::Scheduler;
use crate::entities::shared::Shared;
use crate::platform::Platform;

impl<Plat: Platform> Scheduler<Plat> {
    /// Appends Gs to the global queue. The caller makes sure that an M runs them. Go: `globrunqputbatch`.
    pub(crate) fn put_global(&self, shared: &mut Shared<Plat>, goroutines: &mut List<Goroutine<Plat>>) {
        shared.global.append(goroutines);
        self.publish_global_length(shared);
    }

    /// Appends a G to the global queue, or to the list of locked Gs if the G is locked to its M. The caller makes sure
    /// that an M runs the G.
    pub(crate) fn put_global_one(&self, shared: &mut Shared<Plat>, goroutine: &'static Goroutine<Plat>) {
        let list = if goroutine.is_locked() { &mut shared.locked } else { &mut shared.global };
        list.push_back(goroutine);
        self.publish_global_length(shared);
    }

    pub(crate) fn publish_global_length(&self, shared: &Shared<Plat>) {
        self.global_length.store(shared.global.len() + shared.locked.len(), Ordering::Relaxed);
    }

    /// Puts Gs on the global queue before all others. The caller makes sure that an M runs them.
    pub(crate) fn put_global_first(&self, shared: &mut Shared<Plat>, goroutines: &mut List<Goroutine<Plat>>) {
        goroutines.append(&mut shared.global);
        self.put_global(shared, goroutines);
    }

    /// Takes the first G from the global queue, if there is one.
    pub(crate) fn take_global(&self, shared: &mut Shared<Plat>) -> Option<&'static Goroutine<Plat>> {
        let goroutine = shared.global.pop_front()?;
        self.publish_global_length(shared);
        Some(goroutine)
    }
}
