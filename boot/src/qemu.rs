//! The configuration of the machine, and the QEMU command for it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{ErrorKind, Seek as _, SeekFrom};
use std::path::{self, Path, PathBuf};

use boot_protocol::command_line::{CAPACITY, DISK, DiskOption, Line};
use boot_protocol::status;

use crate::Error;

/// The name of the QEMU program.
pub const QEMU: &str = "qemu-system-x86_64";

/// The oldest version of QEMU with which `boot` has been tested.
pub const OLDEST_QEMU: (u32, u32) = (7, 2);

/// This kernel option makes all runs equal when instructions are counted. With it, the last CPU that becomes idle polls
/// for one millisecond of instructions before it halts (see the kernel's `sched::idle`). The polling takes several
/// milliseconds on the host. So QEMU's main loop, which advances the clock when all CPUs halt, is asleep by then, and
/// cannot advance the clock too early.
const HALT_POLL: &str = "halt_poll_us=1000";

/// How QEMU executes the machine's instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Accelerator {
    /// QEMU's translator, which works everywhere.
    #[default]
    Tcg,
    /// Hardware virtualisation on Linux.
    Kvm,
    /// Hardware virtualisation on macOS with an Intel processor.
    Hvf,
}

impl Accelerator {
    /// If `error` is a failure of QEMU, adds why this accelerator may be the cause, and how to run the machine without an
    /// accelerator. Returns other errors unchanged.
    pub fn explain(self, error: Error) -> Error {
        let (Error::Qemu(failure), true) = (&error, self != Self::Tcg) else { return error };
        let cause = if self == Self::Kvm { kvm_failure() } else { "the host may not be able to run this machine" };
        Error::Qemu(format!("{failure}\nboot: --accel: {cause}. Without --accel, the machine runs on every host"))
    }
}

/// Returns why QEMU has probably failed with KVM.
fn kvm_failure() -> &'static str {
    match File::options().read(true).write(true).open("/dev/kvm").map_err(|error| error.kind()) {
        Ok(_) => "KVM of this host cannot run the machine, which is common if the host is a virtual machine itself",
        Err(ErrorKind::PermissionDenied) => "you may not open /dev/kvm; on most systems the group `kvm` may",
        Err(_) => "this host has no KVM: /dev/kvm cannot be opened",
    }
}

/// Whether the machine may write to its disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// The machine cannot write to the disk.
    ReadOnly,
    /// The machine can write to the disk, which changes the file.
    ReadWrite,
}

/// A file that is a disk of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Disk {
    /// The name exactly as the user gave it.
    pub name: String,
    /// The absolute path of the file.
    pub path: PathBuf,
    /// The length of the file in bytes. It need not be a multiple of the sector size.
    pub bytes: u64,
    /// Whether the machine may write to this disk.
    pub access: Access,
}

impl Disk {
    /// Opens the file `name`.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the file cannot be opened, or is neither a regular file nor a block device.
    pub fn open(name: &OsStr, access: Access) -> Result<Self, Error> {
        let cannot =
            |why: &dyn core::fmt::Display| Error::Usage(format!("disk `{}`: {why}", Path::new(name).display()));
        let name_in_unicode = name.to_str().ok_or_else(|| cannot(&"the name is not Unicode"))?;
        // The kind of the file is checked before it is opened, because opening a FIFO would block until it has a
        // writer.
        let kind = Path::new(name).metadata().map_err(|error| cannot(&error))?.file_type();
        if !kind.is_file() && !is_block_device(kind) {
            return Err(cannot(&"not a regular file or a block device"));
        }
        let mut file =
            File::options().read(true).write(access == Access::ReadWrite).open(name).map_err(|error| cannot(&error))?;
        // The length is found by seeking to the end, because the metadata of a block device does not contain its
        // length.
        let bytes = file.seek(SeekFrom::End(0)).map_err(|error| cannot(&error))?;
        let path = path::absolute(name).map_err(|error| cannot(&error))?;
        Ok(Self { name: name_in_unicode.to_owned(), path, bytes, access })
    }
}

fn is_block_device(kind: std::fs::FileType) -> bool {
    std::os::unix::fs::FileTypeExt::is_block_device(&kind)
}

