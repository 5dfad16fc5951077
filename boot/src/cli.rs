//! The command line of `boot`.

mod order;
mod values;

use core::iter;
use core::mem;
use core::time::Duration;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use boot::Error;
use boot::build::{Options, Profile, Target};
use boot::program::{DEFAULT, is_program};
use boot::qemu::{Accelerator, Access, Configuration, Disk, Firmware, Net, Port, shell_quoted};
use boot::{recording, top};
use clap::{ArgAction, ArgGroup, CommandFactory as _, Parser};

pub(crate) use self::order::{Order, Request};

const AFTER_HELP: &str = "\
The program's console is standard input and output; all else goes to standard error.
All options come before PROGRAM; all words after it are arguments of the program. If the first
argument has the name of an option above, put `--` before it: PROGRAM -- --smp 2
Ctrl-C ends the machine, Ctrl-D ends its input, Ctrl-\\ makes it print what it is doing.

Exit status:
  0-100  that of the program (2 after a panic or an exception in it, or a deadlock)
  64     wrong use: an option, a program or a file that does not exist
  65     the program does not build, or its disk image cannot be written
  74     an output cannot be written: the console, a trace, a profile, frames, recorded input
  101    a broken invariant of the kernel itself
  102    an exception in the kernel, or a triple fault
  103    time-out
  104    QEMU is missing or failed, or gdb or QEMU's monitor ended it
  105    the program ended, and its last output is lost: the console did not accept it in time

Examples:
  cargo run                          boots `tour` on 8 CPUs
  cargo run -- --smp 2 tour          the same on 2
  cargo run -- --disk notes.txt sha256
  cargo run -- --disk ext4.img ls -l /
  cargo run -- --port 8080:80 httpd  a web server, at http://127.0.0.1:8080/
  cargo run -- --firmware uefi tour  the same on UEFI (needs ./setup --images)
  cargo run -- --firmware bios --image stick.img tour
  cargo run -- --icount --record-input typed ../my-crate
  cargo run -- --icount --input-script typed ../my-crate
  cargo run -- --trace run tour      records the scheduler: run.html shows it
  cargo run -- --profile waits tour  where its Gs wait: waits/block.svg
  cargo run -- --top bench           shows live what the Ps do
  cargo run -- timeline TRACE FILE   makes a page of a trace that GMP_TRACE=TRACE has written
  cargo run -- new ../my-crate       makes the crate of a new program
  cargo run -- compare --help        compares this scheduler with Go's and others
  cargo run -- ../my-crate --its-own-option";

/// Builds a program for the machine, boots it in QEMU, and shows its console.
#[derive(Debug, Parser)]
#[command(name = "boot", after_help = AFTER_HELP, max_term_width = 110, version, disable_help_flag = true)]
#[command(group = ArgGroup::new("recording").args(["trace", "profile"]).multiple(true))]
#[command(override_usage = "cargo run -- [OPTIONS] [PROGRAM [ARGUMENT]...]\n       cargo run -- new PATH\n       \
                          cargo run -- compare [OPTIONS] [FILTER]...\n       cargo run -- timeline TRACE FILE")]
