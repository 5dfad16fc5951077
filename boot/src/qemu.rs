//! The configuration of the machine, and the QEMU command for it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use boot_protocol::command_line::{CAPACITY, DISK, DiskOption, Line};
use boot_protocol::kernel_option::{CONSOLE, CONSOLE_VIRTIO, SEED, STDERR, STDERR_TERMINAL};
use boot_protocol::status;

use crate::Error;
pub use crate::disk::{Access, Disk};
use crate::net;
pub use crate::net::{Net, Port, Protocol};

/// The name of the QEMU program.
pub const QEMU: &str = "qemu-system-x86_64";

/// The oldest version of QEMU with which `boot` has been tested.
pub const OLDEST_QEMU: (u32, u32) = (7, 2);

/// These kernel options make all runs equal with `--icount`, when the machine's clock is the number of executed
/// instructions. QEMU's main loop runs for a moment after each timer. If all CPUs halt in that moment, QEMU may advance
/// the clock too early. So the last CPU to become idle first polls for 1 ms of the machine's clock, which takes several
/// milliseconds on the host, so that the main loop is usually asleep when this CPU halts. And the work of a timer's
/// interrupt begins at a fixed count of instructions, even if the timer was late. See the kernel's `sched::idle`.
const EQUAL_TIMES: [&str; 2] = ["halt_poll_us=1000", "timer_align=on"];

/// This kernel option makes random numbers equal in all runs. It is set when instructions are counted.
const FIXED_SEED: &str = "seed=0";

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
    /// If QEMU has failed with hardware virtualisation, adds to `error` why this may be the cause, and how to run the
    /// machine without it. Otherwise returns `error` unchanged.
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

/// What loads the program on the machine and starts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Firmware {
    /// QEMU itself loads the ELF file, and starts it by the PVH protocol.
    #[default]
    Pvh,
    /// SeaBIOS, which starts the rust-osdev bootloader from a disk image.
    Bios,
    /// OVMF, an implementation of UEFI, which starts the rust-osdev bootloader from a disk image.
    Uefi,
}

impl Firmware {
    /// Returns the name of the firmware on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pvh => "pvh",
            Self::Bios => "bios",
            Self::Uefi => "uefi",
        }
    }
}

/// Where packages install OVMF: the file of its code, and the file of the initial content of its variables.
const OVMF: [[&str; 2]; 9] = [
    // Debian, Ubuntu.
    ["/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"],
    ["/usr/share/OVMF/OVMF_CODE.fd", "/usr/share/OVMF/OVMF_VARS.fd"],
    // Fedora.
    ["/usr/share/edk2/ovmf/OVMF_CODE.fd", "/usr/share/edk2/ovmf/OVMF_VARS.fd"],
    // Arch.
    ["/usr/share/edk2/x64/OVMF_CODE.4m.fd", "/usr/share/edk2/x64/OVMF_VARS.4m.fd"],
    // openSUSE.
    ["/usr/share/qemu/ovmf-x86_64-code.bin", "/usr/share/qemu/ovmf-x86_64-vars.bin"],
    // The files that come with QEMU, in this order: on Alpine; from Homebrew on ARM; from Homebrew on Intel, or from a
    // build of QEMU from source; from MacPorts.
    ["/usr/share/qemu/edk2-x86_64-code.fd", "/usr/share/qemu/edk2-i386-vars.fd"],
    ["/opt/homebrew/share/qemu/edk2-x86_64-code.fd", "/opt/homebrew/share/qemu/edk2-i386-vars.fd"],
    ["/usr/local/share/qemu/edk2-x86_64-code.fd", "/usr/local/share/qemu/edk2-i386-vars.fd"],
    ["/opt/local/share/qemu/edk2-x86_64-code.fd", "/opt/local/share/qemu/edk2-i386-vars.fd"],
];

/// Finds the files of OVMF.
///
/// # Errors
///
/// [`Error::Qemu`] if OVMF is not installed.
pub fn ovmf() -> Result<[&'static str; 2], Error> {
    let found = OVMF.into_iter().find(|files| files.iter().all(|file| Path::new(file).is_file()));
    found.ok_or_else(|| Error::Qemu("OVMF, the firmware for UEFI, is not installed: run ./setup --images".into()))
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
    /// The network of the machine.
    pub net: Net,
    /// Ports of the machine that the host can connect to.
    pub ports: Vec<Port>,
    /// The file to which QEMU writes the frames of the network.
    pub capture: Option<PathBuf>,
    /// Whether QEMU counts instructions instead of time, so that all runs are equal.
    pub icount: bool,
    /// What starts the program.
    pub firmware: Firmware,
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
            net: Net::default(),
            ports: Vec::new(),
            capture: None,
            icount: false,
            firmware: Firmware::default(),
            accelerator: Accelerator::default(),
            cpu_model: "max".to_owned(),
            kernel_options: Vec::new(),
            gdb_port: None,
            qemu_arguments: Vec::new(),
        }
    }
}

