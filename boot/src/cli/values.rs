//! The values of options: how a word of the command line becomes a value, or an error that names the mistake.

use core::time::Duration;

use boot::qemu::{Port, Protocol};
use boot_protocol::kernel_option;

/// Reads a time with a unit, as the timeline shows it. Fractions of a nanosecond are an error.
pub(super) fn event_time(text: &str) -> Result<Duration, String> {
    let units = [("ns", 0), ("us", 3), ("µs", 3), ("ms", 6), ("s", 9)];
    let parsed = units.into_iter().find_map(|(unit, digits)| {
        let (whole, fraction) = {
            let number = text.strip_suffix(unit)?.trim_end();
            number.split_once('.').unwrap_or((number, ""))
        };
        let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let is_number = !whole.is_empty() && are_digits(whole) && are_digits(fraction) && fraction.len() <= digits;
        is_number.then(|| format!("{whole}{fraction:0<digits$}").parse().ok()).flatten()
    });
    parsed.map(Duration::from_nanos).ok_or_else(|| "not a time in ns, us, ms or s, such as 351.488ms".to_owned())
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "not a number of seconds")?;
    match Duration::try_from_secs_f64(number) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err("not a time to wait for".to_owned()),
    }
}

/// Reads a port of the host and a port of the machine. The protocol may come before them; the default is TCP.
pub(super) fn port(text: &str) -> Result<Port, String> {
    let (protocol, ports) = match text.split_once(':') {
        Some(("udp", rest)) => (Protocol::Udp, rest),
        Some(("tcp", rest)) => (Protocol::Tcp, rest),
        _ => (Protocol::Tcp, text),
    };
    let number = |text: &str| text.parse().ok().filter(|&port| port != 0);
    let both = ports.split_once(':').and_then(|(host, guest)| Some((number(host)?, number(guest)?)));
    let mistake = "not two ports from 1 to 65535, such as 8080:80 or udp:5353:53";
    both.map(|(host, guest)| Port { protocol, host, guest }).ok_or_else(|| mistake.to_owned())
}

/// Accepts the names that Linux accepts for network devices, except those that QEMU's options cannot contain.
pub(super) fn device(text: &str) -> Result<String, String> {
    let is_valid = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'/' | b':' | b',' | b'%');
    let is_name = (1..=15).contains(&text.len()) && text.bytes().all(is_valid) && !matches!(text, "." | "..");
    is_name.then(|| text.to_owned()).ok_or_else(|| "not the name of a network device, such as tap0".to_owned())
}

/// Accepts the options that the kernel accepts.
pub(super) fn kernel_option(text: &str) -> Result<String, String> {
    kernel_option::check(text).map(|_| text.to_owned()).map_err(|mistake| mistake.to_string())
}
