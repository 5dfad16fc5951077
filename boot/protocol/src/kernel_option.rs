//! The kernel's options, in a table. Both `boot` and the kernel check the options on their command lines against this
//! table. docs/manual/options.md explains what each option does, and kernel/src/boot/options.rs reads them.
//!
//! The table has no keys that begin with [`PROGRAM_PREFIX`], because such keys belong to the program.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr};
use core::ops::RangeInclusive;

use crate::command_line::{DISK, DiskOption};
use crate::memory_disk::DiskFault;

/// The prefix of the keys that belong to the program. The kernel accepts each of them with any value.
pub const PROGRAM_PREFIX: &str = "program.";

/// The key of the option that chooses the device for output.
pub const CONSOLE: &str = "console";
/// The default value of the option [`CONSOLE`]: output uses a virtio console if there is one.
pub const CONSOLE_VIRTIO: &str = "virtio";

/// The key of the option that states what standard error is.
pub const STDERR: &str = "stderr";
/// The value of the option [`STDERR`] if standard error is a terminal.
pub const STDERR_TERMINAL: &str = "terminal";

/// The key of the option that says whether Gs are preempted in programs on the host.
pub const PREEMPTION: &str = "preemption";
/// The value of the option [`PREEMPTION`] if Gs are not preempted.
pub const PREEMPTION_OFF: &str = "off";

/// The key of the option whose value is the seed of all random numbers.
pub const SEED: &str = "seed";

/// The key of the option whose value is the address of the machine in its network.
pub const IP: &str = "ip";
/// The key of the option whose value is the address of the gateway, which forwards packets to other networks.
pub const GATEWAY: &str = "gateway";
/// The key of the option whose value is the address of the DNS server, which finds the addresses of host names.
pub const DNS: &str = "dns";

/// Parses the value of the option [`IP`], such as `10.0.2.15/24` or `fec0::15/64`: the address of one computer, and the
/// length of the network's prefix in bits. Returns `None` if the text is not such a value.
#[must_use]
pub fn network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, prefix) = text.split_once('/')?;
    let address = address.parse().ok().filter(|it: &IpAddr| !it.is_multicast() && *it != Ipv4Addr::BROADCAST)?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    Some((address, prefix.parse().ok().filter(|&prefix| prefix <= bits)?))
}

/// An option of the kernel.
#[derive(Debug, PartialEq, Eq)]
pub struct KernelOption {
    /// The key.
    pub key: &'static str,
    /// The values that are accepted.
    pub value: Value,
}

/// The values that an option accepts. `Display` describes these values, for an error message.
#[derive(Debug, PartialEq, Eq)]
pub enum Value {
    /// A number in this range.
    Number(RangeInclusive<u64>),
    /// One of these words.
    Word(&'static [&'static str]),
    /// A [`DiskOption`].
    Disk,
    /// A [`DiskFault`].
    DiskFault,
    /// An IP address.
    Address,
    /// An IP address and a number of bits: see [`network`].
    Network,
}

