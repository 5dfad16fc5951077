//! The command line: options of the kernel, then `--`, then the arguments of the program.

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

/// Parses the command line.
pub(crate) fn init(line: &str) {
    COMMAND_LINE.call_once(|| CommandLine {
        options: command_line::options(line).map(|word| word.to_string()).collect(),
        // The arguments live as long as the program, so their memory is leaked.
        program: command_line::arguments(line).map(|word| &*word.to_string().leak()).collect(),
    });
}

/// The arguments of the program.
pub fn program() -> &'static [&'static str] {
    COMMAND_LINE.get().map_or(&[], |line| &line.program)
}

/// The value of the kernel option `key`; the last value if the option is given several times.
pub fn option(key: &str) -> Option<&'static str> {
    options(key).last()
}

/// The values of all kernel options with this key, in the order of the command line.
pub fn options(key: &str) -> impl Iterator<Item = &'static str> {
    let words = COMMAND_LINE.get().map_or(&[][..], |line| &line.options);
    words.iter().filter_map(move |word| word.strip_prefix(key)?.strip_prefix('='))
}