impl Configuration {
    /// If `is_terminal` is true, adds the kernel option that says that standard error is a terminal. If instructions
    /// are counted, adds nothing, because all such runs must be equal.
    #[must_use]
    pub fn with_stderr(mut self, is_terminal: bool) -> Self {
        if is_terminal && !self.icount {
            // The user's options come last, so they have precedence.
            self.kernel_options.insert(0, format!("{STDERR}={STDERR_TERMINAL}"));
        }
        self
    }

    /// Returns the QEMU arguments that boot `program` on this machine, with `arguments` for the program. If QEMU itself
    /// loads the program ([`Firmware::Pvh`]), `program` is an ELF file. Otherwise `program` is a disk image, which
    /// contains the program and its [`command_line`](Self::command_line).
    ///
    /// # Errors
    ///
    /// The errors of [`machine_arguments`](Self::machine_arguments) and of [`command_line`](Self::command_line).
    /// [`Error::Qemu`] if the firmware is not installed.
    pub fn qemu_arguments(&self, program: &Path, arguments: &[String]) -> Result<Vec<OsString>, Error> {
        let mut words = self.machine_arguments()?;
        let line = self.command_line(arguments)?;
        match self.firmware {
            Firmware::Pvh => words.extend(["-kernel".into(), program.into(), "-append".into(), line.into()]),
            Firmware::Bios => words.extend(boot_disk(program)),
            Firmware::Uefi => {
                let [code, variables] = ovmf()?;
                // With `snapshot=on`, what OVMF writes to its variables is dropped when the machine ends.
                for (unit, access, file) in [(0, "readonly=on", code), (1, "snapshot=on", variables)] {
                    words.extend([
                        "-drive".into(),
                        format!("if=pflash,unit={unit},format=raw,{access},file={file}").into(),
                    ]);
                }
                words.extend(boot_disk(program));
            }
        }
        Ok(words)
    }

