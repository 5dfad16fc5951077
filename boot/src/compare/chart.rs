//! The comparison as a chart in SVG. Each row has a bar for each peer, which shows the peer's ratio on a logarithmic
//! scale. If a bar points to the right, the peer takes longer than our scheduler.

use core::fmt::Write as _;

use super::comparison::{Comparison, Row};
use super::setting::Peer;
use super::table;

const WIDTH: f64 = 860.0;
/// The x coordinates at which the names of the workloads end, and at which the scale begins and ends.
const NAMES_END: f64 = 210.0;
const SCALE_BEGIN: f64 = 220.0;
const SCALE_END: f64 = 800.0;
const BAR: f64 = 13.0;
const GAP: f64 = 7.0;
const HEAD: f64 = 62.0;

/// The fonts, and the colours of the text, the lines, the line for a ratio of 1, and the bars of each peer. There are
/// colours for a light and for a dark theme.
const STYLE: &str = "\
text{font:13px system-ui,sans-serif;fill:#222}.title{font-weight:bold;font-size:15px}.value{font-size:11px}\
.grid{stroke:#ddd}.one{stroke:#555}.go{fill:#0a7ea4}.tokio{fill:#b0413e}.may{fill:#7a5aa6}.threads{fill:#8a8a8a}\
.crossbeam{fill:#4f8a3c}.flume{fill:#b07d12}.paper{fill:#fff}\
@media(prefers-color-scheme:dark){text{fill:#ddd}.grid{stroke:#333}.one{stroke:#bbb}.paper{fill:#111}\
.go{fill:#3fb6dd}.tokio{fill:#e07a77}.may{fill:#ab8fd6}.threads{fill:#aaa}\
.crossbeam{fill:#84c26f}.flume{fill:#e0b24f}}";

/// Returns a chart with a part for each comparison that has ratios.
pub fn svg(comparisons: &[Comparison]) -> String {
    let mut body = String::new();
    let mut height = GAP;
    for comparison in comparisons {
        height = draw(comparison, height, &mut body);
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\">\n<title>How many times as long as ours each peer takes</title>\n<style>{STYLE}</style>\n\
         <rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>\n{body}</svg>\n"
    )
}

/// A logarithmic scale. Its beginning is ten to the power `least`, and its end is ten to the power `greatest`.
struct Scale {
    least: f64,
    greatest: f64,
}

impl Scale {
    /// Makes a scale that begins and ends at a power of ten, and that includes all `ratios`, 1 and 10.
    fn new(ratios: impl Iterator<Item = f64>) -> Self {
        let (least, greatest) =
            ratios.fold((1.0_f64, 1.0_f64), |(least, most), each| (least.min(each), most.max(each)));
        Self { least: least.log10().floor(), greatest: greatest.log10().ceil().max(1.0) }
    }

    fn x(&self, ratio: f64) -> f64 {
        let share = (ratio.log10() - self.least) / (self.greatest - self.least);
        SCALE_BEGIN + share * (SCALE_END - SCALE_BEGIN)
    }

    /// Returns the powers of ten on the scale, its beginning and end included.
    fn ticks(&self) -> impl Iterator<Item = f64> {
        (self.least as i32..=self.greatest as i32).map(|power| 10_f64.powi(power))
    }
}

