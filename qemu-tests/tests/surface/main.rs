//! Reads the source of `gmp-sched` and of the kernel. Compares two things with written lists: what safe code can reach,
//! and how much code is unsafe. A change of the source that alters one of them must alter its list, too, so that a
//! reviewer sees it.
//!
//! - `gmp-sched.txt` and `kernel.txt` list the public safe functions that touch the state of a CPU, an M or a P,
//!   directly or by a function that they call. The comment above each group of functions states why no caller can
//!   break anything with them.
//! - `callers.rs` fails if the documentation of a public function has a section "Panics", but the function is not
//!   `#[track_caller]`. The message of the panic would then not name the line of the function's caller.
//! - `halves.rs` compares what the kernel offers to programs on the machine with what it offers to programs on the
//!   host.
//! - `layers.rs` fails if a layer of the scheduler or of the kernel names a higher layer.
//! - `docs/unsafe.md` has the number of uses of `unsafe` in each module. `UNSAFE_TABLE=overwrite cargo test -p
//!   qemu-tests --test surface` updates the table.

mod callers;
mod condition;
mod halves;
mod layers;
mod paths;
mod reach;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::{env, fs};

use reach::Found;
use source::{Crate, Half, Unsafe, Visibility};

static SCHEDULER: LazyLock<Crate> = LazyLock::new(|| Crate::read(&in_project("gmp-sched/src/lib.rs"), Half::Machine));
static KERNEL: LazyLock<Crate> = LazyLock::new(|| Crate::read(&in_project("kernel/src/lib.rs"), Half::Machine));
/// The kernel as it is compiled for programs that run on the host.
static HOST: LazyLock<Crate> = LazyLock::new(|| Crate::read(&in_project("kernel/src/lib.rs"), Half::Host));

fn in_project(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(path)
}

fn read(path: &str) -> String {
    let path = in_project(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Parses a list. Each entry must be in a group that begins with a comment. The comment states the reason for all
/// entries of the group.
fn listed(list: &str) -> Vec<String> {
    let mut has_reason = false;
    let mut entries = Vec::new();
    for line in list.lines() {
        match line.strip_prefix('#') {
            Some(_) => has_reason = true,
            None if line.is_empty() => has_reason = false,
            None => {
                assert!(has_reason, "`{line}` has no reason above it");
                entries.push(line.to_string());
            }
        }
    }
    entries
}

/// Returns the entries that occur more often in `of` than in `over`.
fn surplus<'a>(of: &[&'a str], over: &[&str]) -> BTreeSet<&'a str> {
    let count = |side: &[&str], entry: &str| side.iter().filter(|other| **other == entry).count();
    of.iter().copied().filter(|entry| count(of, entry) > count(over, entry)).collect()
}

fn compare(found: &[Found], list: &str) {
    let path = format!("qemu-tests/tests/surface/{list}");
    let listed = listed(&read(&path));
    let listed: Vec<&str> = listed.iter().map(String::as_str).collect();
    let paths: Vec<&str> = found.iter().map(|found| found.path.as_str()).collect();
    let mut difference = String::new();
    for new in surplus(&paths, &listed) {
        let chain = found.iter().find(|found| found.path == new).map_or("", |found| &found.chain);
        let _ = writeln!(difference, "not listed: {new}\n    by {chain}");
    }
    for gone in surplus(&listed, &paths) {
        let _ = writeln!(difference, "listed, but not there any more: {gone}");
    }
    assert!(
        difference.is_empty(),
        "{difference}\n{path} lists the public safe functions that touch the state of a CPU, an M or a P. Think of what safe \
         code can do with a new one: anywhere, with any arguments, twice, in a handler, pinned. If it can break nothing, add \
         it below the reason why; else make it private or `unsafe`."
    );
}

#[test]
fn safe_functions_of_the_scheduler_that_touch_state_of_an_m_are_listed() {
    compare(&reach::find(&SCHEDULER, &[]), "gmp-sched.txt");
}

#[test]
fn safe_functions_of_the_kernel_that_touch_state_of_a_cpu_are_listed() {
    compare(&reach::find(&KERNEL, &[&SCHEDULER]), "kernel.txt");
}

const BEGIN: &str = "<!-- begin: uses of unsafe -->\n";
const END: &str = "<!-- end: uses of unsafe -->";

/// Returns the table of unsafe code, in which the modules of a folder are one row.
fn unsafe_table() -> String {
    let mut table =
        String::from("| crate | module | blocks | functions | `impl` and `trait` |\n|---|---|---|---|---|\n");
    let [heap, net] =
        ["heap", "net"].map(|name| Crate::read(&in_project(&format!("kernel/{name}/src/lib.rs")), Half::Machine));
    let crates = [
        ("gmp-sched", &[&*SCHEDULER][..]),
        ("kernel", &[&KERNEL, &HOST]),
        ("kernel-heap", &[&heap]),
        ("kernel-net", &[&net]),
    ];
    for (name, halves) in crates {
        let mut rows: BTreeMap<String, Unsafe> = BTreeMap::new();
        for (module, count) in halves.iter().flat_map(|half| &half.unsafe_code) {
            let folder = module.split("::").take(2).collect::<Vec<_>>().join("::");
            for row in [folder, "~".into()] {
                let row = rows.entry(row).or_default();
                row.blocks += count.blocks;
                row.functions += count.functions;
                row.promises += count.promises;
            }
        }
        for (module, Unsafe { blocks, functions, promises }) in rows {
            let module = if module == "~" { "**all**".into() } else { format!("`{module}`") };
            let _ = writeln!(table, "| `{name}` | {module} | {blocks} | {functions} | {promises} |");
        }
    }
    table
}