/// All options of the kernel.
pub const OPTIONS: &[KernelOption] = &[
    KernelOption { key: "log", value: Value::Word(&["off", "error", "warn", "info", "debug", "trace"]) },
    // The kernel supports at most 255 CPUs. When the kernel starts, it also checks that the number of Ps does not
    // exceed a limit that depends on the number of CPUs.
    KernelOption { key: "procs", value: Value::Number(1..=255) },
    // With a much shorter slice, the CPUs would spend most of their time on switches. With a longer slice, a G could
    // wait for more than ten seconds.
    KernelOption { key: "slice_us", value: Value::Number(100..=10_000_000) },
    KernelOption { key: "undisturbed_us", value: Value::Number(0..=10_000_000) },
    KernelOption { key: "halt_poll_us", value: Value::Number(0..=10_000_000) },
    // The default is the maximum. With that many Ms in blocking calls, one M for each P, and the Ms that sysmon needs,
    // the number of Ms does not exceed the limit of the scheduler.
    KernelOption { key: "blocking_limit", value: Value::Number(1..=8_000) },
    KernelOption { key: "drain_s", value: Value::Number(0..=1_000_000) },
    KernelOption { key: CONSOLE, value: Value::Word(&[CONSOLE_VIRTIO, "serial", "polled"]) },
    KernelOption { key: STDERR, value: Value::Word(&[STDERR_TERMINAL, "file"]) },
    KernelOption { key: "panic", value: Value::Word(&["end", "isolate"]) },
    KernelOption { key: PREEMPTION, value: Value::Word(&["on", PREEMPTION_OFF]) },
    KernelOption { key: SEED, value: Value::Number(0..=u64::MAX) },
    KernelOption { key: "trace", value: Value::Word(&["memory", "profile"]) },
    KernelOption { key: "top", value: Value::Word(&["memory"]) },
    // The value is an interval in milliseconds. It must fit into 32 bits.
    KernelOption { key: "schedtrace", value: Value::Number(1..=u32::MAX as u64) },
    KernelOption { key: "scheddetail", value: Value::Number(0..=1) },
    KernelOption { key: "timer", value: Value::Word(&["one-shot", "tsc-deadline"]) },
    KernelOption { key: "timer_align", value: Value::Word(&["on", "off"]) },
    // The values are APIC ids.
    KernelOption { key: "dead_cpu", value: Value::Number(0..=u32::MAX as u64) },
    KernelOption { key: "late_cpu", value: Value::Number(0..=u32::MAX as u64) },
    KernelOption { key: DISK, value: Value::Disk },
    // The access time must be shorter than the least `disk_timeout_s`.
    KernelOption { key: "disk_access_us", value: Value::Number(0..=100_000) },
    KernelOption { key: "disk_seed", value: Value::Number(0..=u64::MAX) },
    KernelOption { key: "disk_fault", value: Value::DiskFault },
    KernelOption { key: "disk_timeout_s", value: Value::Number(1..=1_000_000) },
    KernelOption { key: IP, value: Value::Network },
    KernelOption { key: GATEWAY, value: Value::Address },
    KernelOption { key: DNS, value: Value::Address },
];

impl Value {
    fn accepts(&self, text: &str) -> bool {
        match self {
            Self::Number(range) => text.parse().is_ok_and(|number| range.contains(&number)),
            Self::Word(words) => words.contains(&text),
            Self::Disk => DiskOption::parse(text).is_some(),
            Self::DiskFault => DiskFault::parse(text).is_some(),
            Self::Address => text.parse::<IpAddr>().is_ok(),
            Self::Network => network(text).is_some(),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(range) => write!(formatter, "a number from {} to {}", range.start(), range.end()),
            Self::Word(words) => {
                formatter.write_str("one of ")?;
                list(formatter, words.iter().copied())
            }
            Self::Disk => formatter.write_str("NAME:BYTES"),
            Self::DiskFault => formatter.write_str(DiskFault::EXPECTED),
            Self::Address => formatter.write_str("an address such as 10.0.2.2 or fec0::2"),
            Self::Network => {
                formatter.write_str("an address and a number of bits, such as 10.0.2.15/24 or fec0::15/64")
            }
        }
    }
}

/// Writes the words with commas between them.
fn list<'a>(formatter: &mut fmt::Formatter<'_>, words: impl Iterator<Item = &'a str>) -> fmt::Result {
    words.enumerate().try_for_each(|(index, word)| {
        let comma = if index == 0 { "" } else { ", " };
        write!(formatter, "{comma}{word}")
    })
}

/// Whether a user who wrote `word` may have meant `key`: the words differ in at most two neighbouring characters, or
/// `word` is the beginning of `key`.
fn is_similar(word: &str, key: &str) -> bool {
    let (word, key) = (word.as_bytes(), key.as_bytes());
    let same = |(a, b): &(&u8, &u8)| a.eq_ignore_ascii_case(b);
    let shorter = word.len().min(key.len());
    let before = word.iter().zip(key).take_while(same).count();
    let after = word.iter().rev().zip(key.iter().rev()).take(shorter - before).take_while(same).count();
    let is_close = before + after > 0 && word.len().max(key.len()) - before - after <= 2;
    // A word of one or two characters would be close to many keys, so it counts as similar to none.
    word.len() > 2 && (is_close || before == word.len())
}

