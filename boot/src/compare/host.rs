//! What the host is, and how busy it is.

use std::process::Command;
use std::{fs, thread};

use super::setting::Setting;
use crate::qemu::QEMU;

/// Describes the parts of the host on which the results in this setting depend. Counts of instructions depend only on
/// QEMU. Times on a machine depend on QEMU, on the processor of the host, and on what else the host does. Times on
/// threads depend only on the processor, and on what else the host does.
pub(super) fn describe(setting: Setting) -> String {
    let emulator = (setting != Setting::Native).then(emulator);
    let computer = (setting != Setting::Instructions).then(computer);
    emulator.into_iter().chain(computer).collect::<Vec<_>>().join("; ")
}

fn emulator() -> String {
    let output = Command::new(QEMU).arg("--version").output().map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&output).into_owned();
    let version = text.split_once("version ").and_then(|(_, rest)| rest.split_whitespace().next());
    format!("QEMU {}", version.unwrap_or("of an unknown version"))
}

fn computer() -> String {
    let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = information.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split_once(": "));
    let model = model.map_or("unknown processor", |(_, model)| model);
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let plural = if cpus == 1 { "" } else { "s" };
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().filter(|load| !load.is_empty()).unwrap_or("unknown");
    format!("{model}, {cpus} CPU{plural}, load {load} before the first run")
}