#[test]
fn uses_of_unsafe_are_as_many_as_the_table_says() {
    let text = read("docs/unsafe.md");
    let (before, rest) = text.split_once(BEGIN).expect("the table begins in docs/unsafe.md");
    let (stated, after) = rest.split_once(END).expect("the table ends in docs/unsafe.md");
    let table = unsafe_table();
    if env::var("UNSAFE_TABLE").is_ok_and(|value| value == "overwrite") {
        fs::write(in_project("docs/unsafe.md"), format!("{before}{BEGIN}{table}{END}{after}"))
            .expect("it can be written");
        return;
    }
    assert!(
        stated == table,
        "The table of uses of `unsafe` in docs/unsafe.md is not what the source says. If the new ones are needed, it is this \
         one (`UNSAFE_TABLE=overwrite cargo test -p qemu-tests --test surface` writes it):\n\n{table}"
    );
}

/// Returns the paths of the functions that [`reach::find`] finds if `text` is the source of a module.
fn found_in(text: &str) -> Vec<String> {
    reach::find(&Crate::parse(text, "module"), &[]).into_iter().map(|found| found.path).collect()
}

#[test]
fn function_that_touches_state_by_what_it_calls_is_found() {
    let text = "
        pub fn public(queue: &Queue) { queue.push::<u8>(1); }
        pub struct Queue;
        impl Queue { fn push<T>(&self, _: T) { inner::<T>(); } }
        fn inner<T>() { crate::module::last() }
        fn last() { let _ = Plat::current_machine(); }
        pub fn touches_nothing(queue: &Queue) -> usize { queue.len() }
    ";
    assert_eq!(found_in(text), ["module::public"]);
}

#[test]
fn function_made_by_a_macro_is_found() {
    let text = "
        macro_rules! sides { ($side:ident) => { impl<T> $side<T> { #[must_use] pub const fn one(&self) { pin(); } } } }
        wrap! { pub fn two() { pin(); } }
        fn pin() -> Pinned { todo!() }
    ";
    assert_eq!(found_in(text), ["$side::one", "module::two"]);
}

#[test]
fn per_cpu_access_in_assembly_is_found() {
    assert_eq!(found_in("pub fn raise() { unsafe { asm!(\"inc dword ptr gs:[{word}]\") } }"), ["module::raise"]);
    assert_eq!(found_in("pub fn id() -> u32 { ID.load_here() }"), ["module::id"]);
}

#[test]
fn method_of_a_trait_is_found_if_trait_and_type_are_public() {
    let text = "
        pub struct Shown; struct Hidden; pub trait Open { fn of_trait() { pin(); } } trait Closed {}
        impl Drop for Shown { fn drop(&mut self) { pin(); } }
        impl Drop for Hidden { fn drop(&mut self) { pin(); } }
        impl Closed for Shown { fn closed() { pin(); } }
        fn pin() -> Pinned { todo!() }
    ";
    assert_eq!(found_in(text), ["<Shown as Drop>::drop", "Open::of_trait"]);
}

#[test]
fn unsafe_private_and_test_functions_are_not_found() {
    let text = "
        pub unsafe fn asks(pinned: Pinned) {}
        pub(crate) fn inside(pinned: Pinned) {}
        #[cfg(test)] mod tests { pub fn test(pinned: Pinned) {} }
        #[cfg(all(test, not(gmp_loom)))] pub fn also(pinned: Pinned) {}
        #[cfg(not(gmp_loom))] pub fn compiled(pinned: Pinned) {}
    ";
    assert_eq!(found_in(text), ["module::compiled"]);
}

#[test]
fn uses_of_unsafe_are_told_apart() {
    let text = "
        unsafe impl Send for X {} unsafe fn one() { unsafe { call() }; } unsafe extern \"C\" fn two() {}
        type Function = unsafe fn(usize); #[unsafe(no_mangle)] static WORD: u8 = 0;
        #[cfg(test)] mod tests { fn test() { unsafe { call() } } }
    ";
    let read = Crate::parse(text, "module");
    assert_eq!(read.unsafe_code["module"], Unsafe { blocks: 1, functions: 2, promises: 1 });
}

#[test]
fn public_functions_that_are_known_are_read() {
    let has = |read: &Crate, name: &str| {
        read.functions.iter().any(|function| function.name == name && function.visibility == Visibility::Public)
    };
    assert!(["yield_now", "go", "stop_the_world", "try_recv"].iter().all(|name| has(&SCHEDULER, name)));
    assert!(["read_line", "read_at", "allocate_vector"].iter().all(|name| has(&KERNEL, name)));
}