/// Why a word is not an option that the kernel accepts. `Display` writes an explanation without the word itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake<'a> {
    /// The word does not have the form `KEY=VALUE`.
    Form,
    /// There is no option with this key.
    Key(&'a str),
    /// The option does not accept the given value. The field contains the values that the option accepts.
    Value(&'static Value),
}

impl fmt::Display for Mistake<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form => formatter.write_str("expected the form KEY=VALUE"),
            Self::Key(key) => {
                write!(formatter, "no option is named `{key}`; ")?;
                if let Some(meant) = OPTIONS.iter().find(|option| is_similar(key, option.key)) {
                    write!(formatter, "did you mean `{}`? ", meant.key)?;
                }
                formatter.write_str("the kernel's are ")?;
                list(formatter, OPTIONS.iter().map(|option| option.key))?;
                write!(formatter, ", and those of programs begin with `{PROGRAM_PREFIX}`")
            }
            Self::Value(value) => write!(formatter, "expected {value}"),
        }
    }
}

/// Checks a word of the form `KEY=VALUE`. Returns the entry of the table, or `None` if the option belongs to the
/// program.
///
/// # Errors
///
/// If the word has another form, the table does not have the key, or the option does not accept the value.
///
/// ```
/// # extern crate std; use std::string::ToString;
/// use boot_protocol::kernel_option::{Mistake, check};
///
/// assert_eq!(check("slice_us=100").unwrap().unwrap().key, "slice_us");
/// assert_eq!(check("program.size=large"), Ok(None));
/// assert_eq!(check("size=large"), Err(Mistake::Key("size")));
/// assert_eq!(check("slice_us=99").unwrap_err().to_string(), "expected a number from 100 to 10000000");
/// ```
pub fn check(word: &str) -> Result<Option<&'static KernelOption>, Mistake<'_>> {
    let (key, value) = word.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or(Mistake::Form)?;
    if key.starts_with(PROGRAM_PREFIX) {
        return Ok(None);
    }
    let option = OPTIONS.iter().find(|option| option.key == key).ok_or(Mistake::Key(key))?;
    if option.value.accepts(value) { Ok(Some(option)) } else { Err(Mistake::Value(&option.value)) }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::format;
    use std::string::ToString as _;

    use super::*;

    #[test]
    fn manual_explains_every_option_that_a_user_may_set() {
        let page = include_str!("../../../docs/manual/options.md");
        for option in OPTIONS.iter().filter(|option| option.value != Value::Disk) {
            assert!(page.contains(&format!("\n| `{}=", option.key)), "{}", option.key);
        }
        assert!(page.contains(PROGRAM_PREFIX));
    }

    #[test]
    fn addresses_of_both_kinds_are_accepted() {
        for word in ["ip=10.0.2.15/32", "ip=fec0::15/128", "gateway=10.0.2.2", "gateway=fe80::2", "dns=fec0::3"] {
            assert!(check(word).is_ok(), "{word}");
        }
    }

    #[test]
    fn mistakes_state_what_is_expected() {
        for (word, expected) in [
            ("verbose", "expected the form KEY=VALUE"),
            ("=1", "expected the form KEY=VALUE"),
            ("Log=debug", "no option is named `Log`; did you mean `log`? the kernel's are log, procs, "),
            ("panci=isolate", "no option is named `panci`; did you mean `panic`? the kernel's are "),
            ("lgo=debug", "no option is named `lgo`; did you mean `log`? the kernel's are "),
            ("proc=2", "no option is named `proc`; did you mean `procs`? the kernel's are "),
            ("slice-us=100", "no option is named `slice-us`; did you mean `slice_us`? the kernel's are "),
            ("slice=100", "no option is named `slice`; did you mean `slice_us`? the kernel's are "),
            ("silce_us=100", "no option is named `silce_us`; did you mean `slice_us`? the kernel's are "),
            ("size=large", "no option is named `size`; the kernel's are "),
            ("t=1", "no option is named `t`; the kernel's are "),
            ("log=verbose", "expected one of off, error, warn, info, debug, trace"),
            ("panic=", "expected one of end, isolate"),
            ("procs=0", "expected a number from 1 to 255"),
            ("seed=many", "expected a number from 0 to 18446744073709551615"),
            ("ip=10.0.2.15/33", "expected an address and a number of bits, such as 10.0.2.15/24 or "),
            ("ip=ff02::1/64", "expected an address and a number of bits"),
            ("gateway=router", "expected an address such as 10.0.2.2 or fec0::2"),
            ("disk=ghost", "expected NAME:BYTES"),
            ("disk_fault=lose@first", "expected short, id, twice, lose or error"),
        ] {
            let mistake = check(word).expect_err(word).to_string();
            assert!(mistake.starts_with(expected), "{word}: {mistake}");
        }
    }
}
