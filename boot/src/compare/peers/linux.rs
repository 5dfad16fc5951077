//! Go's benchmark and its server on Linux, on the same machine as ours. The kernel is the one that Debian or Ubuntu
//! provides for virtual machines. Linux starts from an archive in memory, with busybox as its shell.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ChildStdout;

use super::cache::{Cache, files, tool};
use super::machine::configuration;
use super::{Order, last_lines, timed_out};
use crate::Error;
use crate::console::say;
use crate::host_program::{read_in_background, receive};
use crate::memory_file;
use crate::process::Process;
use crate::qemu::Configuration;

/// The packages that depend on the current kernel for virtual machines, in Debian and in Ubuntu.
const KERNELS: [&str; 2] = ["linux-image-cloud-amd64", "linux-image-virtual"];

/// The options of Linux. `mitigations=off` turns off the mitigations for vulnerabilities of processors, such as
/// Meltdown. The mitigations slow system calls down, and are useless on an emulated processor. Without `no_timer_check`,
/// Linux waits for a few interrupts of the timer while it starts, and panics if a busy host delays them.
/// `clearcpuid=297` lets Linux copy and clear memory by words. Otherwise it would do so by bytes (`rep movsb`, ERMS),
/// which is fast on real processors. But in QEMU, each byte takes as long as an instruction, and is counted as one.
const OPTIONS: &str = "console=ttyS0 quiet mitigations=off no_timer_check clearcpuid=297 panic=-1";

/// The factor by which the numbers of repetitions of Go's workloads are multiplied. The full numbers are for runs on the
/// host. With this factor, the numbers are those of our benchmark on an emulated machine.
const SCALE: &str = "scale=0.2";

/// The modules of Linux for the network device. Each module comes after those on which it depends. Modules that are built
/// into the kernel have no file.
const MODULES: [&str; 8] = [
    "failover",
    "net_failover",
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "virtio_net",
];

/// The commands of the shell before each program. `ulimit` is needed for 10,000 connections, which use more file
/// descriptors than Linux allows by default.
const BEFORE: &str = "#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t devtmpfs devices /dev
/bin/busybox ip link set lo up
ulimit -n 65536
";

/// The commands that load the modules, and give the machine its address. The addresses are those of QEMU's user
/// network, and also those that are used with a TAP device.
const NETWORK: &str = "for module in $MODULES; do [ -e /lib/$module.ko ] && /bin/busybox insmod /lib/$module.ko; done
/bin/busybox ip addr add 10.0.2.15/24 dev eth0
/bin/busybox ip link set eth0 up
/bin/busybox ip route add default via 10.0.2.2
";

/// Linux, and the program that runs on it.
#[derive(Debug)]
pub struct Linux {
    /// The folder with the files of Linux.
    folder: PathBuf,
    program: PathBuf,
}

impl Linux {
    /// Gets a Linux that runs `program`. Downloads Linux if it is not in the cache.
    pub(in crate::compare) fn get(cache: &Cache, program: PathBuf) -> Result<Self, Error> {
        Ok(Self { folder: cache.entry("linux-with-network", download)?, program })
    }

    /// Starts a server: the program with these arguments. Returns the machine and its output.
    pub(in crate::compare) fn serve(
        &self,
        machine: &Configuration,
        arguments: &str,
    ) -> Result<(Process, ChildStdout), Error> {
        let network = NETWORK.replace("$MODULES", &MODULES.join(" "));
        self.start(machine, &format!("{BEFORE}{network}/bin/peer {arguments}\n"))
    }

    /// Starts a machine with Linux, whose first process is `script`. Returns the machine and its output.
    fn start(&self, machine: &Configuration, script: &str) -> Result<(Process, ChildStdout), Error> {
        let cannot = |error| Error::Qemu(format!("cannot make the files of Linux: {error}"));
        // The file has no name, so it is deleted when QEMU ends.
        let mut archive = tempfile::tempfile().map_err(cannot)?;
        archive.write_all(&self.archive(script).map_err(cannot)?).map_err(cannot)?;
        let mut words = machine.machine_arguments()?;
        let path = memory_file::inherited(&archive);
        words.extend(["-kernel".into(), self.folder.join("vmlinuz").into(), "-initrd".into(), path.into()]);
        words.extend(["-append", OPTIONS].map(Into::into));
        let (process, output, _input) = Process::start(&words, vec![archive])?;
        Ok((process, output))
    }

    /// Runs the program once. See [`Program::run`](super::Program::run).
    pub(super) fn run(&self, order: &Order<'_>) -> Result<(String, Option<String>), Error> {
        let deadline = order.deadline();
        let words = order.filters.join(" ");
        let script = format!("{BEFORE}/bin/peer {SCALE} procs={} {words}\n/bin/busybox reboot -f\n", order.procs);
        let (mut process, output) = self.start(&configuration(order.setting), &script)?;
        let output = read_in_background(output);
        let Some(printed) = receive(&output, deadline) else {
            process.kill();
            return Ok((receive(&output, None).unwrap_or_default(), Some(timed_out(order.limit))));
        };
        let status = process.wait();
        // The last command of the script `init` restarts the machine. QEMU then ends with success.
        let failure = match status {
            Ok(status) if status.success() => None,
            Ok(status) => Some(format!("QEMU ended with {status}{}", last_lines(&printed))),
            Err(error) => Some(format!("cannot wait for QEMU: {error}")),
        };
        Ok((printed, failure))
    }

