//! The comparison as JSON.

use serde_json::{Map, Value, json};

use super::comparison::{Comparison, Row};
use super::setting::Setting;

/// Returns a JSON object with all comparisons.
pub fn json(comparisons: &[Comparison]) -> String {
    let all: Vec<Value> = comparisons.iter().map(comparison).collect();
    format!("{:#}\n", json!({ "comparisons": all }))
}

fn comparison(comparison: &Comparison) -> Value {
    let peers = comparison.peers.iter().map(|(peer, identity)| (peer.name().to_owned(), identity.as_str().into()));
    json!({
        "setting": comparison.setting.to_string(),
        "counts_instructions": comparison.setting == Setting::Instructions,
        "host": comparison.host,
        "peers": peers.collect::<Map<_, _>>(),
        "rows": comparison.rows.iter().map(|each| row(each, comparison)).collect::<Vec<_>>(),
    })
}

fn row(row: &Row, comparison: &Comparison) -> Value {
    let results = row.results.iter().map(|(peer, samples)| {
        let value = json!({
            "median": samples.median(),
            "least": samples.least(),
            "greatest": samples.greatest(),
            "all": samples.all(),
        });
        (peer.name().to_owned(), value)
    });
    let ratios =
        comparison.peers.iter().filter_map(|(peer, _)| Some((peer.name().to_owned(), row.ratio(*peer)?.into())));
    json!({
        "name": row.name,
        "kind": row.kind().title(),
        "procs": row.procs,
        "unit": row.unit,
        "results": results.collect::<Map<_, _>>(),
        "ratios": ratios.collect::<Map<_, _>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::comparison::tests::example;

    #[test]
    fn all_results_and_ratios_are_in_the_object() {
        let parsed: Value = serde_json::from_str(&json(&[example()])).expect("JSON");
        let comparison = &parsed["comparisons"][0];
        assert_eq!(comparison["setting"], "--native");
        assert_eq!(comparison["host"], "a computer");
        assert_eq!(comparison["peers"]["ours"], "gmp-sched <0.1>");
        let row = &comparison["rows"][0];
        assert_eq!((&row["name"], &row["procs"], &row["unit"]), (&json!("yield"), &json!(1), &json!("ns/op")));
        assert_eq!(row["kind"], "operations");
        assert_eq!(
            row["results"]["ours"],
            json!({"median": 20.0, "least": 10.0, "greatest": 30.0, "all": [10.0, 30.0]})
        );
        assert_eq!(row["ratios"], json!({"go": 5.0}));
    }
}
