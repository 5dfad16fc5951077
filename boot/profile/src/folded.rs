//! Folded stacks and flame graphs.

use std::collections::BTreeMap;
use std::io::{self, Write};

use inferno::flamegraph::{self, Options};

use crate::frames::{Inner, resolve};
use crate::samples::Sample;
use crate::symbols::Symbols;

/// Returns a line for each call stack: the functions, outermost first and separated by semicolons, and the time in
/// nanoseconds. The lines are sorted. In a profile of waits, the innermost entry is the reason of the wait.
pub(crate) fn lines(samples: &[Sample], inner: Inner, symbols: &Symbols) -> Vec<String> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for sample in samples {
        let locations = resolve(symbols, &sample.stack, inner);
        let functions = locations.iter().rev().flat_map(|location| location.frames.iter().rev());
        let mut entries: Vec<String> = functions.map(|frame| frame.function.replace(';', ",")).collect();
        entries.extend(sample.reason.map(|reason| format!("[{reason}]")));
        *sums.entry(entries.join(";")).or_default() += sample.nanoseconds;
    }
    sums.into_iter().map(|(stack, nanoseconds)| format!("{stack} {nanoseconds}")).collect()
}

/// Writes a flame graph of folded stacks. If the stacks contain no time, writes a picture that says that nothing was
/// recorded.
pub(crate) fn write_flame_graph(title: &str, lines: &[String], mut output: impl Write) -> io::Result<()> {
    let has_time = lines.iter().any(|line| !line.ends_with(" 0"));
    if !has_time {
        return write!(output, include_str!("empty.svg"), title = escaped(title));
    }
    let mut options = Options::default();
    options.title = title.to_owned();
    "ns".clone_into(&mut options.count_name);
    options.deterministic = true;
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), output)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flame_graph(lines: &[&str]) -> String {
        let lines: Vec<_> = lines.iter().map(|&line| line.to_owned()).collect();
        let mut svg = Vec::new();
        write_flame_graph("Waits of <a> & b", &lines, &mut svg).expect("a picture");
        let svg = String::from_utf8(svg).expect("text");
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        roxmltree::Document::parse_with_options(&svg, options).expect("valid XML");
        svg
    }

    #[test]
    fn flame_graph_names_functions_and_times() {
        let svg = flame_graph(&["main;worker;[sleep] 1500", "main;other 500"]);
        assert!(svg.contains("worker") && svg.contains("1,500 ns, 75.00%"), "{svg}");
    }

    #[test]
    fn no_time_becomes_a_picture_that_says_so() {
        for lines in [&[][..], &["main;worker 0"]] {
            let svg = flame_graph(lines);
            assert!(svg.contains("Waits of &lt;a> &amp; b") && svg.contains("nothing was recorded"), "{svg}");
        }
    }
}
