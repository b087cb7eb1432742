//! Real runs of `bench touched`, short ones: the search for the best plain write.

use crate::common::{json_file, run_in, says};
use serde_json::Value;

/// The record of a run of one round, and what was printed.
fn short(options: &str) -> (Value, String) {
    let directory = tempfile::tempdir().unwrap();
    let outcome = run_in(
        &directory,
        &format!("bench touched --rounds 1 --verbose --json r.json {options}"),
    )
    .succeeded();
    (
        json_file(&directory.path().join("r.json")),
        outcome.out + &outcome.err,
    )
}

#[test]
fn the_best_plain_write_is_searched_and_measured() {
    let (record, printed) = short("--case fastpipe_fresh");
    let panel = &record["search"]["panels"][0];
    assert_eq!(panel["case"], "write_read_best");
    assert_eq!(record["search"]["panels"].as_array().unwrap().len(), 1);
    let cells = panel["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 4 * 3);
    let best = &panel["best"];
    assert_eq!(best["case"], "write_read_best");
    assert_eq!(best["command"], Value::Null);
    let rated = |cell: &&Value| cell["finals"].as_array().is_some_and(|it| !it.is_empty());
    let highest = cells.iter().filter(rated).max_by(|a, b| {
        let [a, b] = [a, b].map(|cell| cell["median"].as_f64().unwrap());
        a.total_cmp(&b)
    });
    assert_eq!(highest.unwrap()["sizes"], best["sizes"]);

    let cases = record["cases"].as_array().unwrap();
    let names: Vec<&str> = cases.iter().filter_map(|it| it["name"].as_str()).collect();
    let expected = ["write_read_best", "write_read_best_again", "fastpipe_fresh"];
    assert_eq!(names, expected);
    for case in &cases[..2] {
        let configuration = &case["configuration"];
        assert_eq!(configuration["pipe_bytes"], best["sizes"]["pipe_bytes"]);
        assert_eq!(configuration["buffer_bytes"], best["sizes"]["buffer_bytes"]);
        assert_eq!(configuration["wait"], "block");
        assert_eq!(case["samples"].as_array().unwrap().len(), 1);
    }
    assert_eq!(cases[2]["compared_with"], "write_read_best");
    says(
        &printed,
        &[
            "after a search through",
            "write_read_best is the best of",
            "Searched: ",
        ],
    );
}
