//! Which tokens of a file are compiled for programs.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use crate::source::{Half, inside, is_group, word};

/// Returns the tokens without attributes and without code that is not compiled for programs.
pub(crate) fn compiled(stream: TokenStream, half: Half) -> Vec<TokenTree> {
    let tokens: Vec<_> = stream.into_iter().collect();
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let mut is_left_out = false;
        while let Some((attribute, length)) = attribute(&tokens[at..]) {
            is_left_out |= is_never(&attribute, half);
            // A `path` attribute names the file of the module that follows. The file's name is kept in front of that
            // module.
            if attribute.first().is_some_and(|name| word(name) == "path") {
                kept.extend(attribute.last().cloned());
            }
            at += length;
        }
        let Some(token) = tokens.get(at) else { break };
        if is_left_out {
            at += end_of_left_out(&tokens[at..]);
            continue;
        }
        kept.push(match token {
            TokenTree::Group(group) => {
                let inner = compiled(group.stream(), half).into_iter().collect();
                TokenTree::Group(Group::new(group.delimiter(), inner))
            }
            other => other.clone(),
        });
        at += 1;
    }
    kept
}

/// If `tokens` begin with an attribute, returns the tokens inside it and the number of tokens of the whole attribute.
fn attribute(tokens: &[TokenTree]) -> Option<(Vec<TokenTree>, usize)> {
    if word(tokens.first()?) != "#" {
        return None;
    }
    let length = if word(tokens.get(1)?) == "!" { 3 } else { 2 };
    match tokens.get(length - 1)? {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => Some((inside(group), length)),
        _ => None,
    }
}

/// Returns whether `attribute` is a `cfg` that does not hold for the code that is read.
fn is_never(attribute: &[TokenTree], half: Half) -> bool {
    match attribute {
        [name, TokenTree::Group(condition)] if word(name) == "cfg" => holds(&inside(condition), half) == Some(false),
        _ => false,
    }
}

/// Returns whether a condition holds for the code that is read, or `None` if it holds in some builds and not in others,
/// for example because it depends on features or on the target.
fn holds(condition: &[TokenTree], half: Half) -> Option<bool> {
    let Some(TokenTree::Group(group)) = condition.get(1) else {
        return match word(&condition[0]).as_str() {
            "test" => Some(false),
            "doc" | "doctest" if half == Half::Both => Some(false),
            _ if half == Half::Both => None,
            "gmp_loom" | "gmp_tsan" => Some(false),
            "gmp_machine" => Some(half == Half::Machine),
            _ => None,
        };
    };
    let inner = inside(group);
    let each = inner.split(|token| word(token) == ",").filter(|part| !part.is_empty());
    let each: Vec<_> = each.map(|part| holds(part, half)).collect();
    match word(&condition[0]).as_str() {
        "not" => each[0].map(|value| !value),
        "all" if each.contains(&Some(false)) => Some(false),
        "any" if each.contains(&Some(true)) => Some(true),
        "all" if each.iter().all(|value| *value == Some(true)) => Some(true),
        "any" if each.iter().all(|value| *value == Some(false)) => Some(false),
        _ => None,
    }
}

/// Returns the number of tokens of the item, statement, field or match arm with which `tokens` begin.
fn end_of_left_out(tokens: &[TokenTree]) -> usize {
    const ITEMS: [&str; 12] =
        ["pub", "fn", "impl", "trait", "mod", "struct", "enum", "const", "static", "use", "unsafe", "type"];
    let is_item = ITEMS.contains(&word(&tokens[0]).as_str());
    for (index, token) in tokens.iter().enumerate() {
        let is_last = match word(token).as_str() {
            ";" => true,
            "," => !is_item,
            _ => is_group(token, Delimiter::Brace) && tokens.get(index + 1).is_none_or(|next| word(next) != ";"),
        };
        if is_last {
            return index + 1;
        }
    }
    tokens.len()
}
