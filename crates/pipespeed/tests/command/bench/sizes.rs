//! Real searches for sizes, short ones.

use std::process::Command;

use crate::common::{PIPESPEED, json_file, run_alone, run_in, skip};
use serde_json::Value;

/// A search of one pair of sizes, its record and what was printed. A busy machine needs
/// more of these times until every case has its best sizes, measured again.
fn of_one_pair(times_s: [u32; 3], options: &str, buffer: &str, pipe: &str) -> (Value, String) {
    for time_s in times_s {
        let directory = tempfile::tempdir().unwrap();
        let outcome = run_in(
            &directory,
            &format!(
                "bench sizes --quick {options} --time {time_s} --buffer-size {buffer} \
             --pipe-size {pipe} --seed 3 --json r.json --chart r.svg"
            ),
        );
        let record = json_file(&directory.path().join("r.json"));
        let mut panels = record["search"]["panels"].as_array().unwrap().iter();
        let is_found = panels.all(|panel| panel["best"]["sizes"].is_object());
        if !is_found || record["settings"]["rounds_done"] == 0 {
            continue;
        }
        let out = outcome.succeeded().out;
        let svg = std::fs::read_to_string(directory.path().join("r.svg")).unwrap();
        assert!(svg.contains("not tried"));
        return (record, out);
    }
    panic!("no search is complete");
}

#[test]
fn the_recorded_command_line_does_what_was_measured() {
    let taskset = Command::new("taskset").arg("--version").output();
    if taskset.is_err() {
        skip("there is no taskset here");
        return;
    }
    let (record, _) = of_one_pair([10, 30, 90], "", "8K", "32K");
    let panels = record["search"]["panels"].as_array().unwrap();
    let refused = record["cases"].as_array().unwrap().iter();
    let refused = refused.filter(|case| case["not_run"].is_object());
    assert!(panels.len() + refused.count() >= 6);
    for panel in panels {
        assert_eq!(panel["best"]["sizes"]["buffer_bytes"], 8192);
        let line = panel["best"]["command"].as_str().unwrap();

        let program = PIPESPEED;
        let line = line
            .replace("pipespeed write", &format!("{program} write --verbose"))
            .replace(
                "pipespeed read",
                &format!("{program} read --verbose --bytes-to-pipe 1M"),
            );
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]);
        let outcome = run_alone(shell).succeeded();
        assert!(outcome.out.contains("8KiB buffer"), "{outcome:#?}");
        let technique = panel["configuration"]["writer"].as_str().unwrap();
        let reading = panel["configuration"]["reader"].as_str().unwrap();
        for said in [
            &format!("write: {technique}, "),
            " x 8KiB buffer",
            "pipe of 32KiB",
            &format!("read: {reading}, 8KiB buffer"),
        ] {
            assert!(outcome.err.contains(said), "{said}: {outcome:#?}");
        }
        let cpu = &panel["configuration"]["writer_cpu"];
        assert!(line.starts_with(&format!("taskset -c {cpu} ")), "{line}");
    }
}

#[test]
fn the_record_has_the_search_and_the_rounds_after_it() {
    // The kernel rounds the pipe up, which is said once.
    let (record, printed) = of_one_pair([4, 12, 60], "--case write_read --verbose", "16K", "100K");
    assert_eq!(printed.matches("100KiB").count(), 1, "{printed}");
    assert_eq!(record["settings"]["pipe_size"], 131_072);
    let search = &record["search"];
    assert_eq!(search["pipes"][0], 131_072);
    let panel = &search["panels"][0];
    for stage in ["grid", "finals"] {
        let rates = panel["cells"][0][stage].as_array().unwrap();
        assert!(!rates.is_empty() && rates.iter().all(|rate| rate.as_f64() > Some(0.0)));
    }
    let best = "write_read_16k_pipe_128k";
    assert_eq!(panel["best"]["case"], best);
    let cases = record["cases"].as_array().unwrap();
    let case = cases.iter().find(|case| case["name"] == best).unwrap();
    assert_eq!(case["configuration"]["pipe_bytes"], 131_072);
    assert_eq!(case["configuration"]["buffer_bytes"], 16_384);
    assert_eq!(case["compared_with"], "write_read");
    let rounds = &record["settings"]["rounds_done"];
    assert!(rounds.as_u64() >= Some(1));
    assert_eq!(rounds, &record["settings"]["rounds_planned"]);
    assert!(printed.contains("Searched: 1 pair of sizes"), "{printed}");
    let first = panel["best"]["command"].as_str().unwrap();
    let first = first.split(" | ").next().unwrap();
    let confirmed = printed.contains("Confirmed.");
    assert_eq!(printed.contains(first), confirmed, "{printed}");
}
