//! The functions of a call stack, without those of the scheduler at its ends.

use core::ops::Range;
use std::path::Path;

use crate::symbols::{Frame, Symbols};

/// An address of a call stack, and its functions, innermost first: those that were inlined, and then the function that
/// contains them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Location {
    pub(crate) address: u64,
    pub(crate) frames: Vec<Frame>,
}

/// Which frames are left out at the inner end of a call stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inner {
    /// Leaves out no frames, because the innermost function is the one that runs.
    All,
    /// Leaves out the frames of the scheduler that park or ready a G, or that record these events. The innermost frame
    /// that is kept is the function of the channel, lock or other object.
    WithoutScheduler,
}

/// The function that is shown for a call stack whose definition was lost.
const LOST: &str = "(lost)";

/// Returns the addresses of a call stack with their functions, innermost first. Leaves out the frames in which each G
/// begins and, at the inner end, the frames that `inner` describes.
pub(crate) fn resolve(symbols: &Symbols, stack: &[u64], inner: Inner) -> Vec<Location> {
    if stack.is_empty() {
        let lost = Frame { function: LOST.to_owned(), file: String::new(), line: 0 };
        return vec![Location { address: 0, frames: vec![lost] }];
    }
    let mut frames: Vec<(u64, Frame)> = Vec::new();
    for &address in stack {
        let unknown = || vec![Frame { function: format!("{address:#x}"), file: String::new(), line: 0 }];
        let found = symbols.frames(address).filter(|found| !found.is_empty()).unwrap_or_else(unknown);
        frames.extend(found.into_iter().map(|frame| (address, named(frame))));
    }
    let owners: Vec<Owner> = frames.iter().map(|(_, frame)| owner(frame)).collect();
    let kept = kept(&owners, inner);
    let mut locations: Vec<Location> = Vec::new();
    for (address, frame) in frames.drain(kept) {
        match locations.last_mut().filter(|location| location.address == address) {
            Some(location) => location.frames.push(frame),
            None => locations.push(Location { address, frames: vec![frame] }),
        }
    }
    locations
}

/// The code to which the function of a frame belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// A program, or a library that it uses.
    Program,
    /// Rust's library.
    Library,
    /// The scheduler or the kernel. `begins` is set for the parts that begin a G. `parks` is set for the parts that
    /// park or ready a G, or that record these events.
    Scheduler { begins: bool, parks: bool },
}

/// Returns the range of the frames that are kept. `owners` are the owners of the frames, innermost first.
fn kept(owners: &[Owner], inner: Inner) -> Range<usize> {
    let begins = |owner: &Owner| matches!(owner, Owner::Library | Owner::Scheduler { begins: true, .. });
    // If no function of a program is on the call stack, the scheduler works for itself, so its outermost frames are
    // kept.
    let has_program = owners.contains(&Owner::Program);
    let outermost = owners.iter().rposition(|owner| !begins(owner)).filter(|_| has_program);
    let end = outermost.map_or(owners.len(), |index| index + 1);
    if inner == Inner::All {
        return 0..end;
    }
    let parks = |owner: &Owner| matches!(owner, Owner::Scheduler { parks: true, .. });
    // Functions of Rust's library are left out only if the scheduler has called them.
    let run = owners[..end].iter().take_while(|owner| parks(owner) || **owner == Owner::Library).count();
    let begin = owners[..run].iter().rposition(parks).map_or(0, |last| last + 1);
    if begin < end { begin..end } else { 0..owners.len() }
}

/// The parts of the scheduler and the kernel that begin a G.
const BEGIN: &[&str] = &["boot", "context", "engine", "kthread", "lifecycle", "native", "platform", "program", "sched"];
/// The parts of the scheduler and the kernel that park or ready a G, or that record these events.
const PARK: &[&str] = &[
    "base",
    "context",
    "engine",
    "entities",
    "library/sync/blocking",
    "library/waiter",
    "native",
    "platform",
    "record",
    "sched",
];

/// The function by which Rust's library catches a panic. It has no file.
const CATCH: &str = "__rust_try";

