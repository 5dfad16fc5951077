//! How a function becomes a test, and how this program finds its tests.
//!
//! Each test puts the address of its [`Test`] into the link section `gmp_tests`. The kernel's linker script defines
//! symbols at the start and end of this section. So a test is declared where it is written, and there is no list to
//! maintain.

use alloc::string::{String, ToString};
use core::fmt::Display;
use core::slice;

use boot_protocol::report::Plan;

/// Makes the function of this name a test.
///
/// ```ignore
/// guest_test!(clock_never_goes_back, smp = &[1, 2, 8], seconds = 10);
/// fn clock_never_goes_back() {
///     // …
/// }
/// ```
///
/// A test fails if it returns an error, or if it panics and [`Test::status`] does not require this. A panic ends the
/// machine. After an error, a machine that is shared can run the next test. The words after the name are methods of
/// [`Test`]: `smp = &[1, 2, 8]` calls [`Test::smp`], and `isolated` calls [`Test::isolated`]. By default a test runs on
/// 8 CPUs for at most 30 seconds, and shares its boot with other tests.
macro_rules! guest_test {
    ($function:ident $(, $method:ident $(= $value:expr)?)* $(,)?) => {
        const _: () = {
            static TEST: $crate::registry::Test = $crate::registry::Test::new(
                concat!(module_path!(), "::", stringify!($function)),
                || $crate::registry::Outcome::into_result($function()),
            )$(.$method($($value)?))*;

            // The section contains the address of the test, not the test itself, because only pointers are certain to
            // be placed without gaps between them.
            #[used]
            #[expect(unsafe_code, reason = "puts it among the tests")]
            #[unsafe(link_section = "gmp_tests")]
            static ADDRESS: &$crate::registry::Test = &TEST;
        };
    };
}

/// A test: the function, and its description for the host.
#[derive(Debug)]
pub(crate) struct Test {
    plan: Plan<'static>,
    body: fn() -> Result<(), String>,
}

/// The options of a test. Each method except `new` sets the option that has the same name in [`guest_test`].
impl Test {
    /// Makes a test of the function at `path`, which begins with the name of this crate.
    pub(crate) const fn new(path: &'static str, body: fn() -> Result<(), String>) -> Self {
        let name = path.split_at(concat!(env!("CARGO_CRATE_NAME"), "::").len()).1;
        let plan = Plan {
            name,
            cpus: &[8],
            seconds: 30,
            memory: 1024,
            status: None,
            texts: &[],
            options: &[],
            arguments: &[],
            isolated: false,
            icount: false,
            ignored: false,
            hidden: false,
        };
        Self { plan, body }
    }

    /// Runs the test once with each of these numbers of CPUs, instead of with 8.
    pub(crate) const fn smp(mut self, cpus: &'static [u32]) -> Self {
        self.plan.cpus = cpus;
        self
    }

    /// Sets the time limit, by the host's clock. The default is 30 seconds.
    ///
    /// The host may be busy, so the limit is only for detecting hangs.
    pub(crate) const fn seconds(mut self, seconds: u32) -> Self {
        self.plan.seconds = seconds;
        self
    }

    /// Requires that the test ends the machine with this status. Such a test is [`isolated`](Self::isolated).
    pub(crate) const fn status(mut self, status: u8) -> Self {
        self.plan.status = Some(status);
        self.isolated()
    }

    /// Requires that the console shows each of these texts during the test, in this order. A text is a line or a part
    /// of a line.
    pub(crate) const fn texts(mut self, texts: &'static [&'static str]) -> Self {
        self.plan.texts = texts;
        self
    }

    /// Runs the test on a machine whose kernel gets these options, each of the form `KEY=VALUE`.
    pub(crate) const fn options(mut self, options: &'static [&'static str]) -> Self {
        self.plan.options = options;
        self
    }

    /// Passes these arguments to the program. The test reads them with [`arguments`]. Such a test is isolated.
    pub(crate) const fn arguments(mut self, arguments: &'static [&'static str]) -> Self {
        self.plan.arguments = arguments;
        self.isolated()
    }

    /// Runs the test on a machine with this many MiB of memory, instead of 1024.
    pub(crate) const fn memory(mut self, mebibytes: u32) -> Self {
        self.plan.memory = mebibytes;
        self
    }

    /// Runs the test in a boot of its own.
    pub(crate) const fn isolated(mut self) -> Self {
        self.plan.isolated = true;
        self
    }

    /// Runs the test with a clock that counts instructions instead of time. So sleeping takes hardly any time on the
    /// host, all runs are equal, and the host's load makes no difference. Such a test is isolated, because on a shared
    /// machine the name of the test would arrive on the console at a different moment in each run.
    pub(crate) const fn icount(mut self) -> Self {
        self.plan.icount = true;
        self.isolated()
    }

    /// Runs the test only with `--ignored` or `--include-ignored`.
    pub(crate) const fn ignored(mut self) -> Self {
        self.plan.ignored = true;
        self
    }

    /// Omits the test from the list of `cargo test`, because another test on the host uses it by name. For example,
    /// that test passes disks to the machine, compares the whole output, or tests the harness with a test that must
    /// fail.
    pub(crate) const fn hidden(mut self) -> Self {
        self.plan.hidden = true;
        self
    }
}

/// Methods for the runner of the tests.
impl Test {
    /// Returns the description for the host.
    pub(crate) fn plan(&self) -> &Plan<'static> {
        &self.plan
    }

    /// Runs the test.
    pub(crate) fn run(&self) -> Result<(), String> {
        (self.body)()
    }
}

/// The result of a test.
pub(crate) trait Outcome {
    /// Returns `Ok` if the test passed. Otherwise returns the text of the error that the test has returned.
    fn into_result(self) -> Result<(), String>;
}

impl Outcome for () {
    fn into_result(self) -> Result<(), String> {
        Ok(())
    }
}

impl<E: Display> Outcome for Result<(), E> {
    fn into_result(self) -> Result<(), String> {
        self.map_err(|error| error.to_string())
    }
}

/// Returns all tests, in no particular order.
pub(crate) fn tests() -> &'static [&'static Test] {
    #[expect(unsafe_code, reason = "symbols of the linker script")]
    #[expect(improper_ctypes, reason = "no other language takes part")]
    unsafe extern "C" {
        #[link_name = "__start_gmp_tests"]
        safe static START: [&'static Test; 0];
        #[link_name = "__stop_gmp_tests"]
        safe static STOP: [&'static Test; 0];
    }
    let (start, stop) = (START.as_ptr(), STOP.as_ptr());
    let count = (stop.addr() - start.addr()) / size_of::<&Test>();
    // SAFETY: the section between the two symbols contains only the references that `guest_test` puts there, without
    // gaps. The references are statics that are never written.
    #[expect(unsafe_code, reason = "a slice between two symbols")]
    unsafe {
        slice::from_raw_parts(start, count)
    }
}

/// Returns the arguments of the running test.
pub(crate) fn arguments() -> &'static [&'static str] {
    let words = kernel::args::program();
    let separator = words.iter().position(|&word| word == SEPARATOR);
    separator.map_or(&[], |index| &words[index + 1..])
}

/// The separator between the names of the tests to run and their arguments.
pub(crate) const SEPARATOR: &str = "--";

/// Returns the number of CPUs of this machine, as the host has stated it.
pub(crate) fn expected_cpus() -> usize {
    let number = kernel::args::option("program.smp").and_then(|number| number.parse().ok());
    number.expect("the host says `program.smp=N` to the kernel")
}
