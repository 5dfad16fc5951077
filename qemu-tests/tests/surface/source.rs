//! Reads the functions of a crate from its source.
//!
//! This module works on tokens, not on a syntax tree, because many public functions are defined in macros. Any sequence
//! of tokens like `pub fn name` counts as a function. Code that is compiled only for tests is left out. The kernel
//! crate has two *halves*: its source as compiled for the machine, and as compiled for the host. [`Half`] chooses one
//! of them, or all code, which includes code for loom and ThreadSanitizer.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::mem;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use crate::condition::compiled;
use crate::paths::{calls, collect_paths};

/// Who can call a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Visibility {
    /// Other crates can call it, because it is `pub` or belongs to a `pub` trait. The lint `unreachable_pub` forbids
    /// `pub` for items that no other crate can reach.
    Public,
    /// Only the same crate can call it.
    Crate,
    /// It is in an `impl` of a trait for a type, and can be called wherever the trait and the type can be used.
    Trait,
}

/// A named function, or the declaration of one in a trait.
#[derive(Debug)]
pub(crate) struct Function {
    /// The modules that contain the function, the outermost first.
    pub(crate) module: Vec<String>,
    /// The type of the `impl` that contains the function, or the trait that declares it.
    pub(crate) owner: Option<String>,
    /// The trait of the `impl` that contains the function.
    pub(crate) of_trait: Option<String>,
    pub(crate) name: String,
    pub(crate) visibility: Visibility,
    pub(crate) is_unsafe: bool,
    pub(crate) has_self: bool,
    /// The words of the function's signature and body, without its name and without attributes.
    pub(crate) words: Vec<String>,
}

/// The numbers of uses of `unsafe`, by kind.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Unsafe {
    pub(crate) blocks: usize,
    pub(crate) functions: usize,
    /// `unsafe impl`, `unsafe trait` and `unsafe extern` blocks.
    pub(crate) promises: usize,
}

/// Which code of a crate is read. The halves have neither code for loom nor code for ThreadSanitizer.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Half {
    /// The code that is compiled with `--cfg gmp_machine`.
    #[default]
    Machine,
    /// The code that is compiled without `--cfg gmp_machine`.
    Host,
    /// All code except that for tests and documentation.
    Both,
}

/// The declarations of one crate.
#[derive(Default, Debug)]
pub(crate) struct Crate {
    half: Half,
    pub(crate) functions: Vec<Function>,
    /// The names of types and traits. The value is true if a type or trait of this name is public.
    pub(crate) types: BTreeMap<String, bool>,
    /// The aliases. For `type A = B` and for `use B as A`, the key is `A`, and the value contains the words of `B`. For
    /// a path in a `use` item, the value contains only its last word.
    pub(crate) aliases: BTreeMap<String, Vec<String>>,
    /// For each module, the names of the types and traits that it defines.
    pub(crate) types_in: BTreeMap<Vec<String>, BTreeSet<String>>,
    /// For each module, the names that its `use` items mention.
    pub(crate) imports: BTreeMap<Vec<String>, BTreeSet<String>>,
    /// For each module with a file of its own, the uses of `unsafe` in this file, if there are any.
    pub(crate) unsafe_code: BTreeMap<String, Unsafe>,
    /// For each module with a file of its own, the paths in this file that begin with `crate::` or `super::`, from the
    /// root of the crate and without `crate::`.
    pub(crate) paths: BTreeMap<String, BTreeSet<String>>,
    /// For each module with a file of its own, the names of the methods that are called with a dot, on any type.
    pub(crate) calls: BTreeMap<String, BTreeSet<String>>,
    /// The folder of the file that is being read. The attribute `path` of a module is relative to it.
    folder: PathBuf,
}

impl Crate {
    /// Reads a crate, beginning with its root file.
    pub(crate) fn read(root: &Path, half: Half) -> Self {
        let mut read = Self { half, ..Self::default() };
        read.file(root, &[]);
        read
    }

