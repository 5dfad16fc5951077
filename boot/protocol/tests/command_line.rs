//! Tests of quoting and splitting, with examples and with random words.

use boot_protocol::command_line::{DiskOption, Line, arguments, options, quote, split};
use proptest::prelude::{any, prop_assert_eq, proptest};

fn words(line: &str) -> Vec<String> {
    split(line).map(|word| word.to_string()).collect()
}

#[test]
fn hand_written_lines_are_split_as_by_a_shell() {
    assert_eq!(words(""), [""; 0]);
    assert_eq!(words("   "), [""; 0]);
    assert_eq!(words("  a   b "), ["a", "b"]);
    assert_eq!(words(r#"disk="a b:5" x"#), ["disk=a b:5", "x"]);
    assert_eq!(words(r"a\b"), [r"a\b"], "a backslash is special only inside quotes");
    assert_eq!(words("tab\tand\nnewline"), ["tab\tand\nnewline"]);
}

#[test]
fn unclosed_quote_ends_with_the_line() {
    assert_eq!(words(r#"a "b c"#), ["a", "b c"]);
    assert_eq!(words(r#"a "b\"#), ["a", "b"]);
    assert_eq!(words(r#"""#), [""]);
}

#[test]
fn without_a_separator_all_words_are_options() {
    assert_eq!(options("log=debug procs=4").count(), 2);
    assert_eq!(arguments("log=debug procs=4").count(), 0);
    assert_eq!(arguments("log=debug --").count(), 0);
    assert_eq!(arguments("-- \"\"").count(), 1);
}

#[test]
fn a_quoted_separator_is_a_word() {
    let line = r#"a "--" b -- c"#;
    assert_eq!(options(line).map(|word| word.to_string()).collect::<Vec<_>>(), ["a", "--", "b"]);
}

#[test]
fn only_words_without_quotes_are_borrowed() {
    let plain: Vec<_> = split(r#"plain "quoted""#).map(|word| word.as_plain()).collect();
    assert_eq!(plain, [Some("plain"), None]);
}

proptest! {
    #[test]
    fn a_quoted_word_comes_back(word in any::<String>()) {
        prop_assert_eq!(words(&quote(&word).to_string()), [word]);
    }

    // The words consist of only a few different characters, so that special characters often occur next to each other.
    #[test]
    fn quoted_words_are_split_again(expected in proptest::collection::vec(r#"[ab \\"\-=:]{0,6}"#, 0..6)) {
        let line: Vec<String> = expected.iter().map(|word| quote(word).to_string()).collect();
        prop_assert_eq!(words(&line.join(" ")), expected);
    }

    #[test]
    fn line_splits_into_its_options_and_arguments(
        given_options in proptest::collection::vec(r#"[a-z]{1,4}=[ab \\"\-]{0,5}"#, 0..4),
        given_arguments in proptest::collection::vec(r#"[a\-\\" ]{0,4}"#, 0..4),
    ) {
        let line = Line { options: &given_options, arguments: &given_arguments }.to_string();
        prop_assert_eq!(options(&line).map(|word| word.to_string()).collect::<Vec<_>>(), given_options);
        prop_assert_eq!(arguments(&line).map(|word| word.to_string()).collect::<Vec<_>>(), given_arguments);
    }

    #[test]
    fn unescaped_words_are_never_longer(line in any::<String>()) {
        let needed: usize = split(&line).map(|word| word.to_string().len()).sum();
        assert!(needed <= line.len());
    }

    #[test]
    fn a_disk_option_comes_back(name in any::<String>(), bytes in any::<u64>()) {
        let disk = DiskOption { name: &name, bytes };
        let value = disk.to_string();
        prop_assert_eq!(DiskOption::parse(&value), Some(disk));
    }
}
