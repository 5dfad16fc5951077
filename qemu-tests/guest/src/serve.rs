//! The work of the test program: it lists its tests, or runs the tests that the host names.

use boot_protocol::report::{Report, SERVE};
use kernel::prelude::*;

use crate::registry::{SEPARATOR, tests};

pub(crate) fn main(arguments: &[&str]) -> Result<i32, String> {
    match arguments {
        [] => list(),
        [SERVE] => serve()?,
        names => {
            let mut names = names.iter().take_while(|&&name| name != SEPARATOR);
            // The first test that fails ends the run, as a panic would.
            return Ok(if names.all(|name| run(name)) { 0 } else { 1 });
        }
    }
    Ok(0)
}

fn list() {
    for test in tests() {
        println!("{}", test.plan());
    }
}

/// Runs the tests that the host names on the console, until the console's input ends.
fn serve() -> Result<(), String> {
    let mut names = stdin().lines();
    loop {
        println!("{}", Report::Ready);
        let Some(name) = names.next() else { return Ok(()) };
        let name = name.map_err(|error| format!("cannot read the console: {error}"))?;
        run(name.trim());
    }
}

/// Runs the test of this name, and returns whether it passed.
fn run(name: &str) -> bool {
    let Some(test) = tests().iter().find(|test| test.plan().name == name) else {
        println!("{}", Report::Unknown(name));
        return false;
    };
    println!("{}", Report::Started(name));
    let result = test.run();
    if let Err(error) = &result {
        println!("error: {error}");
    }
    println!("{}", if result.is_ok() { Report::Passed(name) } else { Report::Failed(name) });
    result.is_ok()
}