/// The configuration of a machine. The default is the machine that `boot` runs without options.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Configuration {
    /// The number of CPUs.
    pub cpus: u32,
    /// The memory in MiB.
    pub memory: u32,
    /// The disks, in the order in which the machine finds them.
    pub disks: Vec<Disk>,
    /// Whether QEMU counts instructions instead of time. All runs are equal then.
    pub icount: bool,
    /// How QEMU executes the machine's instructions.
    pub accelerator: Accelerator,
    /// The CPU model, in QEMU's terms.
    pub cpu_model: String,
    /// `KEY=VALUE` words for the kernel.
    pub kernel_options: Vec<String>,
    /// The port of the host on which the machine waits for gdb before its first instruction.
    pub gdb_port: Option<u16>,
    /// Further arguments for QEMU.
    pub qemu_arguments: Vec<OsString>,
}

impl Default for Configuration {
    fn default() -> Self {
        Self {
            cpus: 8,
            memory: 1024,
            disks: Vec::new(),
            icount: false,
            accelerator: Accelerator::default(),
            cpu_model: "max".to_owned(),
            kernel_options: Vec::new(),
            gdb_port: None,
            qemu_arguments: Vec::new(),
        }
    }
}

impl Configuration {
    /// Returns the QEMU arguments that boot the ELF file `program` on this machine, with `arguments` for the program.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the kernel's command line is longer than a guest can receive, or if it cannot be
    /// represented.
    pub fn qemu_arguments(&self, program: &Path, arguments: &[String]) -> Result<Vec<OsString>, Error> {
        let mut words: Vec<OsString> = Vec::new();
        let mut add = |text: &str| words.extend(text.split(' ').map(OsString::from));
        // The machine has only the devices that are listed in this function: no default devices, no window and no
        // network.
        add("-machine q35 -nodefaults -display none -no-reboot");
        match (self.accelerator, self.icount) {
            (Accelerator::Tcg, false) => add("-accel tcg,thread=multi"),
            // To count instructions, QEMU executes all CPUs on one thread. `sleep=off` lets idle time pass at once. The
            // firmware waits for the real-time clock. Without `-rtc` that clock would follow the host's clock, so runs
            // would differ.
            (Accelerator::Tcg, true) => {
                add("-accel tcg,thread=single -icount shift=0,sleep=off -rtc clock=vm,base=2000-01-01");
            }
            (_, true) => {
                return Err(Error::Usage("--icount counts what `--accel tcg` translates: use it with that".into()));
            }
            (Accelerator::Kvm, false) => add("-accel kvm"),
            (Accelerator::Hvf, false) => add("-accel hvf"),
        }
        add(&format!("-smp {} -m {}", self.cpus, self.memory));
        add("-serial stdio");
        add(&format!("-device isa-debug-exit,iobase={:#x},iosize=0x04", status::DEBUG_EXIT_PORT));
        if let Some(port) = self.gdb_port {
            add(&format!("-S -gdb tcp:127.0.0.1:{port}"));
        }
        words.extend(["-cpu".into(), OsString::from(&self.cpu_model)]);
        for (index, disk) in self.disks.iter().enumerate() {
            words.push("-drive".into());
            words.push(drive(index, disk));
            words.push("-device".into());
            words.push(format!("virtio-blk-pci,drive=d{index},disable-legacy=on").into());
        }
        words.extend(self.qemu_arguments.iter().cloned());
        words.extend(["-kernel".into(), program.into(), "-append".into(), self.command_line(arguments)?.into()]);
        Ok(words)
    }

    fn command_line(&self, arguments: &[String]) -> Result<String, Error> {
        let disks =
            self.disks.iter().map(|disk| format!("{DISK}={}", DiskOption { name: &disk.name, bytes: disk.bytes }));
        // If an option occurs several times, the kernel uses its last value. So the user's options come after this one.
        let polling = self.icount.then(|| HALT_POLL.to_owned());
        let options: Vec<String> = disks.chain(polling).chain(self.kernel_options.iter().cloned()).collect();
        let line = Line { options: &options, arguments }.to_string();
        if line.len() >= CAPACITY {
            let room = CAPACITY - 1;
            return Err(Error::Usage(format!(
                "the machine's command line has {} bytes, room is for {room}",
                line.len()
            )));
        }
        Ok(line)
    }
}

/// Returns the value of `-drive` for a disk. The path in this value is absolute, because QEMU could take a `name:` at the
/// beginning of a relative path for a protocol.
fn drive(index: usize, disk: &Disk) -> OsString {
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

    let readonly = match disk.access {
        Access::ReadOnly => "on",
        Access::ReadWrite => "off",
    };
    let mut value = format!("if=none,id=d{index},format=raw,readonly={readonly},file=").into_bytes();
    for &byte in disk.path.as_os_str().as_bytes() {
        // A comma ends the value. To include a comma in the path, QEMU requires two commas.
        value.extend(if byte == b',' { &b",,"[..] } else { core::slice::from_ref(&byte) });
    }
    OsString::from_vec(value)
}

