//! How functions become tests, and how the tests are found.
//!
//! Each test puts the address of its [`Test`] into the link section `gmp_tests`, around which the kernel's linker script
//! puts symbols. So a test is declared where it is written, and there is no list to maintain.

use alloc::string::{String, ToString};
use core::fmt::Display;
use core::slice;

use boot_protocol::report::Plan;

/// Makes the next function a test.
///
/// ```ignore
/// guest_test!(clock_never_goes_back, smp = &[1, 2, 8], seconds = 10);
/// fn clock_never_goes_back() {
///     // …
/// }
/// ```
///
/// A test fails by a panic, which ends the machine, or by returning an error, after which the next one runs. After the name
/// come methods of [`Test`]: `smp = &[1, 2, 8]` calls [`Test::smp`], `isolated` calls [`Test::isolated`]. By default a test
/// runs on 8 CPUs, in one boot with others, for at most 30 seconds.
macro_rules! guest_test {
    ($function:ident $(, $method:ident $(= $value:expr)?)* $(,)?) => {
        const _: () = {
            static TEST: $crate::registry::Test = $crate::registry::Test::new(
                concat!(module_path!(), "::", stringify!($function)),
                || $crate::registry::Outcome::into_result($function()),
            )$(.$method($($value)?))*;

            // The section contains the test's address rather than the test: the linker is certain to leave no gaps only
            // between pointers.
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

/// The options of a test. Each is a word in [`guest_test`].
impl Test {
    /// Makes a test of the function at `path`, which includes the name of this crate.
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

    /// Runs once with each of these numbers of CPUs, instead of with 8.
    pub(crate) const fn smp(mut self, cpus: &'static [u32]) -> Self {
        self.plan.cpus = cpus;
        self
    }

    /// The maximum time on the host's clock, instead of 30 seconds.
    ///
    /// The host may be busy: this detects hangs and measures nothing.
    pub(crate) const fn seconds(mut self, seconds: u32) -> Self {
        self.plan.seconds = seconds;
        self
    }

    /// The machine must end with this status during the test. Such a test is isolated.
    pub(crate) const fn status(mut self, status: u8) -> Self {
        self.plan.status = Some(status);
        self.isolated()
    }

    /// The console must show each of these during the test, in this order: lines or parts of lines.
    pub(crate) const fn texts(mut self, texts: &'static [&'static str]) -> Self {
        self.plan.texts = texts;
        self
    }

    /// Runs in a machine with these options for the kernel, `KEY=VALUE`.
    pub(crate) const fn options(mut self, options: &'static [&'static str]) -> Self {
        self.plan.options = options;
        self
    }

    /// Passes these arguments to the program; the test reads them with [`arguments`]. Such a test is isolated.
    pub(crate) const fn arguments(mut self, arguments: &'static [&'static str]) -> Self {
        self.plan.arguments = arguments;
        self.isolated()
    }

    /// Runs in a machine with so many MiB, instead of 1024.
    pub(crate) const fn memory(mut self, mebibytes: u32) -> Self {
        self.plan.memory = mebibytes;
        self
    }

    /// Runs alone in a boot.
    pub(crate) const fn isolated(mut self) -> Self {
        self.plan.isolated = true;
        self
    }

    /// Runs with time as the count of instructions: sleeping takes no time on the host, all runs are equal, and the host's
    /// load makes no difference. Such a test is isolated, because a name would arrive on the console at another moment in
    /// each run.
    pub(crate) const fn icount(mut self) -> Self {
        self.plan.icount = true;
        self.isolated()
    }

    /// Runs only with `--ignored` or `--include-ignored`.
    pub(crate) const fn ignored(mut self) -> Self {
        self.plan.ignored = true;
        self
    }

    /// Omitted from the list of `cargo test`, because another test on the host runs it by name: it needs a disk, or must
    /// fail for a test of the harness.
    pub(crate) const fn hidden(mut self) -> Self {
        self.plan.hidden = true;
        self
    }
}

/// What the program does with tests.
impl Test {
    /// The description for the host.
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
    /// The text of the error, if it is one.
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

/// All tests, in no particular order.
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
    // SAFETY: the section between the symbols contains only what `guest_test` puts there.
    #[expect(unsafe_code, reason = "a slice between two symbols")]
    unsafe {
        slice::from_raw_parts(start, count)
    }
}

/// The arguments of the running test.
pub(crate) fn arguments() -> &'static [&'static str] {
    let words = kernel::args::program();
    let separator = words.iter().position(|&word| word == SEPARATOR);
    separator.map_or(&[], |index| &words[index + 1..])
}

/// The separator between the names of the tests to run and their arguments.
pub(crate) const SEPARATOR: &str = "--";

/// The number of CPUs of this machine, according to the host.
pub(crate) fn expected_cpus() -> usize {
    let number = kernel::args::option("smp").and_then(|number| number.parse().ok());
    number.expect("the host says `smp=N` to the kernel")
}
