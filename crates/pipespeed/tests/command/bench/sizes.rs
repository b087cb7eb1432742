//! Real searches for sizes, short ones.

use std::process::Command;

use crate::common::procs::{Mark, eventually};
use crate::common::{PIPESPEED, json_file, pipespeed, run_alone, skip, start, usage_errors};
use rustix::process::Signal;
use serde_json::Value;

/// A search of one pair of sizes, its record and what was printed.
fn of_one_pair(options: &str, buffer: &str, pipe: &str) -> (Value, String) {
    let directory = tempfile::tempdir().unwrap();
    let mut command = pipespeed(&format!(
        "bench sizes --quick {options} --buffer-size {buffer} --pipe-size {pipe} \
         --seed 3 --json r.json --chart r.svg"
    ));
    command.current_dir(&directory);
    let outcome = run_alone(command).succeeded();
    let svg = std::fs::read_to_string(directory.path().join("r.svg")).unwrap();
    assert!(svg.contains("not tried"));
    (json_file(&directory.path().join("r.json")), outcome.out)
}

#[test]
fn the_recorded_command_line_does_what_was_measured() {
    let taskset = Command::new("taskset").arg("--version").output();
    if taskset.is_err() {
        skip("there is no taskset here");
        return;
    }
    // A busy machine needs more time to find the best sizes.
    let searched = [10, 20, 40].map(|time_s| format!("--time {time_s}"));
    let records = searched.iter().map(|time| of_one_pair(time, "8K", "32K").0);
    let is_complete = |record: &Value| {
        let mut panels = record["search"]["panels"].as_array().unwrap().iter();
        panels.all(|panel| panel["best"].is_object())
    };
    let record = { records }
        .find(is_complete)
        .expect("no search is complete");
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
    let (record, printed) = of_one_pair("--time 4 --case write_read --verbose", "16K", "100K");
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

#[test]
fn an_interrupted_search_keeps_and_shows_what_it_found() {
    let directory = tempfile::tempdir().unwrap();
    let mut command =
        pipespeed("bench sizes --time 30 --case write_read --pipe-size 64K --json run.json");
    command.current_dir(&directory);
    let mark = Mark::on(&mut command);
    let running = start(command);
    let path = directory.path().join("run.json");
    eventually(|| path.exists().then_some(())).unwrap();
    running.send(Signal::INT);
    let outcome = running.finish();
    mark.nobody_left();
    assert_eq!(outcome.code, Some(130), "{outcome:#?}");
    let record = json_file(&path);
    assert_eq!(record["interrupted"], "SIGINT");
    let cells = record["search"]["panels"][0]["cells"].as_array().unwrap();
    assert!(cells.iter().all(|cell| cell["median"].is_f64()));
    assert!(outcome.out.contains("not completed"), "{outcome:#?}");
}

#[test]
fn bad_usage_names_the_option_and_the_way_out() {
    let all_args = [
        "--data touch",
        "--work 2",
        "--case nothing",
        "--channel pipe",
    ];
    // These depend on the limit of pipes and the size of a page.
    let sizes = |options: &str| run_alone(pipespeed(&format!("bench sizes --no-save {options}")));
    sizes("--time 3").refused(2, &["--time 3", "--case", "--buffer-size"]);
    sizes("--buffer-size 100").refused(2, &["--buffer-size", "multiple of"]);
    insta::assert_snapshot!(usage_errors(
        all_args.map(|args| format!("bench sizes --no-save {args}"))
    ));
}
