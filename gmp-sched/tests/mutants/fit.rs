//! Finds where a mutant fits the source. Only code is compared; whitespace and comments are ignored.

use std::fs;
use std::ops::Range;
use std::path::Path;

use crate::Mutant;

/// Returns the text of the file that `mutant` changes, with the change applied. `of` is the crate's directory.
pub(crate) fn mutate(mutant: &Mutant, of: &Path) -> Result<String, String> {
    let path = of.join("src").join(&mutant.file);
    let mut source = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    match &occurrences(&source, &mutant.from)[..] {
        [only] => source.replace_range(only.clone(), &mutant.to),
        all => {
            return Err(format!(
                "the mutant \"{mutant}\" does not fit the source: the code that it replaces occurs {} times. Change the \
                 mutant in gmp-sched/tests/mutants/list along with the source:\n{}",
                all.len(),
                mutant.from
            ));
        }
    }
    Ok(source)
}

/// Returns the ranges of `source` whose code equals the code of `wanted`.
fn occurrences(source: &str, wanted: &str) -> Vec<Range<usize>> {
    let wanted: Vec<char> = code(wanted).map(|(_, character)| character).collect();
    let code: Vec<(usize, char)> = code(source).collect();
    let is_wanted = |part: &&[(usize, char)]| part.iter().map(|&(_, character)| character).eq(wanted.iter().copied());
    let range = |part: &[(usize, char)]| {
        let (first, last) = (part[0], part[part.len() - 1]);
        first.0..last.0 + last.1.len_utf8()
    };
    // If `wanted` is empty, it is compared with parts of one character, so there is no match.
    code.windows(wanted.len().max(1)).filter(is_wanted).map(range).collect()
}

/// Returns the characters of `source` without comments and whitespace, each with its offset in bytes.
fn code(source: &str) -> impl Iterator<Item = (usize, char)> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < source.len() {
        let length = piece(&source[at..]);
        pieces.push(at..at + length);
        at += length;
    }
    let is_comment = |piece: &Range<usize>| source[piece.clone()].starts_with("//");
    let characters = pieces.into_iter().filter(move |piece| !is_comment(piece)).flat_map(|piece| {
        source[piece.clone()].char_indices().map(move |(index, character)| (piece.start + index, character))
    });
    characters.filter(|(_, character)| !character.is_whitespace())
}

/// Returns the length of the comment, string literal, character literal or single character at the start of `source`.
fn piece(source: &str) -> usize {
    let until = |end: char, from: usize| {
        let mut is_escaped = false;
        let is_end = |&(_, character): &(usize, char)| {
            let ends = character == end && !is_escaped;
            is_escaped = character == '\\' && !is_escaped;
            ends
        };
        source.char_indices().skip(from).find(is_end).map_or(source.len(), |(index, _)| index + 1)
    };
    let mut characters = source.chars();
    match (characters.next(), characters.next(), characters.next()) {
        (Some('/'), Some('/'), _) => source.find('\n').unwrap_or(source.len()),
        (Some('"'), ..) => until('"', 1),
        // This is a character literal, not a lifetime.
        (Some('\''), Some('\\'), _) | (Some('\''), _, Some('\'')) => until('\'', 1),
        (first, ..) => first.map_or(0, char::len_utf8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts<'a>(source: &'a str, wanted: &str) -> Vec<&'a str> {
        occurrences(source, wanted).into_iter().map(|range| &source[range]).collect()
    }

    #[test]
    fn whitespace_and_comments_make_no_difference() {
        let source = "fn f() {\n    first(); // One.\n    // Two.\n    second();\n}\n";
        assert_eq!(parts(source, "first();\n        second();"), ["first(); // One.\n    // Two.\n    second();"]);
        assert_eq!(parts(source, "// Old words.\n first( );"), ["first();"]);
        assert!(parts(source, "One").is_empty());
    }

    #[test]
    fn slashes_in_a_string_start_no_comment() {
        let source = r#"f("a//b"); g('"'); h::<'a>(); // "no string"#;
        assert_eq!(parts(source, r#"g('"'); h"#), [r#"g('"'); h"#]);
        assert_eq!(parts(source, r#""a//b""#), [r#""a//b""#]);
        assert!(parts(source, r#""a//c""#).is_empty());
        assert!(parts(source, "no").is_empty());
    }

    #[test]
    fn every_occurrence_counts() {
        assert_eq!(parts("é += 1; b += 1;", "+=1;"), ["+= 1;", "+= 1;"]);
        assert!(parts("a", "ab").is_empty());
    }
}
