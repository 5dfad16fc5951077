//! The figures for slides: parts of the traces of runs, as pictures in `docs/pictures`, for a light and for a dark
//! background.

use std::fs;
use std::path::{Path, PathBuf};

use timeline::model::ArrowKind;
use timeline::picture::{self, Rows, Theme, View};

use crate::error::{Error, Result};
use crate::experiments::Experiment;

/// A figure: a part of the trace of a run.
#[derive(Debug)]
struct Figure {
    name: &'static str,
    run: &'static str,
    view: View<'static>,
}

/// The figure `name` shows the first `until` microseconds of `run`.
const fn figure([name, run, title]: [&'static str; 3], until: u64, rows: Rows, arrows: &'static [ArrowKind]) -> Figure {
    Figure { name, run, view: View { title, period: (0, until * 1_000), rows, arrows } }
}

const FIGURES: &[Figure] = &[
    figure(
        [
            "steal",
            "stealing",
            "One P has a long queue. Another one searches, and steals half of it, and so do the others.",
        ],
        6_000,
        Rows::Processors,
        &[ArrowKind::Steal],
    ),
    figure(
        ["hand-off", "hand-off", "A G blocks its M in a call. The P goes to another M, and the next G runs there."],
        3_200,
        Rows::Machines,
        &[ArrowKind::HandOff],
    ),
    figure(
        ["preemption", "slices", "Three Gs compute on one P. At the end of its slice, each goes to the global queue."],
        120_000,
        Rows::Processors,
        &[],
    ),
    figure(
        ["poller", "devices", "Three Gs wait for devices. Each interrupt readies one of them, and one M is enough."],
        1_600,
        Rows::Machines,
        &[ArrowKind::Device],
    ),
    figure(
        [
            "wakeup",
            "wakeup",
            "Main readies three Gs. An M wakes, searches and finds one of them, and wakes the next M.",
        ],
        7_000,
        Rows::Processors,
        &[ArrowKind::Ready],
    ),
];

/// Returns the path and the content of the file of each figure.
fn all() -> Result<Vec<(PathBuf, String)>> {
    let mut files = Vec::new();
    for figure in FIGURES {
        let (_, trace) = Experiment::find(figure.run)?.perform();
        let trace = trace.ok_or_else(|| Error::new(format!("the run {} has no timeline", figure.run)))?;
        for (theme, name) in Theme::ALL {
            let path = Path::new("docs/pictures").join(format!("{}-{name}.svg", figure.name));
            files.push((path, picture::svg(&trace, figure.view, theme)));
        }
    }
    Ok(files)
}

/// Writes the figures that differ from those of their runs. If `check` is set, only prints their names, and returns
/// whether there are none. Otherwise returns true.
pub(crate) fn refresh(root: &Path, check: bool) -> Result<bool> {
    let mut is_right = true;
    for (path, svg) in all()? {
        if fs::read_to_string(root.join(&path)).is_ok_and(|old| old == svg) {
            continue;
        }
        is_right = false;
        if check {
            println!("{} is not what `cargo book figures` writes", path.display());
        } else {
            fs::write(root.join(&path), svg).map_err(|error| Error::file("write", &path, &error))?;
            println!("{} is new", path.display());
        }
    }
    Ok(is_right || !check)
}

#[cfg(test)]
mod tests {
    use super::refresh;
    use crate::root;

    #[test]
    fn figures_are_those_of_the_runs() {
        assert!(refresh(root(), true).unwrap(), "`cargo book figures` writes the figures anew");
    }
}