pub(crate) struct Cli {
    /// CPUs of the machine
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=255))]
    smp: u32,

    /// Memory of the machine in MiB
    // With only 1 MiB, a program does not fit and QEMU's firmware hangs.
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(2..))]
    memory: u32,

    /// Give the machine this file as a read-only disk (repeatable)
    #[arg(long, value_name = "FILE")]
    disk: Vec<OsString>,

    /// Let the machine write to its disks. This changes the files, except with --icount
    #[arg(long, requires = "disk")]
    disk_rw: bool,

    /// The network of the machine: none, or one in QEMU itself, which needs no rights on the host. With a network, runs
    /// differ
    #[arg(long, value_name = "NET", default_value_t, value_enum)]
    net: Net,

    /// Let the host connect to a port of the machine, as 127.0.0.1:HOST. Implies --net user (repeatable)
    #[arg(long, value_name = "[udp:]HOST:GUEST", value_parser = values::port)]
    port: Vec<Port>,

    /// Connect the machine to this TAP device of the host. With a network, runs differ
    #[arg(long, value_name = "NAME", value_parser = values::device, conflicts_with_all = ["port", "net"])]
    tap: Option<String>,

    /// Write the frames of the network to FILE, for Wireshark
    #[arg(long, value_name = "FILE", conflicts_with = "image")]
    pcap: Option<PathBuf>,

    /// Count instructions instead of time, so that all runs are equal. Loads disks into memory, and leaves the files
    /// unchanged. Implies --release, except with --debug
    #[arg(long)]
    icount: bool,

    /// Write the input of the program, and the frames that its network receives, to FILE, with the instant of each
    #[arg(long, value_name = "FILE", requires = "icount", conflicts_with_all = ["input_script", "image", "dry_run"])]
    record_input: Option<PathBuf>,

    /// Take the input of the program from FILE, for example one that --record-input has written. With the options of the
    /// recorded run, also take the frames from FILE. The program gets each piece at the instant that FILE names
    #[arg(long, value_name = "FILE", requires = "icount", conflicts_with = "image")]
    input_script: Option<PathBuf>,

    /// End the machine after this time, with status 103
    #[arg(long, value_name = "SECONDS", value_parser = values::seconds)]
    timeout: Option<Duration>,

    /// Build with full optimisation. The default builds faster after an edit, and makes slower code
    #[arg(long, conflicts_with = "debug")]
    release: bool,

    /// Build without optimisation and with checks: arithmetic overflow and a false `debug_assert!` panic
    #[arg(long)]
    debug: bool,

    /// The target to compile for
    #[arg(long, value_name = "TRIPLE", default_value_t, value_enum)]
    target: Target,

    /// The binary to boot, if PROGRAM is the path of a crate with several
    #[arg(long, value_name = "NAME")]
    bin: Option<String>,

    /// What starts the program: QEMU itself, or SeaBIOS or OVMF from a disk image
    #[arg(long, default_value_t, value_enum)]
    firmware: Firmware,

    /// Write the disk image for --firmware to this file, for a USB stick, and boot nothing
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,

    /// How QEMU runs the machine's instructions
    #[arg(long, value_name = "ACCELERATOR", default_value_t, value_enum)]
    accel: Accelerator,

    /// The CPU model, as QEMU names it
    #[arg(long, value_name = "MODEL", default_value = "max")]
    cpu: String,

    /// Give the kernel an option, such as log=debug (repeatable)
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::kernel_option)]
    kernel_option: Vec<String>,

    /// Record what the scheduler does, and write FILE.json (for Perfetto) and FILE.html (a page that shows it)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["image", "dry_run"])]
    trace: Option<PathBuf>,

    /// Record where Gs wait, which locks are contended and what runs, and write flame graphs and files for pprof to DIR
    #[arg(long, value_name = "DIR", conflicts_with_all = ["image", "dry_run"])]
    profile: Option<PathBuf>,

    /// Show live on the terminal what the Ps of the machine do
    #[arg(long, conflicts_with_all = ["image", "dry_run"])]
    top: bool,

    /// Wait for gdb on this port (1234) before the first instruction. With --icount, the run is then equal to others
    /// up to the first stop in gdb, and may differ after it
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "1234")]
    gdb: Option<core::num::NonZeroU16>,

    /// Stop in gdb at the event that has this time of the machine's clock, as in --until 88345023ns. Needs --icount,
    /// and --trace or --profile
    #[arg(long, value_name = "TIME", value_parser = values::event_time, requires_all = ["icount", "recording"])]
    #[arg(conflicts_with_all = ["image", "dry_run"])]
    until: Option<Duration>,

    /// Give QEMU one more argument (repeatable), as in --qemu-arg=-d --qemu-arg=int
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    qemu_arg: Vec<OsString>,

    /// Build, and print the QEMU command instead of running it
    #[arg(long)]
    dry_run: bool,

    /// List the programs that have names
    #[arg(long)]
    list: bool,

    /// Print this help
    #[arg(short, long, action = ArgAction::HelpShort)]
    help: Option<bool>,

    #[arg(value_name = "PROGRAM", trailing_var_arg = true)]
    #[arg(help = format!("A name of --list (default: {DEFAULT}), the path of a crate or an ELF file; its arguments follow"))]
    command: Vec<OsString>,
}

/// If the command line contains this word in place of a program, `boot` makes the crate of a new program. (If the user
/// has a crate in a folder of this name, that crate can be booted as `./new`.)
const NEW: &str = "new";

/// If the command line begins with this word, `boot` compares this scheduler with others. The comparison has options of
/// its own.
pub(crate) const COMPARE: &str = "compare";

impl Cli {
    /// Parses the arguments. Opens the disks, but does not access the program.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] in these cases: a disk cannot be opened; an argument is not Unicode; `new` is not followed by
    /// exactly one path; `compare` comes after an option; an option comes directly after the program; an option that
    /// takes a file is followed by a program instead; or one of `--image`, `--icount` and `--pcap` does not fit the
    /// other options.
    pub(crate) fn request(mut self) -> Result<Request, Error> {
        if self.list {
            return Ok(Request::List);
        }
        if self.command.is_empty() {
            self.check_values()?;
        }
        let mut words = mem::take(&mut self.command).into_iter().peekable();
        let program = words.next().unwrap_or_else(|| DEFAULT.into());
        if program == NEW {
            return match (words.next(), words.next()) {
                (Some(path), None) => Ok(Request::New(path.into())),
                _ => Err(Error::Usage(
                    "`new` takes the path of the crate to make, as in: cargo run -- new ../my-crate".into(),
                )),
            };
        }
        if program == COMPARE {
            return Err(Error::Usage(
                "`compare` has options of its own, which follow it, as in: cargo run -- compare --icount".into(),
            ));
        }
        if let Some(first) = words.next_if(|word| word == "--" || is_option(word))
            && first != "--"
        {
            return Err(misplaced(&program, &first, words));
        }
        Ok(Request::Boot(Box::new(self.order(program, words)?)))
    }

