//! The list of Gs in the report of a panic or a deadlock. (The platform writes the report: `Platform::fatal`.)

use core::fmt;
use core::hash::{Hash, Hasher};

use fnv::FnvHasher;

use crate::base::atomic::Ordering;
use crate::entities::goroutine::{Goroutine, WaitReason};
use crate::entities::scheduler::Scheduler;
use crate::entities::status::Status;
use crate::platform::Platform;

/// The largest number of groups that are listed.
const MOST_GROUPS: usize = 48;

impl<Plat: Platform> Scheduler<Plat> {
    /// Displays the living Gs. Gs with the same status, wait reason, name, creator and function form a group. A group
    /// is displayed as the line of its first G and the number of its other Gs. The line contains the number and name of
    /// the G, its status, the G that spawned it, and the function or closure that it was spawned to run. For a G that
    /// waits, the wait reason and the time since the wait began replace the status. If there are more than 48 groups,
    /// the Gs of the further groups are only counted. Go: `goroutineheader`.
    ///
    /// With the feature `std`, one more line follows for each group of waiting Gs: the line of the program's code at
    /// which they wait. Gs of a group wait at the same line.
    ///
    /// Each line begins with a line break. Callable from anywhere; takes no lock and does not allocate. The Gs may
    /// change meanwhile, unless all CPUs have stopped.
    #[doc(alias = "goroutineheader")]
    pub fn goroutine_list(&'static self) -> impl fmt::Display {
        self.goroutine_list_with_places(Goroutine::wait_line)
    }

    /// Like [`goroutine_list`](Self::goroutine_list), but also displays where in its code a G will continue. `place`
    /// returns this location for a G, as text that begins with a line break or is empty (see
    /// [`Goroutine::suspended_at`]). The text follows the line of the first G of a group. All Gs of a group have the
    /// same location.
    pub fn goroutine_list_with_places<D: fmt::Display + Hash>(
        &'static self,
        place: fn(&'static Goroutine<Plat>) -> D,
    ) -> impl fmt::Display {
        List { scheduler: self, place }
    }
}

struct List<Plat: Platform, D> {
    scheduler: &'static Scheduler<Plat>,
    place: fn(&'static Goroutine<Plat>) -> D,
}

/// Gs that differ only in their number and in how long they have waited.
struct Group<Plat: Platform> {
    /// The hash of what the Gs have in common.
    key: u64,
    first: &'static Goroutine<Plat>,
    /// The number of Gs besides the first.
    more: usize,
}

/// The groups, in the order of their first Gs.
struct Groups<Plat: Platform> {
    groups: [Option<Group<Plat>>; MOST_GROUPS],
    /// The number of Gs that are in none of the groups.
    others: usize,
}

impl<Plat: Platform> Groups<Plat> {
    fn new() -> Self {
        Self { groups: [const { None }; MOST_GROUPS], others: 0 }
    }

    fn add(&mut self, key: u64, goroutine: &'static Goroutine<Plat>) {
        let own = self.groups.iter_mut().find(|group| group.as_ref().is_none_or(|group| group.key == key));
        match own {
            Some(Some(group)) => group.more += 1,
            Some(free) => *free = Some(Group { key, first: goroutine, more: 0 }),
            None => self.others += 1,
        }
    }
}

/// A hash of what the Gs of a group have in common.
fn key<Plat: Platform>(goroutine: &'static Goroutine<Plat>, place: &impl Hash) -> u64 {
    let mut hasher = FnvHasher::default();
    (goroutine.status() as u8, goroutine.wait_reason() as u8).hash(&mut hasher);
    goroutine.name().as_ref().map(|name| name.as_str()).hash(&mut hasher);
    goroutine.creator().map(|creator| creator.0).hash(&mut hasher);
    function(goroutine).hash(&mut hasher);
    place.hash(&mut hasher);
    hasher.finish()
}

/// The name of the function or closure of the program that the G was made to run.
fn function<Plat: Platform>(goroutine: &Goroutine<Plat>) -> Option<&'static str> {
    goroutine.body_functions.load(Ordering::Relaxed).map(|functions| (functions.name)())
}

/// Displays the line of a G.
struct Header<Plat: Platform>(&'static Goroutine<Plat>);

impl<Plat: Platform> fmt::Display for Header<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let goroutine = self.0;
        let (status, reason) = (goroutine.status(), goroutine.wait_reason());
        write!(f, "goroutine {} ", goroutine.id())?;
        if let Some(name) = goroutine.name() {
            write!(f, "({name}) ")?;
        }
        if status == Status::Waiting && reason != WaitReason::None {
            let waited = Plat::now() - goroutine.waiting_since();
            write!(f, "[{reason}, {}.{:03} s]", waited.as_secs(), waited.subsec_millis())?;
        } else {
            write!(f, "[{status}]")?;
        }
        let Some(creator) = goroutine.creator() else { return Ok(()) };
        write!(f, " created by goroutine {creator}")?;
        function(goroutine).map_or(Ok(()), |name| write!(f, " to run {name}"))
    }
}

/// Displays a number with a comma between thousands.
pub(super) struct Thousands(pub(super) usize);

impl fmt::Display for Thousands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1000 => self.0.fmt(f),
            number => write!(f, "{},{:03}", Self(number / 1000), number % 1000),
        }
    }
}

impl<Plat: Platform, D: fmt::Display + Hash> fmt::Display for List<Plat, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut groups = Groups::new();
        for goroutine in self.scheduler.goroutines().filter(|goroutine| goroutine.status() != Status::Dead) {
            groups.add(key(goroutine, &(self.place)(goroutine)), goroutine);
        }
        for group in groups.groups.iter().flatten() {
            write!(f, "\n{}{}", Header(group.first), (self.place)(group.first))?;
            if group.more > 0 {
                write!(f, "\n{} more like goroutine {}", Thousands(group.more), group.first.id())?;
            }
        }
        if groups.others > 0 {
            write!(f, "\n{} other goroutines", Thousands(groups.others))?;
        }
        Ok(())
    }
}