    /// Reads source text as if it were the module `module`. Used by the tests of the functions that read source.
    pub(crate) fn parse(text: &str, module: &str) -> Self {
        let mut read = Self::default();
        read.text(text, &module.split("::").map(str::to_string).collect::<Vec<_>>(), None);
        read
    }

    fn file(&mut self, file: &Path, module: &[String]) {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let folder = file.parent().expect("a file is in a folder");
        let stem = file.file_stem().expect("a file has a name");
        let children = if stem == "lib" || stem == "mod" { folder.to_path_buf() } else { folder.join(stem) };
        let outer = mem::replace(&mut self.folder, folder.to_path_buf());
        self.text(&text, module, Some(&children));
        self.folder = outer;
    }

    fn text(&mut self, text: &str, module: &[String], children: Option<&Path>) {
        let stream = TokenStream::from_str(text).unwrap_or_else(|error| panic!("{}: {error}", module.join("::")));
        let tokens = compiled(stream, self.half);
        let mut words = Vec::new();
        flatten(&tokens, &mut words);
        let count = count_unsafe(&words);
        let name = if module.is_empty() { "lib".into() } else { module.join("::") };
        if count != Unsafe::default() {
            self.unsafe_code.insert(name.clone(), count);
        }
        self.calls.entry(name.clone()).or_default().extend(calls(&words));
        collect_paths(&tokens, module, self.paths.entry(name).or_default());
        let context = Context { module: module.to_vec(), owner: None, of_trait: None, in_trait: None };
        self.items(&tokens, &context, children);
    }

    fn items(&mut self, tokens: &[TokenTree], context: &Context, children: Option<&Path>) {
        let mut visibility = Visibility::Crate;
        let mut is_unsafe = false;
        let mut file = None;
        let mut at = 0;
        while at < tokens.len() {
            let rest = &tokens[at..];
            at += 1;
            match word(&rest[0]).as_str() {
                "pub" => {
                    let restricted = rest.get(1).is_some_and(|next| is_group(next, Delimiter::Parenthesis));
                    at += usize::from(restricted);
                    visibility = if restricted { Visibility::Crate } else { Visibility::Public };
                    continue;
                }
                "unsafe" => {
                    is_unsafe = true;
                    continue;
                }
                "const" | "async" | "extern" if precedes_function(&rest[1..]) => continue,
                "fn" if rest.get(1).is_some_and(is_ident) => {
                    let end = end_of_item(rest);
                    self.function(&rest[1..end], context, visibility, is_unsafe);
                    at += end - 1;
                }
                "impl" => {
                    at += self.implementation(rest, context, children) - 1;
                }
                "trait" => {
                    at += self.trait_definition(rest, context, visibility, children) - 1;
                }
                "mod" => {
                    self.module(rest, context, file.take(), children);
                    at += 2;
                }
                "struct" | "enum" | "union" if rest.get(1).is_some_and(is_ident) => {
                    self.note_type(&word(&rest[1]), visibility == Visibility::Public, context);
                    at += end_of_item(rest) - 1;
                }
                "type" if rest.get(1).is_some_and(is_ident) => {
                    let end = rest.iter().position(|token| word(token) == ";").unwrap_or(rest.len());
                    let mut words = Vec::new();
                    flatten(&rest[2..end], &mut words);
                    self.aliases.insert(word(&rest[1]), words);
                    at += end - 1;
                }
                "use" => {
                    let end = rest.iter().position(|token| word(token) == ";").unwrap_or(rest.len());
                    self.imports(&rest[1..end], context);
                    at += end - 1;
                }
                path if path.ends_with(".rs\"") => {
                    file = Some(path.trim_matches('"').to_string());
                    continue;
                }
                _ => {
                    // This group is, for example, the body of a macro or the arguments of a macro call.
                    if let TokenTree::Group(group) = &rest[0] {
                        self.items(&inside(group), context, None);
                    }
                }
            }
            (visibility, is_unsafe) = (Visibility::Crate, false);
        }
    }