fn owner(frame: &Frame) -> Owner {
    let is_in = |part: &str, parts: &[&str]| {
        parts.iter().any(|folder| part.strip_prefix(folder).is_some_and(|rest| rest.starts_with(['/', '.'])))
    };
    if let Some(part) = part(&frame.file) {
        return Owner::Scheduler { begins: is_in(part, BEGIN), parks: is_in(part, PARK) };
    }
    if frame.file.is_empty() && frame.function.starts_with("gmp_sched::") {
        // The first instructions of a G are assembly, which has no lines.
        return Owner::Scheduler { begins: true, parks: true };
    }
    if is_library(&frame.file) || frame.function == CATCH { Owner::Library } else { Owner::Program }
}

/// Returns the path of a source file relative to the folder `src` of the scheduler or the kernel. Returns `None` if the
/// file is not in such a folder.
fn part(file: &str) -> Option<&str> {
    let (folder, inside) = file.rsplit_once("/src/")?;
    let package = Path::new(folder).file_name()?.to_str()?;
    (package == "kernel" || package == "gmp-sched" || package.starts_with("gmp-sched-")).then_some(inside)
}

/// Whether a source file belongs to Rust's library.
fn is_library(file: &str) -> bool {
    file.contains("/library/") && (file.starts_with("/rustc/") || file.contains("/rustlib/src/"))
}

/// Makes the name of a function unique. The name of an inlined function contains no module, so its file is added. The
/// name of a closure is only a number, so its line is added, too.
fn named(frame: Frame) -> Frame {
    let is_complete = frame.function.contains("::") || frame.file.is_empty();
    if is_complete {
        return Frame { function: of_type(&frame.function), ..frame };
    }
    let file = Path::new(&frame.file).file_name().unwrap_or_default().to_string_lossy();
    let function = if frame.function.starts_with("{closure") {
        format!("{{closure}} ({file}:{})", frame.line)
    } else {
        format!("{} ({file})", frame.function)
    };
    Frame { function, ..frame }
}

/// Turns `<type as trait>::function` into `type::function`, because pprof leaves out what is between angle brackets.
fn of_type(function: &str) -> String {
    let mut depth = 0;
    let mut end = None;
    if function.starts_with('<') {
        end = function.find(|character| {
            depth += i32::from(character == '<') - i32::from(character == '>');
            depth == 0
        });
    }
    match end.and_then(|end| Some((function[1..end].split_once(" as ")?.0, &function[end + 1..]))) {
        Some((of, name)) => format!("{of}{name}"),
        None => function.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "/home/me/mine/src/main.rs";

    fn owner_of(file: &str) -> Owner {
        owner(&Frame { function: "f".to_owned(), file: file.to_owned(), line: 1 })
    }

    #[test]
    fn frames_of_the_scheduler_are_left_out_at_the_ends() {
        let park = owner_of("/home/me/project/gmp-sched/src/engine/park.rs");
        let mutex = owner_of("/home/me/.cargo/registry/src/index-0/gmp-sched-0.1.0/src/library/sync/mutex.rs");
        let begin = owner_of("/home/me/project/gmp-sched/src/lifecycle/closure.rs");
        let own = owner_of(OWN);
        let library = owner_of("/rustc/0123abcd/library/core/src/ops/function.rs");
        assert_eq!((own, library), (Owner::Program, Owner::Library));
        let owners = [library, park, library, park, mutex, own, begin, own, library, begin];
        assert_eq!(kept(&owners, Inner::WithoutScheduler), 4..8);
        assert_eq!(kept(&owners, Inner::All), 0..8);
        assert_eq!(kept(&[own, mutex, begin], Inner::All), 0..2, "a G that an object of the library has spawned");
        assert_eq!(kept(&[library, own], Inner::WithoutScheduler), 0..2, "the library does not belong to a park");
        assert_eq!(kept(&[park, park], Inner::WithoutScheduler), 0..2, "something is left");
        assert_eq!(kept(&[mutex, park, begin], Inner::All), 0..3, "the scheduler's own work is shown as a whole");
    }

    #[test]
    fn inlined_functions_are_told_apart_by_their_files() {
        let name =
            |function: &str| named(Frame { function: function.to_owned(), file: OWN.to_owned(), line: 7 }).function;
        assert_eq!(name("a::b"), "a::b");
        assert_eq!(name("<a::T<u8> as b::Now<u8>>::now::<u8>"), "a::T<u8>::now::<u8>");
        assert_eq!(name("<a::T<u8>>::now"), "<a::T<u8>>::now");
        assert_eq!(name("b"), "b (main.rs)");
        assert_eq!(name("{closure#0}"), "{closure} (main.rs:7)");
    }
}