/// Draws those rows of a comparison that have ratios, from `top` downwards. Returns the y coordinate at which the
/// drawing ends.
fn draw(comparison: &Comparison, top: f64, svg: &mut String) -> f64 {
    let peers: Vec<Peer> = comparison.peers.iter().map(|(peer, _)| *peer).filter(|&peer| peer != Peer::Ours).collect();
    let ratios = |row: &Row| peers.iter().filter_map(|&peer| Some((peer, row.ratio(peer)?))).collect::<Vec<_>>();
    let rows: Vec<(&Row, Vec<(Peer, f64)>)> =
        comparison.rows.iter().map(|row| (row, ratios(row))).filter(|(_, ratios)| !ratios.is_empty()).collect();
    if rows.is_empty() {
        return top;
    }
    let scale = Scale::new(rows.iter().flat_map(|(_, ratios)| ratios).map(|(_, ratio)| *ratio));
    label(svg, "title", GAP, top + 18.0, "start", &format!("{}: cost, relative to ours", comparison.setting.title()));
    for (index, peer) in peers.iter().enumerate() {
        let x = SCALE_BEGIN + 90.0 * index as f64;
        bar(svg, *peer, x, top + 28.0, 12.0);
        label(svg, "value", x + 17.0, top + 38.0, "start", peer.name());
    }
    let heights = rows.iter().map(|(_, ratios)| BAR * ratios.len() as f64 + GAP);
    let bottom = top + HEAD + heights.sum::<f64>();
    for tick in scale.ticks() {
        let (x, class) = (scale.x(tick), if tick == 1.0 { "one" } else { "grid" });
        write(
            svg,
            &format!(
                "<line class=\"{class}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{bottom:.1}\"/>",
                top + HEAD - 6.0
            ),
        );
        label(svg, "value", x, top + HEAD - 10.0, "middle", &format!("{tick}"));
    }
    let mut y = top + HEAD;
    for (row, ratios) in rows {
        let middle = y + BAR * ratios.len() as f64 / 2.0 + 4.0;
        label(svg, "name", NAMES_END, middle, "end", &format!("{}, Ps: {}", row.name, row.procs));
        for (peer, ratio) in ratios {
            let (one, x) = (scale.x(1.0), scale.x(ratio));
            bar(svg, peer, one.min(x), y, (x - one).abs().max(1.0));
            label(svg, "value", one.max(x) + 4.0, y + BAR - 3.0, "start", &table::ratio(ratio));
            y += BAR;
        }
        y += GAP;
    }
    bottom + 2.0 * GAP
}

fn bar(svg: &mut String, peer: Peer, x: f64, y: f64, width: f64) {
    let (class, height) = (peer.name(), BAR - 2.0);
    write(
        svg,
        &format!("<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height}\"/>"),
    );
}

fn label(svg: &mut String, class: &str, x: f64, y: f64, anchor: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    write(svg, &format!("<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"));
}

fn write(svg: &mut String, element: &str) {
    writeln!(svg, "{element}").expect("a string has room");
}

#[cfg(test)]
mod tests {
    use roxmltree::Document;

    use super::*;
    use crate::compare::comparison::tests::example;

    /// Returns the values of an attribute of a peer's bars.
    fn bars(document: &Document<'_>, peer: &str, attribute: &str) -> Vec<f64> {
        let bars = document.descendants().filter(|node| node.attribute("class") == Some(peer));
        // The first element of this class belongs to the legend, and is no bar.
        bars.skip(1).map(|bar| bar.attribute(attribute).and_then(|text| text.parse().ok()).expect("a number")).collect()
    }

    #[test]
    fn bars_have_the_lengths_of_the_ratios() {
        let svg = svg(&[example()]);
        let document = Document::parse(&svg).expect("XML");
        assert_eq!(document.root_element().tag_name().name(), "svg");
        // The scale has two decades, from 0.1 to 10.
        let decade = (SCALE_END - SCALE_BEGIN) / 2.0;
        let widths = bars(&document, "go", "width");
        for (width, ratio) in widths.iter().zip([5.0_f64, 0.5]) {
            assert!((width - decade * ratio.log10().abs()).abs() < 0.1, "{width} for {ratio}");
        }
        let ends: Vec<f64> = bars(&document, "go", "x").iter().zip(&widths).map(|(x, width)| x + width).collect();
        // If a peer takes less time than our scheduler, its bar ends at the line for a ratio of 1.
        assert!((ends[1] - (SCALE_BEGIN + decade)).abs() < 0.2, "{ends:?}");
        assert_eq!((widths.len(), bars(&document, "tokio", "width").len()), (2, 1));
    }

    #[test]
    fn text_of_a_workload_is_escaped() {
        let mut comparison = example();
        comparison.rows[0].name = "a<b&c".to_owned();
        let svg = svg(&[comparison]);
        let document = Document::parse(&svg).expect("XML");
        assert!(document.descendants().any(|node| node.text() == Some("a<b&c, Ps: 1")));
    }

    #[test]
    fn comparison_without_ratios_is_left_out() {
        let mut comparison = example();
        comparison.peers.retain(|(peer, _)| *peer == Peer::Ours);
        let svg = svg(&[comparison]);
        assert_eq!(
            Document::parse(&svg).expect("XML").descendants().filter(|node| node.has_tag_name("text")).count(),
            0
        );
    }
}