    /// Checks that no option has a program as its value. Called if the command line names no program, because the user
    /// may then have forgotten the value.
    fn check_values(&self) -> Result<(), Error> {
        let values = [
            ("trace", "FILE", &self.trace),
            ("profile", "DIR", &self.profile),
            ("record-input", "FILE", &self.record_input),
            ("input-script", "FILE", &self.input_script),
            ("image", "FILE", &self.image),
            ("pcap", "FILE", &self.pcap),
        ];
        for (option, kind, value) in values {
            if let Some(value) = value
                && is_program(value.as_os_str())?
            {
                let program = shell_quoted([value.as_os_str()]);
                return Err(Error::Usage(format!(
                    "`--{option}` takes a {kind}, but `{}` is a program: cargo run -- --{option} {kind} {program}",
                    value.display()
                )));
            }
        }
        Ok(())
    }

    /// Returns the order to boot `program` with these arguments.
    fn order(self, program: OsString, arguments: impl Iterator<Item = OsString>) -> Result<Order, Error> {
        if self.image.is_some() && self.firmware == Firmware::Pvh {
            return Err(Error::Usage("--image also needs --firmware bios or --firmware uefi".into()));
        }
        let profile = self.build_profile();
        let net = match self.tap {
            Some(name) => Net::Tap(name),
            None if self.port.is_empty() => self.net,
            None => Net::User,
        };
        if self.icount && net != Net::None && self.record_input.is_none() && self.input_script.is_none() {
            return Err(Error::Usage(
                "--icount makes all runs equal: add --record-input FILE to record the frames of the network, and \
                 --input-script FILE to repeat the run"
                    .into(),
            ));
        }
        if self.pcap.is_some() && net == Net::None {
            return Err(Error::Usage("--pcap: the machine has no network: add --net user, --port or --tap".into()));
        }
        if self.pcap.is_some() && self.input_script.is_some() {
            return Err(Error::Usage(
                "--pcap: a run that is repeated has no network, and its frames are those of the recorded run: give \
                 --pcap to the run with --record-input"
                    .into(),
            ));
        }
        let access = if self.disk_rw { Access::ReadWrite } else { Access::ReadOnly };
        let disks = self.disk.iter().map(|name| Disk::open(name, access)).collect::<Result<_, _>>()?;
        let tracing = recording::option(self.trace.is_some(), self.profile.is_some()).map(str::to_owned);
        let publishing = self.top.then(|| top::OPTION.to_owned());
        let kernel_options = tracing.into_iter().chain(publishing).chain(self.kernel_option).collect();
        Ok(Order {
            program,
            binary: self.bin,
            arguments: arguments.map(|word| unicode(&word)).collect::<Result<_, _>>()?,
            options: Options { profile, target: self.target },
            configuration: Configuration {
                cpus: self.smp,
                memory: self.memory,
                disks,
                net,
                ports: self.port,
                capture: self.pcap,
                icount: self.icount,
                firmware: self.firmware,
                accelerator: self.accel,
                cpu_model: self.cpu,
                kernel_options,
                gdb_port: self.gdb.map(Into::into).or(self.until.map(|_| GDB_PORT)),
                qemu_arguments: self.qemu_arg,
            },
            image: self.image,
            trace: self.trace,
            profile: self.profile,
            record_input: self.record_input,
            input_script: self.input_script,
            until: self.until,
            top: self.top,
            limit: self.timeout,
            dry_run: self.dry_run,
        })
    }

    fn build_profile(&self) -> Profile {
        match (self.debug, self.release || self.icount) {
            (true, _) => Profile::Debug,
            // Instructions are counted to compare runs, so the program is built with full optimisation, as for other
            // measurements.
            (false, true) => Profile::Release,
            (false, false) => Profile::Quick,
        }
    }
}

/// Whether a word is an option of `boot`. `--help` and `--list` do not count, because programs may have them, too.
fn is_option(word: &OsStr) -> bool {
    let word = word.to_string_lossy();
    let Some(name) = word.strip_prefix("--").and_then(|rest| rest.split('=').next()) else { return false };
    let command = Cli::command();
    let mut names = command.get_arguments().filter_map(clap::Arg::get_long);
    !["help", "list"].contains(&name) && names.any(|long| long == name)
}

/// Returns the error for the option `first`, which comes directly after the program, and is followed by `rest`.
fn misplaced(program: &OsStr, first: &OsStr, rest: impl Iterator<Item = OsString>) -> Error {
    let rest: Vec<OsString> = rest.collect();
    let own = || iter::once(first).chain(rest.iter().map(AsRef::as_ref));
    let before = shell_quoted(own().chain([program]));
    let after = shell_quoted([program, "--".as_ref()].into_iter().chain(own()));
    Error::Usage(format!(
        "`{}` comes after the program. For the machine: cargo run -- {before}. For the program: cargo run -- {after}",
        first.display()
    ))
}

fn unicode(word: &OsStr) -> Result<String, Error> {
    let text = word.to_str().map(str::to_owned);
    text.ok_or_else(|| Error::Usage(format!("the argument `{}` is not Unicode", word.to_string_lossy())))
}

/// The port for gdb if `--until` is given without `--gdb`.
const GDB_PORT: u16 = 1234;

#[cfg(test)]
mod tests;
