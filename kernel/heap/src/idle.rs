//! Page runs that are not in use, but keep their frames for the next request of the same size.

use core::ptr;

use crate::runs::{LEVELS, Run};

/// How many runs of a list are compared with a request.
const COMPARED: usize = 8;

/// At the beginning of an idle run.
#[derive(Debug)]
struct Idle {
    next: *mut Idle,
    run: Run,
}

/// The idle runs, in one list for each level.
#[derive(Debug)]
pub struct IdleRuns([*mut Idle; LEVELS]);

// SAFETY: the runs belong to no particular CPU.
unsafe impl Send for IdleRuns {}

impl IdleRuns {
    /// Makes lists without runs.
    #[must_use]
    pub const fn new() -> Self {
        Self([ptr::null_mut(); LEVELS])
    }

    /// Adds a run whose memory begins at `start`.
    ///
    /// # Safety
    /// All pages of the run must have memory, and must not be in use.
    pub unsafe fn put(&mut self, start: *mut u8, run: Run) {
        let (list, idle) = (&mut self.0[run.level()], start.cast::<Idle>());
        // SAFETY: the caller promises that the memory is not in use. A page is large and aligned enough.
        unsafe { idle.write(Idle { next: *list, run }) };
        *list = idle;
    }

    /// Takes a run of exactly this level and number of pages. Returns its start and the run. Looks only at the eight runs
    /// of the level that were put last.
    pub fn take(&mut self, level: usize, pages: usize) -> Option<(*mut u8, Run)> {
        let mut link = &raw mut self.0[level];
        for _ in 0..COMPARED {
            // SAFETY: `link` is the head of a list, or the link of an idle run, whose memory only the lists use.
            let idle = unsafe { *link };
            // SAFETY: an idle run begins with this value, and only the lists use its memory.
            let Idle { next, run } = unsafe { idle.as_ref() }?;
            if run.pages() == pages {
                // SAFETY: `link` can be written for the same reason that it could be read above.
                unsafe { *link = *next };
                return Some((idle.cast(), *run));
            }
            // SAFETY: `idle` is not null, so it is an idle run, which begins with this value.
            link = unsafe { &raw mut (*idle).next };
        }
        None
    }

    /// Takes any run.
    pub fn take_any(&mut self) -> Option<(*mut u8, Run)> {
        let list = self.0.iter_mut().find(|list| !list.is_null())?;
        let start = *list;
        // SAFETY: an idle run begins with this value, and only the lists use its memory.
        let Idle { next, run } = unsafe { start.read() };
        *list = next;
        Some((start.cast(), run))
    }
}

impl Default for IdleRuns {
    fn default() -> Self {
        Self::new()
    }
}