/// Displays a QEMU command in shell syntax.
pub fn shell_quoted<'a>(words: impl IntoIterator<Item = &'a OsStr>) -> String {
    // Bytes that are not Unicode are replaced, because the result is only displayed. `try_quote` fails only for a zero
    // byte, and no argument of a process contains a zero byte.
    let quote = |word: &OsStr| {
        let word = word.to_string_lossy();
        shlex::try_quote(&word).map_or_else(|_| word.to_string(), |quoted| quoted.into_owned())
    };
    words.into_iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn command(configuration: &Configuration, arguments: &[&str]) -> String {
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let words = configuration.qemu_arguments(Path::new("/t/tour"), &arguments).expect("arguments");
        shell_quoted(words.iter().map(AsRef::as_ref))
    }

    #[test]
    fn the_default_machine() {
        assert_eq!(
            command(&Configuration::default(), &[]),
            "-machine q35 -nodefaults -display none -no-reboot -accel 'tcg,thread=multi' -smp 8 -m 1024 -serial stdio \
             -device 'isa-debug-exit,iobase=0xf4,iosize=0x04' -cpu max -kernel /t/tour -append --"
        );
    }

    #[test]
    fn each_part_of_a_configuration_is_in_the_command() {
        let configuration = Configuration {
            cpus: 2,
            memory: 64,
            icount: true,
            cpu_model: "qemu64,+x".into(),
            kernel_options: vec!["log=debug".into()],
            gdb_port: Some(1234),
            qemu_arguments: vec!["-d".into(), "int".into()],
            ..Configuration::default()
        };
        let command = command(&configuration, &["two words"]);
        for part in [
            "-smp 2 -m 64 ",
            "-accel 'tcg,thread=single' -icount 'shift=0,sleep=off' -rtc 'clock=vm,base=2000-01-01' ",
            "-S -gdb tcp:127.0.0.1:1234 ",
            "-cpu 'qemu64,+x' ",
            "-d int ",
            r#"-append 'halt_poll_us=1000 log=debug -- "two words"'"#,
        ] {
            assert!(command.contains(part), "{part} is not in {command}");
        }
    }

    #[test]
    fn instructions_are_counted_only_where_they_are_translated() {
        let kvm = Configuration { accelerator: Accelerator::Kvm, ..Configuration::default() };
        assert!(command(&kvm, &[]).contains("-accel kvm "));
        let both = Configuration { icount: true, ..kvm };
        assert!(matches!(both.qemu_arguments(Path::new("x"), &[]), Err(Error::Usage(_))));
    }

    #[test]
    fn disks_keep_their_names_and_lengths() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::write(&path, text).expect("written");
            path
        };
        let odd = Disk::open(file("a, b:c", "odd").as_ref(), Access::ReadOnly).expect("a disk");
        let empty = Disk::open(file("empty", "").as_ref(), Access::ReadWrite).expect("a disk");
        let place = directory.path().to_str().expect("text");
        let command = command(&Configuration { disks: vec![odd, empty], ..Configuration::default() }, &[]);
        for part in [
            format!("-drive 'if=none,id=d0,format=raw,readonly=on,file={place}/a,, b:c' "),
            "-device 'virtio-blk-pci,drive=d0,disable-legacy=on' ".to_owned(),
            format!("-drive 'if=none,id=d1,format=raw,readonly=off,file={place}/empty' "),
            format!(r#"-append '"disk={place}/a, b:c:3" disk={place}/empty:0 --'"#),
        ] {
            assert!(command.contains(&part), "{part} is not in {command}");
        }
    }

    #[test]
    fn file_that_is_no_disk_is_refused_by_name() {
        for (name, why) in [("/no/such/file", "No such file"), ("/", "not a regular"), ("/dev/null", "not a regular")] {
            let error = Disk::open(name.as_ref(), Access::ReadOnly).expect_err("no disk").to_string();
            assert!(error.contains(&format!("`{name}`")) && error.contains(why), "{error}");
        }
    }

    #[test]
    fn command_line_that_is_too_long_for_a_guest_is_refused() {
        let fits = "x".repeat(CAPACITY - 1 - "-- ".len());
        assert!(command(&Configuration::default(), &[&fits]).ends_with("x'"));
        let error = Configuration::default().qemu_arguments(Path::new("x"), &[fits + "x"]).expect_err("too long");
        assert!(error.to_string().contains("4096 bytes"), "{error}");
    }
}
