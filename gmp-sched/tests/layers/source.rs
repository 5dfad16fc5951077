//! Reads the source for the test of the layers, and finds the paths that the code of each file names.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// A source file of the crate. Files that are compiled only for tests are left out.
pub(crate) struct Source {
    /// The path of the file below `src`.
    file: String,
    paths: BTreeSet<String>,
    code: String,
}

impl Source {
    fn new(file: String, code: &str) -> Self {
        let modules: Vec<_> = modules_of(&file).into_iter().map(str::to_owned).collect();
        let mut paths = BTreeSet::new();
        for (at, root) in roots(code) {
            let rest = &code[at + root.len()..];
            match root {
                "crate::" => collect(rest, "", &mut paths),
                // Each `super` leads one module up: first out of the inline modules around the path, then out of the
                // file's module and the modules above it.
                _ => {
                    let up = 1 + rest.split("::").take_while(|segment| *segment == "super").count();
                    let rest = &rest["super::".len() * (up - 1)..];
                    let up = up.saturating_sub(blocks_open(code, at));
                    if up > 0 {
                        collect(rest, &modules[..modules.len().saturating_sub(up)].join("::"), &mut paths);
                    }
                }
            }
        }
        Self { file, paths, code: code.to_owned() }
    }

    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    /// The paths that the code names, each from the root of the crate and without `crate::`.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(String::as_str)
    }
}

/// The names that the test needs in order to find calls of methods that a layer adds to types of other layers.
impl Source {
    /// The types that the file defines.
    pub(crate) fn types(&self) -> impl Iterator<Item = &str> {
        ["struct ", "enum ", "union "].into_iter().flat_map(|keyword| names_after(&self.code, keyword))
    }

    /// The functions and methods that the file defines.
    pub(crate) fn functions(&self) -> impl Iterator<Item = &str> {
        names_after(&self.code, "fn ")
    }

    /// The methods of the file's inherent implementations, each with the name of its type.
    pub(crate) fn methods(&self) -> Vec<(&str, &str)> {
        let mut methods = Vec::new();
        for (at, _) in self.code.match_indices("\nimpl") {
            let block = &self.code[at + "\nimpl".len()..];
            let header = &block[..block.find('{').expect("a block")];
            if header.contains(" for ") {
                continue;
            }
            let generics = if header.starts_with('<') { end_of_brackets(header, '<', '>') } else { 0 };
            let of = name_at(header[generics..].trim_start());
            let block = &block[..end_of_brackets(block, '{', '}')];
            methods.extend(names_after(block, "fn ").map(|method| (of, method)));
        }
        methods
    }

    /// The names of the methods that the code calls with a dot, on any type. (A call such as `Type::method(x)` is one
    /// of the [`paths`](Self::paths).)
    pub(crate) fn calls(&self) -> BTreeSet<&str> {
        let after_dots = self.code.split('.').skip(1).map(|after| (name_at(after), after));
        let is_call = |&(name, after): &(&str, &str)| after[name.len()..].starts_with(['(', ':']);
        after_dots.filter(is_call).map(|(name, _)| name).collect()
    }
}

/// The name at the beginning of `code`.
fn name_at(code: &str) -> &str {
    &code[..code.find(|each: char| !each.is_alphanumeric() && each != '_').unwrap_or(code.len())]
}

/// The names that follow `keyword` in `code`.
fn names_after<'a>(code: &'a str, keyword: &'static str) -> impl Iterator<Item = &'a str> {
    let begins = |at: usize| !code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_');
    code.match_indices(keyword)
        .filter(move |&(at, _)| begins(at))
        .map(move |(at, _)| name_at(&code[at + keyword.len()..]))
}

/// Returns the path of the module that `file` contains, as a list of names from the root.
fn modules_of(file: &str) -> Vec<&str> {
    let module = file.trim_end_matches(".rs").trim_end_matches("/mod");
    if module == "lib" { Vec::new() } else { module.split('/').collect() }
}

/// Returns each position in `code` at which a path begins with `crate::` or `super::`, and which of the two it is.
fn roots(code: &str) -> Vec<(usize, &'static str)> {
    let begins = |at: usize| !code[..at].ends_with(|before: char| before.is_alphanumeric() || "_$:".contains(before));
    let all = ["crate::", "super::"].into_iter();
    all.flat_map(|root| code.match_indices(root).map(move |(at, _)| (at, root))).filter(|&(at, _)| begins(at)).collect()
}