    /// Returns the archive with the files of Linux.
    fn archive(&self, script: &str) -> io::Result<Vec<u8>> {
        let [busybox, program] = [fs::read(self.folder.join("busybox"))?, fs::read(&self.program)?];
        let mut entries: Vec<(String, Option<Vec<u8>>)> =
            ["bin", "dev", "lib", "proc"].map(|folder| (folder.to_owned(), None)).into();
        entries.extend(
            [("bin/busybox", busybox), ("bin/peer", program), ("init", script.into())]
                .map(|(name, content)| (name.to_owned(), Some(content))),
        );
        for module in MODULES {
            if let Ok(content) = fs::read(self.folder.join(format!("{module}.ko"))) {
                entries.push((format!("lib/{module}.ko"), Some(content)));
            }
        }
        let entries: Vec<_> = entries.iter().map(|(name, content)| (&**name, content.as_deref())).collect();
        Ok(cpio(&entries))
    }
}

/// Makes an archive in the format `newc` of cpio. Entries without content are folders, and all files are executable.
fn cpio(entries: &[(&str, Option<&[u8]>)]) -> Vec<u8> {
    const FOLDER: u32 = 0o040_755;
    const PROGRAM: u32 = 0o100_755;
    let mut archive = Vec::new();
    let align = |archive: &mut Vec<u8>| archive.resize(archive.len().next_multiple_of(4), 0);
    let last = ("TRAILER!!!", Some(&[][..]));
    for (number, (name, content)) in entries.iter().chain([&last]).enumerate() {
        let mode = if content.is_some() { PROGRAM } else { FOLDER };
        let content = content.unwrap_or_default();
        // The fields are the number of the file, its mode, owner, group, links, time, size, devices (four fields), the
        // length of the name with a zero at its end, and an unused checksum.
        let fields = [number, mode as usize, 0, 0, 1, 0, content.len(), 0, 0, 0, 0, name.len() + 1, 0];
        archive.extend(b"070701");
        fields.iter().for_each(|field| archive.extend(format!("{field:08x}").bytes()));
        archive.extend(name.bytes().chain([0]));
        align(&mut archive);
        archive.extend(content);
        align(&mut archive);
    }
    archive
}

/// Downloads the packages and unpacks them. Keeps Linux, its modules for the network, and busybox.
fn download(kept: &Path, dropped: &Path) -> Result<(), Error> {
    say("compare: downloading Linux and busybox (packages of the distribution, 28 MB)");
    let what = "cannot get Linux for the machine";
    let advice = "It comes from the packages of Debian or Ubuntu: apt-get must have its lists (apt-get update) and, once, \
                  the network. `--without go` leaves it out; --native needs no Linux";
    let kernel = KERNELS.iter().find_map(|name| {
        let depends = tool(&["apt-cache", "depends", name], dropped, what, advice).ok()?;
        kernel_package(&depends).map(str::to_owned)
    });
    let kernel = kernel.ok_or_else(|| {
        Error::Build(format!("{what}: apt-cache knows no package {}. {advice}", KERNELS.join(" or ")))
    })?;
    // If root runs apt-get, it downloads as another user by default. That user may not write to this folder, so apt-get
    // would print a warning.
    let download = ["apt-get", "--quiet", "--option", "APT::Sandbox::User=root", "download"];
    tool(&[&download[..], &[&kernel, "busybox-static"]].concat(), dropped, what, advice)?;
    for package in files(dropped) {
        tool(&["dpkg", "--extract", &package.display().to_string(), "unpacked"], dropped, what, advice)?;
    }
    let unpacked = files(&dropped.join("unpacked"));
    for (name, is_it) in
        [("vmlinuz", is_kernel as fn(&Path) -> bool), ("busybox", |path| path.ends_with("bin/busybox"))]
    {
        let found = unpacked.iter().find(|path| is_it(path));
        let found =
            found.ok_or_else(|| Error::Build(format!("{what}: there is no {name} in the packages. {advice}")))?;
        let copied = fs::copy(found, kept.join(name)).and_then(|_| File::open(kept.join(name)));
        copied.map_err(|error| Error::Build(format!("{what}: {error}")))?;
    }
    for name in MODULES.map(|module| format!("{module}.ko")) {
        if let Some(found) = unpacked.iter().find(|path| path.ends_with(&name)) {
            fs::copy(found, kept.join(name)).map_err(|error| Error::Build(format!("{what}: {error}")))?;
        }
    }
    Ok(())
}

fn is_kernel(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-"))
}

/// Finds the package of the kernel in the output of `apt-cache depends`.
fn kernel_package(depends: &str) -> Option<&str> {
    let packages = depends.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    packages.into_iter().find(|package| package.starts_with("linux-image-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_has_aligned_entries_and_an_end() {
        let archive = cpio(&[("bin", None), ("bin/a", Some(b"12345"))]);
        let text = String::from_utf8_lossy(&archive);
        assert_eq!(archive.len() % 4, 0);
        let heads: Vec<usize> = text.match_indices("070701").map(|(index, _)| index).collect();
        assert_eq!(heads.len(), 3);
        assert!(heads.iter().all(|head| head % 4 == 0), "{heads:?}");
        let [folder, file, end] = heads[..] else { panic!("{heads:?}") };
        assert!(text[folder..].starts_with("07070100000000000041ed"));
        assert!(text[file..].starts_with("07070100000001000081ed"));
        assert!(text[file + 110..].starts_with("bin/a\0") && text[..end].ends_with("12345\0\0\0"));
        assert!(text[end + 110..].starts_with("TRAILER!!!\0"));
    }

    #[test]
    fn kernel_is_the_package_on_which_the_other_depends() {
        let printed = "linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-56-cloud-amd64\n  Suggests: x\n";
        assert_eq!(kernel_package(printed), Some("linux-image-6.1.0-56-cloud-amd64"));
        assert_eq!(kernel_package("linux-image-virtual\n"), None);
    }
}
