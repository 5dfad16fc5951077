//! Advice on mistakes that are likely in a first program. The messages of the compiler and the linker show which
//! mistake was made.
//!
//! `boot` gives advice only if no other mistake causes the same message. So most errors are not followed by advice.

use cargo_metadata::diagnostic::{Diagnostic, DiagnosticLevel, DiagnosticSpan};

/// A mistake because of which the build of a program has failed. Each variant is named after the remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    DependOnKernel,
    BeNoStd,
    BeNoMain,
    DeclareMain,
    CorrectSignature,
}

impl Advice {
    /// Returns the advice for a program whose build has failed with these messages of the compiler. Returns `None` if
    /// there is no advice for these messages. `uses_kernel` is `true` if the program uses the crate `kernel`.
    pub(crate) fn find(messages: &[Diagnostic], uses_kernel: bool) -> Option<Self> {
        let errors = || messages.iter().filter(|message| message.level == DiagnosticLevel::Error);
        let has_code = |code: &str| errors().any(|error| code_of(error) == code);
        let is_unlinked = errors().any(|error| error.message.starts_with("linking with "));
        if !uses_kernel {
            return is_unlinked.then_some(Self::DependOnKernel);
        }
        // Both `std` and `kernel` have a panic handler. A program that uses both crates has this error.
        if errors().any(|error| code_of(error) == "E0152" && error.message.contains("`panic_impl`")) {
            return Some(Self::BeNoStd);
        }
        // The compiler looks for the function `main`, and checks its type, only in a crate without `#![no_main]`. So
        // each of these errors shows that `#![no_main]` is missing.
        let needs_std = |error: &Diagnostic| error.message.contains("using `fn main` requires the standard library");
        if has_code("E0580") || has_code("E0601") || errors().any(needs_std) {
            return Some(Self::BeNoMain);
        }
        // The first text is from LLVM's linker, and the second one from GNU's linker.
        let undefined = ["undefined symbol: gmp_program_main", "undefined reference to `gmp_program_main'"];
        if is_unlinked && errors().any(|error| undefined.iter().any(|text| mentions(error, text))) {
            return Some(Self::DeclareMain);
        }
        // The code of `kernel::main!` calls `main` and passes its result to `Termination::report`. If `main` has a
        // wrong type, the code of the macro has a type error.
        let is_of_type = |error: &Diagnostic| ["E0057", "E0061", "E0277", "E0308"].contains(&code_of(error));
        let is_of_call = |error: &Diagnostic| error.spans.iter().any(is_in_main_macro);
        errors().any(|error| is_of_type(error) && is_of_call(error)).then_some(Self::CorrectSignature)
    }

    /// Returns the advice as a sentence.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::DependOnKernel => {
                "the program does not use the crate `kernel`, so it cannot run on the machine; \
                 `cargo run -- new PATH` makes a crate that can"
            }
            Self::BeNoStd => "the machine has no `std`: the program's first line must be `#![no_std]`",
            Self::BeNoMain => {
                "`kernel::main!` replaces Rust's own `main`: the program also needs the line `#![no_main]`"
            }
            Self::DeclareMain => "the program does not declare its `main`: add the line `kernel::main!(main);`",
            Self::CorrectSignature => {
                "`main` must be a `fn main(args: &[&str])` that returns nothing, an `i32` or a `Result`"
            }
        }
    }
}

fn code_of(message: &Diagnostic) -> &str {
    message.code.as_ref().map_or("", |code| &code.code)
}

/// Whether a message, or a note that belongs to it, contains `text`.
fn mentions(message: &Diagnostic, text: &str) -> bool {
    message.message.contains(text) || message.children.iter().any(|child| mentions(child, text))
}

/// Whether `span` is a primary span of a message, and is in code that `kernel::main!` has generated.
fn is_in_main_macro(span: &DiagnosticSpan) -> bool {
    span.is_primary
        && span.expansion.as_ref().is_some_and(|expansion| {
            expansion.macro_decl_name.ends_with("__main!") || is_in_main_macro(&expansion.span)
        })
}