    /// Reads the `impl` at the beginning of `tokens`. Returns the number of its tokens.
    fn implementation(&mut self, tokens: &[TokenTree], context: &Context, children: Option<&Path>) -> usize {
        let end = end_of_item(tokens);
        if let Some(TokenTree::Group(body)) = tokens.get(end - 1) {
            let (of_trait, owner) = heads(&tokens[1..end - 1]);
            let context = Context { owner, of_trait, in_trait: None, ..context.clone() };
            self.items(&inside(body), &context, children);
        }
        end
    }

    /// Reads the trait at the beginning of `tokens`. Returns the number of its tokens.
    fn trait_definition(
        &mut self,
        tokens: &[TokenTree],
        context: &Context,
        visibility: Visibility,
        children: Option<&Path>,
    ) -> usize {
        let (name, is_public) = (word(&tokens[1]), visibility == Visibility::Public);
        self.note_type(&name, is_public, context);
        let end = end_of_item(tokens);
        if let Some(TokenTree::Group(body)) = tokens.get(end - 1) {
            let context = Context { owner: Some(name), of_trait: None, in_trait: Some(is_public), ..context.clone() };
            self.items(&inside(body), &context, children);
        }
        end
    }

    /// Reads the module at the beginning of `tokens`. `file` is the file with its body, if an attribute `path` names
    /// that file.
    fn module(&mut self, tokens: &[TokenTree], context: &Context, file: Option<String>, children: Option<&Path>) {
        let name = word(&tokens[1]);
        let module: Vec<_> = context.module.iter().cloned().chain([name.clone()]).collect();
        let file = file.map(|file| self.folder.join(file));
        let children = children.map(|folder| folder.join(&name));
        if let Some(TokenTree::Group(body)) = tokens.get(2) {
            let context = Context { module, ..context.clone() };
            self.items(&inside(body), &context, children.as_deref());
        } else if let Some(folder) = children {
            self.file(&file.unwrap_or_else(|| file_of_module(&folder)), &module);
        }
    }

    fn function(&mut self, tokens: &[TokenTree], context: &Context, visibility: Visibility, is_unsafe: bool) {
        let mut words = Vec::new();
        flatten(tokens, &mut words);
        let parameters = tokens.iter().find_map(|token| match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis => Some(group.stream().to_string()),
            _ => None,
        });
        let first = parameters.unwrap_or_default().split(',').next().unwrap_or_default().to_string();
        let visibility = match (context.in_trait, &context.of_trait) {
            (Some(true), _) => Visibility::Public,
            (Some(false), _) => Visibility::Crate,
            (None, Some(_)) => Visibility::Trait,
            (None, None) => visibility,
        };
        self.functions.push(Function {
            module: context.module.clone(),
            owner: context.owner.clone(),
            of_trait: context.of_trait.clone(),
            name: word(&tokens[0]),
            visibility,
            is_unsafe,
            has_self: first.split(|c: char| !c.is_alphanumeric() && c != '_').any(|part| part == "self"),
            words: words[1..].to_vec(),
        });
    }

    fn note_type(&mut self, name: &str, is_public: bool, context: &Context) {
        *self.types.entry(name.to_string()).or_default() |= is_public;
        self.types_in.entry(context.module.clone()).or_default().insert(name.to_string());
    }

    fn imports(&mut self, tokens: &[TokenTree], context: &Context) {
        let mut words = Vec::new();
        flatten(tokens, &mut words);
        for triple in words.windows(3) {
            if triple[1] == "as" {
                self.aliases.insert(triple[2].clone(), vec![triple[0].clone()]);
            }
        }
        self.imports.entry(context.module.clone()).or_default().extend(words);
    }
}

/// Where an item is declared.
#[derive(Clone)]
struct Context {
    module: Vec<String>,
    owner: Option<String>,
    of_trait: Option<String>,
    /// If the item is in the declaration of a trait, whether that trait is public. Otherwise `None`.
    in_trait: Option<bool>,
}