/// If `code` begins with a path, adds this path to `paths`. If `code` begins with a use tree, adds all paths of the
/// tree. Each path is added with `prefix` in front.
fn collect(code: &str, prefix: &str, paths: &mut BTreeSet<String>) {
    if let Some(group) = code.strip_prefix('{') {
        for tree in split_group(group) {
            collect(tree.trim_start(), prefix, paths);
        }
        return;
    }
    let name: String = code.chars().take_while(|&each| each.is_alphanumeric() || each == '_').collect();
    let rest = &code[name.len()..];
    if rest.starts_with('!') && prefix.is_empty() {
        // This is a macro. Exported macros are at the crate's root, regardless of the module that defines them.
        return;
    }
    let path = match (prefix, &*name) {
        (_, "self") => prefix.to_owned(),
        ("", _) => name,
        _ => format!("{prefix}::{name}"),
    };
    match rest.strip_prefix("::") {
        Some(rest) if !rest.starts_with(['<', '*']) => collect(rest, &path, paths),
        _ => _ = paths.insert(path),
    }
}

/// Splits a group, whose opening brace has been read, into its use trees.
fn split_group(group: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut trees) = (0, 0, Vec::new());
    for (at, each) in group.char_indices() {
        match each {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' if depth > 0 => {}
            '}' | ',' => {
                trees.push(&group[begin..at]);
                begin = at + 1;
                if each == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    trees.retain(|tree| !tree.trim().is_empty());
    trees
}

/// Returns all files of the source, except for those that are compiled only for tests or documentation.
pub(crate) fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    find_files(&root, &mut files);
    files.sort();
    let mut for_tests = BTreeSet::new();
    let mut codes = Vec::new();
    for path in files {
        let file = path.strip_prefix(&root).expect("found below it").to_str().expect("a name in ASCII").to_owned();
        let text = fs::read_to_string(&path).expect("the source can be read");
        let code = without_tests(&without_comments(&text), |module| {
            let mut of = modules_of(&file);
            of.push(module);
            for_tests.insert(of.join("/"));
        });
        codes.push((file, code));
    }
    codes.retain(|(file, _)| !for_tests.contains(&modules_of(file).join("/")));
    codes.into_iter().map(|(file, code)| Source::new(file, &code)).collect()
}

fn find_files(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("the source can be read") {
        let path = entry.expect("the source can be read").path();
        if path.is_dir() {
            find_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Returns `text` without its comments and without the contents of its string and character literals.
fn without_comments(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").expect("a comment ends") + 2
        } else if first == '"' {
            code.push_str("\"\"");
            1 + end_of_string(&rest[1..])
        } else if rest.starts_with("'\\") || first == '\'' && rest.chars().nth(2) == Some('\'') {
            code.push_str("''");
            let begin =
                if rest.starts_with("'\\") { 3 } else { 1 + rest[1..].chars().next().map_or(0, char::len_utf8) };
            begin + rest[begin..].find('\'').expect("a literal ends") + 1
        } else {
            code.push(first);
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    code
}

/// Returns the position behind the closing quote of a string whose opening quote has been read.
fn end_of_string(rest: &str) -> usize {
    let mut is_escaped = false;
    for (at, each) in rest.char_indices() {
        match each {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    panic!("a string ends")
}

/// Returns `code` without the items and statements that are compiled only for tests or documentation. Calls `module`
/// with the name of each removed module that has a file.
fn without_tests(code: &str, mut module: impl FnMut(&str)) -> String {
    let mut kept = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = rest.find("#[cfg(") {
        let end = at + end_of_brackets(&rest[at..], '[', ']');
        if !is_for_tests(&rest[at + "#[cfg(".len()..end - 2]) {
            kept.push_str(&rest[..end]);
            rest = &rest[end..];
            continue;
        }
        kept.push_str(&rest[..at]);
        rest = rest[end..].trim_start();
        while rest.starts_with("#[") {
            rest = rest[end_of_brackets(rest, '[', ']')..].trim_start();
        }
        let item = &rest[..end_of_item(rest)];
        if let Some((_, name)) = item.strip_suffix(';').and_then(|item| item.rsplit_once("mod ")) {
            module(name);
        }
        rest = &rest[item.len()..];
    }
    kept + rest
}

/// Whether an item with the attribute `#[cfg(condition)]` is compiled only for tests or only for documentation. The
/// models count as tests.
fn is_for_tests(condition: &str) -> bool {
    let all = condition.strip_prefix("all(").map(|all| all.trim_end_matches(')'));
    all.unwrap_or(condition).split(',').any(|each| matches!(each.trim(), "test" | "doc"))
}

/// Returns where the item or statement at the beginning of `code` ends: at a semicolon or at the end of a block.
fn end_of_item(code: &str) -> usize {
    let semicolon = code.find(';').map_or(code.len(), |at| at + 1);
    let head = &code[..code.find('{').unwrap_or(code.len()).min(semicolon)];
    // A `use` ends at its semicolon, even if it contains braces.
    if head.len() == semicolon || head.contains("use ") { semicolon } else { end_of_brackets(code, '{', '}') }
}

/// Finds the first bracket `open` in `code`, and returns the position behind the bracket `close` that matches it.
fn end_of_brackets(code: &str, open: char, close: char) -> usize {
    let mut depth = 0;
    for (at, each) in code.char_indices() {
        if each == open {
            depth += 1;
        } else if each == close && !code[..at].ends_with('-') {
            depth -= 1;
            if depth == 0 {
                return at + 1;
            }
        }
    }
    panic!("a pair of {open}{close}");
}

/// Returns how many inline modules contain the position `at`.
fn blocks_open(code: &str, at: usize) -> usize {
    let is_open = |begin: usize| {
        let code = &code[begin..];
        let block = code["mod ".len()..].trim_start_matches(|each: char| each.is_alphanumeric() || each == '_');
        block.starts_with(" {") && begin + end_of_brackets(code, '{', '}') > at
    };
    code[..at].match_indices("mod ").filter(|&(begin, _)| is_open(begin)).count()
}

#[test]
fn use_trees_are_split_into_paths() {
    let code = "use crate::a::{self, b::{C, D}, E as F};\nlet x = crate::g::h::<I>(super::super::j::K, super::l);\n\
                mod m { use super::super::n; use super::super::super::o; }";
    let source = Source::new("one/two.rs".to_owned(), code);
    assert_eq!(
        source.paths().collect::<Vec<_>>(),
        ["a", "a::E", "a::b::C", "a::b::D", "g::h", "j::K", "o", "one::l", "one::n"]
    );
}

#[test]
fn methods_and_their_calls_are_found() {
    let code =
        "struct A;\nimpl<T: B<C>> D<T> {\n    fn e() {}\n}\nimpl F for D { fn g() {} }\nfn h() { i.j().k::<L>().m; }";
    let source = Source::new("one.rs".to_owned(), code);
    assert_eq!(source.types().collect::<Vec<_>>(), ["A"]);
    assert_eq!(source.functions().collect::<Vec<_>>(), ["e", "g", "h"]);
    assert_eq!(source.methods(), [("D", "e")]);
    assert_eq!(source.calls().into_iter().collect::<Vec<_>>(), ["j", "k"]);
}

#[test]
fn comments_and_strings_are_removed() {
    let code = without_comments("a /* crate::b */ '\\'' '\"' \"crate::c \\\" crate::d\" // crate::e\n<'f> g");
    assert_eq!(code, "a  '' '' \"\" \n<'f> g");
}

#[test]
fn code_for_tests_is_removed() {
    let mut modules = Vec::new();
    let code = "a\n#[cfg(all(test, b))]\n#[c]\nmod d { use crate::k; { } }\n#[cfg(not(test))]\ne;\n#[cfg(test)]\npub(crate) mod f;\n\
                #[cfg(doc)]\nuse crate::g::{H, I};\nj";
    let kept = without_tests(code, |module| modules.push(module.to_owned()));
    assert_eq!(kept.split_whitespace().collect::<Vec<_>>(), ["a", "#[cfg(not(test))]", "e;", "j"]);
    assert_eq!(modules, ["f"]);
}
