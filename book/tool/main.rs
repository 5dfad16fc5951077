//! The command `cargo book`: makes the book, shows its runs, and writes the outputs of commands into its chapters.
#![forbid(unsafe_code)]

mod assemble;
mod chapters;
mod experiments;
mod figures;
mod include;
mod links;
mod outputs;
mod pages;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::OnceLock;

use clap::{Parser, Subcommand};
use labs::error;

use crate::chapters::Chapters;
use crate::error::{Error, Result};
use crate::experiments::Experiment;
use crate::outputs::Extent;

/// Makes the book, for a browser and without a network: target/book/html/index.html.
#[derive(Debug, Parser)]
#[command(name = "cargo book", bin_name = "cargo book", version, max_term_width = 100)]
#[command(
    after_help = "Exit status: 0; 1 if an output or a figure is not that of its command; 64 for all other errors"
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Order>,
}

#[derive(Debug, Subcommand)]
enum Order {
    /// List the runs that the chapters show
    List,
    /// Print what a run prints
    Run {
        /// The name of the run
        name: String,
        /// Also write the timeline of the run to FILE.html
        #[arg(long, value_name = "FILE")]
        trace: Option<PathBuf>,
    },
    /// Draw the figures for slides: docs/pictures/*.svg
    Figures {
        /// Write nothing; say which figures are not those of their runs
        #[arg(long)]
        check: bool,
    },
    /// Run the commands whose outputs the chapters show, and write what they print into the chapters
    Outputs {
        /// Write nothing; say which outputs are not those of their commands
        #[arg(long)]
        check: bool,
        /// Only the commands that contain this text
        #[arg(default_value = "")]
        filter: String,
    },
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(64) } else { ExitCode::SUCCESS };
        }
    };
    match obey(cli.command.as_ref(), root()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("book: {error}");
            ExitCode::from(64)
        }
    }
}

/// The workspace in which cargo runs this command. The one in which it was compiled may be another, if both share a target
/// directory.
fn root() -> &'static Path {
    static PACKAGE: OnceLock<OsString> = OnceLock::new();
    let package = PACKAGE
        .get_or_init(|| std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into()));
    Path::new(package).parent().expect("the crate is in a workspace")
}

/// Performs a command in the workspace at `root`. Returns whether all that it checks is right.
fn obey(order: Option<&Order>, root: &Path) -> Result<bool> {
    match order {
        None => build(root)?,
        Some(Order::List) => Experiment::all().iter().for_each(|one| println!("{:<16} {}", one.name, one.shows)),
        Some(Order::Run { name, trace }) => {
            let (text, traced) = Experiment::find(name)?.perform();
            print!("{text}");
            if let Some(file) = trace {
                let traced = traced.ok_or_else(|| Error::new(format!("the run {name} has no timeline")))?;
                let [json, page] =
                    timeline::write(&traced, file).map_err(|error| Error::file("write", file, &error))?;
                eprintln!("book: {} and {}", page.display(), json.display());
            }
        }
        Some(Order::Figures { check }) => return figures::refresh(root, *check),
        Some(Order::Outputs { check, filter }) => {
            let chapters = Chapters::read(root)?;
            return outputs::refresh(root, &chapters, &Extent::Commands(filter.clone()), *check);
        }
    }
    Ok(true)
}

/// Makes the book. Only the last step needs mdBook.
fn build(root: &Path) -> Result<()> {
    let folder = root.join("target/book");
    assemble::assemble(root, &folder.join("src"))?;
    let status = Command::new("mdbook").arg("build").arg(root.join("book")).status().map_err(|error| {
        Error::new(format!(
            "cannot run mdbook: {error}; `./setup --book` installs it, and book/src/SUMMARY.md can be read without it"
        ))
    })?;
    if !status.success() {
        return Err(Error::new("mdbook has failed"));
    }
    println!("{}", folder.join("html/index.html").display());
    Ok(())
}

#[cfg(test)]
#[path = "../../labs/src/documented.rs"]
mod documented;

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::{Cli, Experiment, Order, documented};

    #[test]
    fn documents_show_commands_that_are_accepted() {
        documented::check("cargo book", |words| {
            if let Some(Order::Run { name, .. }) = Cli::try_parse_from(["book"].iter().chain(words))?.command {
                assert!(name == "NAME" || Experiment::find(&name).is_ok(), "there is no run {name}");
            }
            Ok(())
        });
    }
}
