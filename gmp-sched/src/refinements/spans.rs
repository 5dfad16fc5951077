//! Spans and marks of programs, which a trace shows.

use core::marker::PhantomData;

use crate::base::atomic::Ordering;
use crate::entities::goroutine::Goroutine;
use crate::platform::{Pinned, Platform};
use crate::record::trace::{Event, EventKind};
use crate::record::trace_ring::Ring;

/// Records in `ring` that the calling G begins or ends a span, or passes a mark.
#[cold]
#[inline(never)]
fn write_text<Plat: Platform>(ring: &Ring, kind: EventKind, goroutine: &Goroutine<Plat>, text: &'static str) {
    let when = Plat::now();
    let detail = ring.number_of(text, when);
    ring.write(Event { when, kind, goroutine: Some(goroutine.id()), detail });
}

#[inline]
fn note_text<Plat: Platform>(kind: EventKind, text: &'static str) {
    let pinned = Pinned::<Plat>::of_scheduler();
    if let Some(machine) = pinned.try_machine()
        && let (Some(goroutine), Some(processor)) = (machine.current_goroutine(), machine.processor())
        && let Some(ring) = processor.tracer.active.load(Ordering::Acquire)
    {
        write_text(ring, kind, goroutine, text);
    }
}

/// A part of a G's work that a trace shows. The part ends when this value is dropped.
#[must_use = "the span ends when this is dropped"]
#[derive(Debug)]
pub struct Span<Plat: Platform> {
    name: &'static str,
    _platform: PhantomData<fn() -> Plat>,
}

/// Begins a span of the calling G, which a trace shows under `name`. The span ends when the returned value is dropped;
/// meanwhile the G may block and run on other Ps. Takes a few instructions while no trace is taken. Has no effect if
/// the caller is not a G with a P. Does not block; not callable from interrupts. Go: `trace.StartRegion`.
///
/// ```
/// use gmp_sched::native;
/// use gmp_sched::trace::EventKind;
///
/// unsafe { native::enter() }.run_with(1, |scheduler| {
///     scheduler.start_trace(1024).unwrap();
///     let span = native::span("compute");
///     native::mark("half");
///     drop(span);
///     scheduler.stop_trace();
///     let kinds: Vec<_> = scheduler.processors()[0].trace().iter().map(|event| event.kind).collect();
///     for kind in [EventKind::SpanBegin, EventKind::Mark, EventKind::SpanEnd] {
///         assert!(kinds.contains(&kind));
///     }
/// });
/// ```
#[doc(alias = "StartRegion")]
#[inline]
pub fn span<Plat: Platform>(name: &'static str) -> Span<Plat> {
    note_text::<Plat>(EventKind::SpanBegin, name);
    Span { name, _platform: PhantomData }
}

/// Marks a part of the calling G's work, which a trace shows under a name. `span!("name");` lasts to the end of the
/// enclosing block, and `span!("name", expression)` only while the expression is evaluated, whose value it returns.
/// Both forms call [`span`](fn@span).
///
/// A span belongs to a platform, so programs use the macro of their platform: `native::span!`, `sim::span!`,
/// `kernel::span!`. For another platform, `on` names it: `trace::span!(on Platform; "name")`.
///
/// ```
/// use gmp_sched::native::{self, Native};
/// use gmp_sched::trace::{self, EventKind};
///
/// unsafe { native::enter() }.run_with(1, |scheduler| {
///     scheduler.start_trace(1024).unwrap();
///     {
///         native::span!("block");
///         native::span!("another");
///         assert_eq!(native::span!("expression", 6 * 7), 42);
///     }
///     trace::span!(on Native; "to the end");
///     scheduler.stop_trace();
///     let kinds: Vec<_> = scheduler.processors()[0].trace().iter().map(|event| event.kind).collect();
///     let is_span = |kind: &&EventKind| matches!(kind, EventKind::SpanBegin | EventKind::SpanEnd);
///     let (begin, end) = (EventKind::SpanBegin, EventKind::SpanEnd);
///     assert_eq!(kinds.iter().filter(is_span).copied().collect::<Vec<_>>(), [begin, begin, begin, end, end, end, begin]);
/// });
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! __span {
    (on $platform:ty; $name:expr) => {
        let _span = $crate::trace::span::<$platform>($name);
    };
    (on $platform:ty; $name:expr, $work:expr) => {{
        let _span = $crate::trace::span::<$platform>($name);
        $work
    }};
}

/// Records that the calling G has reached a point of the program, which a trace shows under `name`. Takes a few
/// instructions while no trace is taken. Has no effect if the caller is not a G with a P. Does not block; not callable
/// from interrupts. Go: `trace.Log`.
#[inline]
pub fn mark<Plat: Platform>(name: &'static str) {
    note_text::<Plat>(EventKind::Mark, name);
}

impl<Plat: Platform> Drop for Span<Plat> {
    #[inline]
    fn drop(&mut self) {
        note_text::<Plat>(EventKind::SpanEnd, self.name);
    }
}
