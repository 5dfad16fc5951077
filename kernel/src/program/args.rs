//! The command line: the options of the kernel, then `--`, then the arguments of the program.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use boot_protocol::command_line;
use spin::Once;

/// The parsed command line.
struct CommandLine {
    options: Vec<String>,
    program: Vec<&'static str>,
}

static COMMAND_LINE: Once<CommandLine> = Once::new();

/// Parses the command line. Only the first call has an effect.
pub(crate) fn init(line: &str) {
    COMMAND_LINE.call_once(|| CommandLine {
        options: command_line::options(line).map(|word| word.to_string()).collect(),
        // The arguments must live as long as the program, so their memory is never freed.
        program: command_line::arguments(line).map(|word| &*word.to_string().leak()).collect(),
    });
}

/// Returns the arguments of the program.
pub fn program() -> &'static [&'static str] {
    COMMAND_LINE.get().map_or(&[], |line| &line.program)
}

/// Returns the kernel options, each in the form in which it is on the command line.
pub(crate) fn kernel_options() -> impl Iterator<Item = &'static str> {
    COMMAND_LINE.get().map_or(&[][..], |line| &line.options).iter().map(String::as_str)
}

/// Returns the value of the kernel option `key`, or the last value if the option occurs several times. The options of a
/// program have keys that begin with `program.`.
pub fn option(key: &str) -> Option<&'static str> {
    options(key).last()
}

/// Returns the values of all kernel options with this key, in the order in which they are on the command line.
pub fn options(key: &str) -> impl Iterator<Item = &'static str> {
    kernel_options().filter_map(move |word| word.strip_prefix(key)?.strip_prefix('='))
}