    /// Returns the QEMU arguments for this machine, without those that boot a program.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if instructions are to be counted by an accelerator that cannot count them.
    pub fn machine_arguments(&self) -> Result<Vec<OsString>, Error> {
        let mut words: Vec<OsString> = Vec::new();
        let mut add = |text: &str| words.extend(text.split(' ').map(OsString::from));
        // The machine has no default devices and no window. Apart from the chipset, it has only the devices
        // for which there are arguments.
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
                return Err(Error::Usage(
                    "--icount needs `--accel tcg`: only QEMU's translator counts instructions".into(),
                ));
            }
            (Accelerator::Kvm, false) => add("-accel kvm"),
            (Accelerator::Hvf, false) => add("-accel hvf"),
        }
        add(&format!("-smp {} -m {}", self.cpus, self.memory));
        add("-serial stdio");
        if self.has_virtio_console() {
            // The virtio console writes to the same pipe as the serial port, so the output is in the order in which the
            // machine uses the two devices. With `ioeventfd=off`, QEMU writes the output before the CPU of the machine
            // continues. So the machine waits for an interrupt only if the pipe is full.
            add("-chardev file,id=bulk,path=/dev/stdout,append=on \
                 -device virtio-serial-pci,disable-legacy=on,max_ports=2,ioeventfd=off \
                 -device virtserialport,chardev=bulk");
        }
        if self.has_entropy_device() {
            // Tests refer to the device by its id.
            add("-device virtio-rng-pci,id=random,disable-legacy=on");
        }
        add(&format!("-device isa-debug-exit,iobase={:#x},iosize=0x04", status::DEBUG_EXIT_PORT));
        if let Some(port) = self.gdb_port {
            add(&format!("-S -gdb tcp:127.0.0.1:{port}"));
        }
        words.extend(["-cpu".into(), OsString::from(&self.cpu_model)]);
        // If instructions are counted, the disks are in memory that the machine shares. The module `memory_disk` makes
        // the arguments for this memory. So no disk is added here.
        for (index, disk) in self.disks.iter().filter(|_| !self.icount).enumerate() {
            words.push("-drive".into());
            words.push(drive(index, disk));
            words.push("-device".into());
            words.push(format!("virtio-blk-pci,drive=d{index},disable-legacy=on").into());
        }
        // If instructions are counted, the frames of the network are input: see the module `wire`.
        if !self.icount {
            words.extend(net::arguments(&self.net, &self.ports, self.capture.as_deref())?);
        }
        words.extend(self.qemu_arguments.iter().cloned());
        Ok(words)
    }

    /// Whether the machine has a virtio console for its output. It has none in three cases:
    ///
    /// - Instructions are counted. The device would answer at a different time in each run, so runs would differ.
    /// - The option `console` has another value than `virtio`. The kernel would not use the device.
    /// - The machine boots from firmware. Such a machine may have a screen, on which the kernel shows only what it
    ///   sends to the serial port.
    fn has_virtio_console(&self) -> bool {
        let mut options = self.kernel_options.iter().filter_map(|word| word.split_once('='));
        // If an option occurs several times, the kernel uses its last value.
        let choice = options.rfind(|&(key, _)| key == CONSOLE);
        let is_chosen = choice.is_none_or(|(_, value)| value == CONSOLE_VIRTIO);
        is_chosen && !self.icount && self.firmware == Firmware::Pvh
    }

    /// Whether the machine has an entropy device. It has none if instructions are counted, because all such runs must
    /// be equal. It also has none if the option `seed` is given, because the kernel would not use the device.
    fn has_entropy_device(&self) -> bool {
        let has_seed = self.kernel_options.iter().any(|word| word.split_once('=').is_some_and(|(key, _)| key == SEED));
        !has_seed && !self.icount
    }

    /// Checks that the bus of the machine has room for its disks, and for `memories` devices with shared memory.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if there is not enough room.
    pub fn check_bus(&self, memories: usize) -> Result<(), Error> {
        /// The slots of QEMU's chipset `q35`, without the two that the chipset itself has.
        const SLOTS: usize = 30;
        let has_screen = self.firmware != Firmware::Pvh;
        // If instructions are counted, the frames of the network are in one of `memories`.
        let has_network_device = self.net != Net::None && !self.icount;
        let devices = [self.has_virtio_console(), self.has_entropy_device(), has_screen, has_network_device];
        let others = memories + devices.into_iter().filter(|&is_there| is_there).count();
        let (disks, room) = (self.disks.len(), SLOTS - others);
        if disks > room {
            return Err(Error::Usage(format!("--disk: the machine has room for {room} disks, and not for {disks}")));
        }
        Ok(())
    }

    /// Checks that the TAP device of the host is there, and that the ports of the host are free. QEMU's own messages
    /// would not say what to do.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if there is no such device, or if a port is in use, or may not be used.
    pub fn check_network(&self) -> Result<(), Error> {
        net::check(&self.net, &self.ports)
    }

    /// Returns the kernel's command line, with `arguments` for the program.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the command line is longer than a guest can receive.
    pub fn command_line(&self, arguments: &[String]) -> Result<String, Error> {
        let disks =
            self.disks.iter().map(|disk| format!("{DISK}={}", DiskOption { name: &disk.name, bytes: disk.bytes }));
        // If an option occurs several times, the kernel uses its last value. So the user's options come last.
        let for_icount = EQUAL_TIMES.into_iter().chain([FIXED_SEED]).filter(|_| self.icount).map(str::to_owned);
        let options: Vec<String> = disks.chain(for_icount).chain(self.kernel_options.iter().cloned()).collect();
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

/// Returns the arguments for the disk from which the firmware boots, and for the graphics card, without which the
/// bootloader does not start. The disk is not a virtio disk, so the kernel does not list it among the disks.
fn boot_disk(image: &Path) -> [OsString; 6] {
    let drive = with_path("if=none,id=boot,format=raw,file=".to_owned(), image);
    ["-drive".into(), drive, "-device".into(), "ide-hd,drive=boot,bootindex=0".into(), "-device".into(), "VGA".into()]
}

/// Returns the value of `-drive` for a disk. The path in this value is absolute, because QEMU could mistake a `name:`
/// at the beginning of a relative path for a protocol.
fn drive(index: usize, disk: &Disk) -> OsString {
    let readonly = match disk.access {
        Access::ReadOnly => "on",
        Access::ReadWrite => "off",
    };
    // If the file of a disk cannot be read or written, for example because the host's disk is full, the program gets an
    // error. By default QEMU would stop the machine if there is no room.
    let options = "werror=report,rerror=report";
    with_path(format!("if=none,id=d{index},format=raw,readonly={readonly},{options},file="), &disk.path)
}

/// Appends a path to the value of an option of QEMU.
pub(crate) fn with_path(value: String, path: &Path) -> OsString {
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

    let mut value = value.into_bytes();
    for &byte in path.as_os_str().as_bytes() {
        // A comma ends the value. To include a comma in the path, QEMU requires two commas.
        value.extend(if byte == b',' { &b",,"[..] } else { core::slice::from_ref(&byte) });
    }
    OsString::from_vec(value)
}

/// Returns a command in shell syntax, for display.
pub fn shell_quoted<'a>(words: impl IntoIterator<Item = &'a OsStr>) -> String {
    // `try_quote` fails only for a zero byte, and no argument of a process contains a zero byte.
    let quote = |word: &OsStr| match word.to_str() {
        Some(word) => shlex::try_quote(word).map_or_else(|_| word.to_string(), |quoted| quoted.into_owned()),
        // Bytes that are not Unicode are written as escapes.
        None => format!("$'{}'", word.as_encoded_bytes().escape_ascii()),
    };
    words.into_iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
