//! Pictures of traces.

use timeline::Trace;
use timeline::model::{Activity, ArrowKind, Model};
use timeline::picture::{Rows, Theme, View, svg};

use super::{mixed_traces, trace_of_an_overflow, traced};

const ARROWS: &[ArrowKind] =
    &[ArrowKind::Ready, ArrowKind::Device, ArrowKind::Steal, ArrowKind::Timer, ArrowKind::HandOff];

fn view(trace: &Trace, rows: Rows) -> View<'static> {
    View { title: "a < b & c", period: (0, trace.duration()), rows, arrows: ARROWS }
}

#[test]
fn picture_shows_each_p_and_all_that_fits() {
    for trace in mixed_traces().take(3).chain([trace_of_an_overflow()]) {
        let picture = svg(&trace, view(&trace, Rows::Processors), Theme::Light);
        (0..trace.processors()).for_each(|number| assert!(picture.contains(&format!(">P{number}</text>"))));
        assert!(picture.contains("<title>a &lt; b &amp; c</title>") && picture.ends_with("</svg>\n"));
        assert_eq!(picture, svg(&trace, view(&trace, Rows::Processors), Theme::Light));
        let machines = svg(&trace, view(&trace, Rows::Machines), Theme::Dark);
        assert!(machines.contains(">M0</text>") && !machines.contains("NaN"));
    }
}

#[test]
fn picture_of_nothing_is_empty() {
    let trace = Trace::default();
    for rows in [Rows::Processors, Rows::Machines] {
        assert!(svg(&trace, view(&trace, rows), Theme::Dark).ends_with("</svg>\n"));
    }
    let trace = traced(super::Config::default(), || ());
    let after = View { period: (trace.duration() + 1, trace.duration() + 1), ..view(&trace, Rows::Processors) };
    assert!(!svg(&trace, after, Theme::Light).contains("NaN"));
}

/// If a G that returns from a system call takes the P first, the handoff has no arrow.
#[test]
fn arrow_of_a_handoff_leads_to_the_next_g_on_the_p() {
    for trace in mixed_traces() {
        let model = Model::of(&trace);
        for arrow in model.arrows.iter().filter(|arrow| arrow.kind == ArrowKind::HandOff) {
            let between = model.slices.iter().find(|slice| {
                let is_there = slice.processor == arrow.to.1 && slice.from > arrow.from.0 && slice.to < arrow.to.0;
                is_there && matches!(slice.activity, Activity::Run(_))
            });
            assert_eq!(between, None, "{arrow:?}");
        }
    }
}
