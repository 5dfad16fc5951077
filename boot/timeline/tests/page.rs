//! Tests the page in a browser without a window. If Chromium is not found, the tests are ignored. The environment
//! variable `GMP_CHROMIUM` can name another browser.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use gmp_sched::native::{self, go};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use serde_json::Value;
use timeline::Trace;
use timeline::model::{Activity, Model};

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chromium-headless-shell"];

fn browser() -> Option<OsString> {
    let in_path = |name: &&str| -> Option<PathBuf> {
        env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(name)).find(|file| file.is_file())
    };
    env::var_os("GMP_CHROMIUM").or_else(|| NAMES.iter().find_map(in_path).map(PathBuf::into_os_string))
}

fn main() -> ExitCode {
    let trial = ["light", "dark"].map(|theme| {
        Trial::ignorable_test(format!("page_shows_what_the_model_says_in_{theme}"), move || match browser() {
            Some(browser) => page_agrees(&browser, theme).map(|()| Completion::Completed),
            None => Ok(Completion::ignored_with("there is no Chromium")),
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trial.into()).exit_code()
}

/// Returns the trace of a program on two Ps.
fn traced() -> Trace {
    // SAFETY: no G uses a thread-local variable.
    let traces = unsafe { native::enter() }.run_with(2, |scheduler| {
        scheduler.start_trace(100_000).expect("memory");
        let (sender, receiver) = native::channel(2);
        let sending = native::Builder::new().name("producer").go(move || {
            for number in 0..500 {
                sender.send(number).expect("main receives");
                if number % 100 == 0 {
                    native::blocking(|| std::thread::sleep(Duration::from_micros(50)));
                }
            }
        });
        let yielding = go(|| (0..100).for_each(|_| native::yield_now()));
        assert_eq!(receiver.iter().count(), 500);
        sending.join().expect("no G panics");
        yielding.join().expect("no G panics");
        scheduler.stop_trace();
        scheduler.traces()
    });
    Trace::of_processors(traces)
}

fn page_agrees(browser: &OsString, theme: &str) -> Result<(), Failed> {
    let trace = traced();
    let directory = tempfile::tempdir()?;
    let [_, page] = timeline::write(&trace, &directory.path().join("run"))?;
    let shown = checked(browser, &page, &format!("check=produ&theme={theme}&event=200"))?;
    let model = Model::of(&trace);
    let is_run = |activity| matches!(activity, Activity::Run(_));
    // One P may have run all Gs. The page then shows the other P without a slice.
    let mut runs = vec![0u64; trace.processors() as usize];
    for slice in model.slices.iter().filter(|slice| is_run(slice.activity)) {
        runs[slice.processor as usize] += 1;
    }
    assert_eq!(shown["perProcessor"], Value::from(runs), "slices");
    assert_eq!(shown["arrows"], Value::from(model.arrows.len()), "arrows");
    assert_eq!(shown["wrongArrows"], 0, "arrows end where Gs run");
    assert_eq!(shown["differences"], 0, "stepping leads to the same states");
    assert!(shown["found"][0].as_str().is_some_and(|label| label.ends_with("producer")), "search: {shown}");
    assert!(shown["pictures"].as_u64() > Some(0), "the picture of a moment has Gs");
    let waits = checked(browser, &page, &format!("check=&theme={theme}&tab=waits"))?;
    assert!(waits["rows"].as_u64() > Some(0), "the table of waits has rows");
    Ok(())
}

/// Opens the page at this fragment of its address. Returns the result of the function `check` of `main.js`.
fn checked(browser: &OsString, page: &Path, fragment: &str) -> Result<Value, Failed> {
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=10000", "--dump-dom"])
        .arg(format!("file://{}#{fragment}", page.display()))
        .stderr(Stdio::null())
        .output()?;
    let page = String::from_utf8(output.stdout)?;
    let (_, rest) = page.split_once("<pre id=\"checked\">").ok_or("the page has not finished its check")?;
    let (json, _) = rest.split_once("</pre>").ok_or("the check has an end")?;
    Ok(serde_json::from_str(json)?)
}
