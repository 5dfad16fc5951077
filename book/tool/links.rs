//! The links of a document in Markdown.

use std::ops::Range;

/// A link to a file, perhaps to a place in it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Link<'a> {
    /// The address: a path, and perhaps `#` and the name of a heading.
    pub(crate) address: &'a str,
    /// Where in the document the address is.
    pub(crate) at: Range<usize>,
}

impl Link<'_> {
    pub(crate) fn path(&self) -> &str {
        self.address.split('#').next().unwrap_or_default()
    }

    /// The part from `#` on, or nothing.
    pub(crate) fn fragment(&self) -> &str {
        &self.address[self.path().len()..]
    }
}

/// Returns the links to files in `text`, but not those in blocks of code.
pub(crate) fn of(text: &str) -> Vec<Link<'_>> {
    prose(text).flat_map(|(begin, line)| of_line(line, begin)).collect()
}

/// The lines of `text` that are not in blocks of code, with their positions.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let (mut end, mut is_code) = (0, false);
    text.split_inclusive('\n').filter_map(move |line| {
        let begin = end;
        end += line.len();
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then_some((begin, line))
    })
}

fn of_line(line: &str, begin: usize) -> impl Iterator<Item = Link<'_>> {
    line.match_indices("](").filter_map(move |(end, _)| {
        let from = end + 2;
        let address = &line[from..from + line[from..].find(')')?];
        let is_file = !address.is_empty() && !address.starts_with('#') && !address.contains("://");
        is_file.then(|| Link { address, at: begin + from..begin + from + address.len() })
    })
}

/// Returns `text` with other addresses: `replace` returns the new address of a link, or `None` if the address stays.
pub(crate) fn replace(text: &str, mut replace: impl FnMut(&Link<'_>) -> Option<String>) -> String {
    let mut result = String::with_capacity(text.len());
    let mut copied = 0;
    for link in of(text) {
        if let Some(address) = replace(&link) {
            result.push_str(&text[copied..link.at.start]);
            result.push_str(&address);
            copied = link.at.end;
        }
    }
    result.push_str(&text[copied..]);
    result
}

/// Whether `text` has a heading to which `#name` in an address leads. mdBook and forges derive the name from the
/// heading in the same way.
pub(crate) fn has_heading(text: &str, name: &str) -> bool {
    let named = |heading: &str| -> String {
        let letters = heading.trim().chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
        letters.flat_map(char::to_lowercase).map(|letter| if letter == ' ' { '-' } else { letter }).collect()
    };
    prose(text).any(|(_, line)| line.starts_with('#') && named(line.trim_start_matches('#')) == name)
}

#[cfg(test)]
mod tests {
    use super::{has_heading, of, replace};

    #[test]
    fn headings_are_found_by_their_names() {
        let text = "# The `pick`, and *stealing*\n```sh\n# a comment\n```\n";
        assert!(has_heading(text, "the-pick-and-stealing") && !has_heading(text, "the-pick"));
        assert!(!has_heading(text, "a-comment"), "it is in a block of code");
    }

    #[test]
    fn links_to_files_are_found_outside_of_code() {
        let text = "[a](b.md#c) and [d](https://e), [f](#g)\n```text\n[h](i.md)\n```\n- [j](k.md)\n";
        let links = of(text);
        let found: Vec<_> = links.iter().map(|link| (link.path(), link.fragment())).collect();
        assert_eq!(found, [("b.md", "#c"), ("k.md", "")]);
        let replaced = replace(text, |link| (link.path() == "k.md").then(|| "l.md".to_string()));
        assert_eq!(replaced, text.replace("k.md", "l.md"));
    }
}
