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

const US: u64 = 1_000;

const FIGURES: &[Figure] = &[
    Figure {
        name: "steal",
        run: "stealing",
        view: View {
            title: "One P has a queue of 45 Gs. Another one searches, and steals half of it, and so do the others.",
            period: (0, 6_000 * US),
            rows: Rows::Processors,
            arrows: &[ArrowKind::Steal],
        },
    },
    Figure {
        name: "hand-off",
        run: "hand-off",
        view: View {
            title: "A G blocks its M in a call. The P goes to another M, and the next G runs there.",
            period: (0, 3_200 * US),
            rows: Rows::Machines,
            arrows: &[ArrowKind::HandOff],
        },
    },
    Figure {
        name: "preemption",
        run: "slices",
        view: View {
            title: "Three Gs compute on one P. At the end of its slice, each goes to the global queue.",
            period: (0, 120_000 * US),
            rows: Rows::Processors,
            arrows: &[],
        },
    },
    Figure {
        name: "poller",
        run: "devices",
        view: View {
            title: "Three Gs wait for devices. Each interrupt readies one of them, and one M is enough.",
            period: (0, 1_600 * US),
            rows: Rows::Machines,
            arrows: &[ArrowKind::Device],
        },
    },
    Figure {
        name: "wakeup",
        run: "wakeup",
        view: View {
            title: "Main readies three Gs. An M wakes, searches and finds one of them, and wakes the next M.",
            period: (0, 7_000 * US),
            rows: Rows::Processors,
            arrows: &[ArrowKind::Ready],
        },
    },
];

/// Returns each figure: the path of its file in the tree, and what is in it.
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

/// Writes the figures anew, or with `check`, prints which are not those of their runs. Returns whether all were right.
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
