//! Tests the page in a browser without a window. If there is no browser, the tests are ignored, or fail if the
//! environment variable `GMP_BROWSER_REQUIRED` is set. The environment variable `GMP_CHROMIUM` can name a browser.

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use tempfile::TempDir;
use timeline::Trace;

mod agreement;
mod book;
mod browser;
mod control;
#[path = "../shared/generated.rs"]
mod generated;
mod live;
mod million;
mod overview;
mod programs;
mod rows;
mod violation;

use browser::Browser;

/// A test, with the theme of the page.
type Test = fn(&mut Browser, &str) -> Result<(), Failed>;

const LIGHT: &[&str] = &["light"];
const DARK: &[&str] = &["dark"];
const BOTH: &[&str] = &["light", "dark"];

const TESTS: [(&str, Test, &[&str]); 19] = [
    ("periods_arrows_and_interrupts_are_those_of_the_model", agreement::periods_and_arrows, LIGHT),
    ("arrows_are_drawn_between_the_rows_of_the_model", agreement::drawn_arrows, DARK),
    ("longest_waits_and_histogram_are_those_of_the_model", agreement::waits_and_latencies, LIGHT),
    ("queues_at_each_moment_are_those_of_a_replay", agreement::moments, DARK),
    ("search_finds_gs_by_number_name_and_function", control::search, LIGHT),
    ("pointer_shows_why_a_g_waited_and_who_readied_it", control::hover, DARK),
    ("path_of_the_chosen_g_is_drawn", control::path, BOTH),
    ("keys_do_what_the_help_says", control::keys, LIGHT),
    ("text_is_readable_on_a_projector", control::appearance, BOTH),
    ("million_events_of_a_thousand_gs_take_little_memory_and_time", million::events_of_a_thousand_gs, LIGHT),
    ("million_events_of_many_gs_take_little_memory_and_time", million::events_of_many_gs, DARK),
    ("rows_that_do_not_fit_are_scrolled", rows::are_scrolled, BOTH),
    ("summary_has_the_sums_of_the_model", overview::summary, LIGHT),
    ("events_are_explained_by_the_queues_around_them", overview::explanation, LIGHT),
    ("short_gaps_show_what_a_sleepy_program_does", overview::gaps, DARK),
    ("marks_are_shown_on_the_axis", overview::marks, DARK),
    ("live_page_of_httpd_shows_what_the_events_say", live::events, BOTH),
    ("page_begins_with_the_violated_rule", violation::is_shown_first, BOTH),
    (OF_THE_BOOK, book::pages, BOTH),
];

/// This test needs what `cargo book` makes, so it is ignored unless the environment variable `GMP_BOOK_REQUIRED` is set.
const OF_THE_BOOK: &str = "pages_of_the_book_fit_a_phone_and_lead_somewhere";

fn main() -> ExitCode {
    let trials = TESTS.iter().flat_map(|&(name, test, themes)| themes.iter().map(move |&theme| (name, test, theme)));
    let trials = trials.map(|(name, test, theme)| {
        Trial::ignorable_test(format!("{name}_in_{theme}"), move || match browser::find() {
            Some(program) => test(&mut Browser::start(&program)?, theme).map(|()| Completion::Completed),
            None if env::var_os("GMP_BROWSER_REQUIRED").is_some() => {
                Err("there is no browser: run ./setup --browser, or let GMP_CHROMIUM name one".into())
            }
            None => Ok(Completion::ignored_with("there is no browser: run ./setup --browser")),
        })
        .with_ignored_flag(name == OF_THE_BOOK && env::var_os("GMP_BOOK_REQUIRED").is_none())
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

/// Writes the page of a trace. The page is deleted with the directory.
fn page_of(trace: &Trace) -> Result<(TempDir, PathBuf), Failed> {
    // The address of a file with such a name has escapes.
    let directory = tempfile::Builder::new().prefix("a %41#b?,{c}").tempdir()?;
    let [_, page] = timeline::write(trace, &directory.path().join("run"))?;
    Ok((directory, page))
}