fn file_of_module(folder: &Path) -> PathBuf {
    let file = folder.with_extension("rs");
    if file.exists() { file } else { folder.join("mod.rs") }
}

pub(crate) fn inside(group: &Group) -> Vec<TokenTree> {
    group.stream().into_iter().collect()
}

pub(crate) fn is_ident(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Ident(_))
}

pub(crate) fn is_group(token: &TokenTree, delimiter: Delimiter) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == delimiter)
}

/// Returns the text of a token, which is empty for a group.
pub(crate) fn word(token: &TokenTree) -> String {
    match token {
        TokenTree::Group(_) => String::new(),
        other => other.to_string(),
    }
}

/// Returns whether `tokens` begin with `fn`, or with qualifiers of a function and then `fn`.
fn precedes_function(tokens: &[TokenTree]) -> bool {
    tokens
        .iter()
        .find(|token| {
            !matches!(word(token).as_str(), "const" | "async" | "unsafe" | "extern")
                && !matches!(token, TokenTree::Literal(_))
        })
        .is_some_and(|token| word(token) == "fn")
}

/// Returns the number of tokens of an item up to its body or semicolon, inclusive.
fn end_of_item(tokens: &[TokenTree]) -> usize {
    let end = tokens.iter().position(|token| is_group(token, Delimiter::Brace) || word(token) == ";");
    end.map_or(tokens.len(), |end| end + 1)
}

/// Returns the names of the trait (if there is one) and of the type of an `impl`, without their paths. `tokens` are
/// those between `impl` and its body.
fn heads(tokens: &[TokenTree]) -> (Option<String>, Option<String>) {
    let (mut of_trait, mut name, mut depth) = (None, None, 0_i32);
    for (index, token) in tokens.iter().enumerate() {
        let text = word(token);
        match text.as_str() {
            "<" => depth += 1,
            ">" if index > 0 && matches!(word(&tokens[index - 1]).as_str(), "-" | "=") => {}
            ">" => depth -= 1,
            _ if depth > 0 => {}
            "for" if tokens.get(index + 1).is_none_or(|next| word(next) != "<") => of_trait = name.take(),
            "where" => break,
            "dyn" | "mut" => {}
            _ if is_ident(token) => match index.checked_sub(1).map(|before| word(&tokens[before])).as_deref() {
                Some("'") => {}
                // This is a parameter of a macro.
                Some("$") => name = Some(format!("${text}")),
                _ => name = Some(text),
            },
            _ => {}
        }
    }
    (of_trait, name)
}

/// Appends the tokens as words, including the brackets of groups.
fn flatten(tokens: &[TokenTree], words: &mut Vec<String>) {
    for token in tokens {
        let TokenTree::Group(group) = token else {
            words.push(token.to_string());
            continue;
        };
        let (open, close) = match group.delimiter() {
            Delimiter::Parenthesis => ("(", ")"),
            Delimiter::Brace => ("{", "}"),
            Delimiter::Bracket => ("[", "]"),
            Delimiter::None => ("", ""),
        };
        words.push(open.into());
        flatten(&inside(group), words);
        words.push(close.into());
    }
}

fn count_unsafe(words: &[String]) -> Unsafe {
    let mut count = Unsafe::default();
    for (at, _) in words.iter().enumerate().filter(|(_, word)| *word == "unsafe") {
        let next = |ahead: usize| words.get(at + ahead).map_or("", String::as_str);
        match next(1) {
            "{" => count.blocks += 1,
            "impl" | "trait" => count.promises += 1,
            // A function type has no name and is not counted.
            "fn" => count.functions += usize::from(next(2) != "("),
            "extern" if next(3) == "fn" => count.functions += usize::from(next(4) != "("),
            "extern" => count.promises += 1,
            _ => {}
        }
    }
    count
}
