//! The values of options: how a word of the command line becomes a value, or an error that names the mistake.

use core::time::Duration;

use boot_protocol::kernel_option::{self, Mistake, OPTIONS};

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

/// Accepts the options that the kernel accepts. If the key is unknown but similar to a known one, the error names the
/// known one.
pub(super) fn kernel_option(text: &str) -> Result<String, String> {
    match kernel_option::check(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(Mistake::Key(key)) => Err(match similar_key(key) {
            Some(similar) => format!("did you mean `{similar}`? {}", Mistake::Key(key)),
            None => Mistake::Key(key).to_string(),
        }),
        Err(mistake) => Err(mistake.to_string()),
    }
}

/// Returns the key of the kernel option that the user has probably meant by `key`. That is a key that begins with
/// `key`, as `slice_us` begins with `slice`. If there is no such key, it is the key with the fewest different
/// characters. At most a third of the characters of `key` may differ. One different character is always allowed.
fn similar_key(key: &str) -> Option<&'static str> {
    let key = key.to_lowercase();
    let keys = || OPTIONS.iter().map(|option| option.key);
    let begins = keys().find(|known| known.starts_with(&key));
    begins.or_else(|| {
        let distances = keys().map(|known| (strsim::damerau_levenshtein(&key, known), known));
        let close = distances.filter(|(distance, _)| *distance <= (key.chars().count() / 3).max(1));
        close.min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
    })
}
