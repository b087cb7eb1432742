//! Real searches for sizes, short ones.

use std::process::Command;

use crate::common::procs::{Mark, eventually};
use crate::common::{json_file, pipespeed, run_alone, start};
use rustix::process::Signal;
use serde_json::Value;

/// A search of one pair of sizes, its record and what was printed.
fn of_one_pair(options: &str, buffer: &str, pipe: &str) -> (Value, String) {
    let directory = tempfile::tempdir().unwrap();
    let mut command = pipespeed(&format!(
        "bench sizes --quick {options} --buffer-size {buffer} --pipe-size {pipe} \
         --seed 3 --json r.json --csv r.csv --chart r.svg"
    ));
    command.current_dir(&directory);
    let outcome = run_alone(command).succeeded();
    let csv = std::fs::read_to_string(directory.path().join("r.csv")).unwrap();
    assert!(csv.lines().next().unwrap().ends_with(",search_stage"));
    assert!(csv.lines().skip(1).any(|row| row.ends_with(",0")), "{csv}");
    let svg = std::fs::read_to_string(directory.path().join("r.svg")).unwrap();
    assert!(svg.contains("found best"));
    (json_file(&directory.path().join("r.json")), outcome.out)
}

/// The panels of this machine, but those that are refused.
fn panels() -> Vec<String> {
    let listed = run_alone(pipespeed("bench sizes --list")).succeeded();
    let rows = listed.out.lines().filter(|row| !row.contains("refused"));
    rows.filter_map(|row| Some(row.split_whitespace().next()?.to_owned()))
        .collect()
}

#[test]
fn the_command_line_printed_runs_and_does_what_was_measured() {
    let taskset = Command::new("taskset").arg("--version").output();
    if taskset.is_err() {
        eprintln!("skipped: there is no taskset here");
        return;
    }
    let (record, _) = of_one_pair("--time 10", "8K", "32K");
    let searched = record["search"]["panels"].as_array().unwrap();
    let searched = searched.iter().filter(|panel| panel["refused"].is_null());
    assert_eq!(searched.clone().count(), panels().len());
    for found in searched {
        assert_eq!(found["winner"]["buffer_bytes"], 8192);
        let line = found["command"].as_str().unwrap();

        let program = env!("CARGO_BIN_EXE_pipespeed");
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
        let technique = found["writer"].as_str().unwrap();
        let reading = found["reader"].as_str().unwrap();
        for said in [
            &format!("write: {technique}, "),
            " x 8KiB buffer",
            "pipe of 32KiB",
            &format!("read: {reading}, 8KiB buffer"),
        ] {
            assert!(outcome.err.contains(said), "{said}: {outcome:#?}");
        }
        ran_where_the_trials_ran(&line, found);
    }
}

/// Runs a command line for longer than it takes to look at the processors that
/// its ends may use.
#[track_caller]
fn ran_where_the_trials_ran(line: &str, found: &Value) {
    let mut shell = Command::new("sh");
    shell.args([
        "-c",
        &line.replace("--bytes-to-pipe 1M", "--bytes-to-pipe 100T"),
    ]);
    let mark = Mark::on(&mut shell);
    let _running = start(shell);
    for (end, cpu) in [("write", "writer_cpu"), ("read", "reader_cpu")] {
        let program = format!("{} {end} ", env!("CARGO_BIN_EXE_pipespeed"));
        let pid = eventually(|| {
            let mut all = mark.processes().into_iter();
            // Not the shell, whose command line has both.
            all.find_map(|(pid, words)| words.starts_with(&program).then_some(pid))
        });
        let status = format!("/proc/{}/status", pid.unwrap().as_raw_pid());
        let status = std::fs::read_to_string(status).unwrap();
        let allowed = status
            .lines()
            .find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
        assert_eq!(
            allowed.unwrap().trim(),
            found[cpu].to_string(),
            "{end}: {line}"
        );
    }
}

#[test]
fn a_pipe_size_is_named_as_the_kernel_rounded_it_which_is_said_once() {
    let options = format!("--time 4 --case {}", panels()[0]);
    let (record, printed) = of_one_pair(&options, "8K", "100K");
    let panel = &record["search"]["panels"][0];
    assert_eq!(panel["winner"]["pipe_bytes"], 131_072);
    let name = panel["winner_case"].as_str().unwrap();
    assert!(name.ends_with("_8k_pipe_128k"), "{name}");
    assert_eq!(record["search"]["pipes"][0], 131_072);
    assert_eq!(record["settings"]["pipe_size"], 131_072);
    assert_eq!(printed.matches("100KiB").count(), 1, "{printed}");
    let listed = run_alone(pipespeed("bench --list --pipe-size 100K")).succeeded();
    assert!(listed.out.contains("(pipe 128KiB)"), "{listed:#?}");
    // Of the panel's places only.
    let relation = record["settings"]["cpu_relation"].as_str().unwrap();
    assert_eq!(relation, panel["cpu_relation"].as_str().unwrap());
}

#[test]
fn the_record_has_the_search_and_the_rounds_after_it() {
    let panel = &panels()[0];
    let options = format!("--time 4 --case {panel}");
    let (record, printed) = of_one_pair(&options, "16K", "64K");
    assert_eq!(record["suite"], "sizes");
    let search = &record["search"];
    assert_eq!(search["seed"], 3);
    assert_eq!(search["stages"][0]["cells"], 1);
    let cell = &search["panels"][0]["cells"][0];
    let trials = cell["trials"].as_array().unwrap();
    let stage = &search["stages"][0];
    assert_eq!(stage["trials_each"].as_u64(), Some(trials.len() as u64));
    assert!(
        trials
            .iter()
            .all(|trial| trial["gib_per_s"].as_f64() > Some(0.0))
    );
    let cases = record["cases"].as_array().unwrap();
    let names: Vec<&str> = cases.iter().filter_map(|c| c["name"].as_str()).collect();
    let won = format!("{panel}_16k_pipe_64k");
    assert_eq!(names[names.len() - 1], won);
    let case = &cases[names.len() - 1];
    assert_eq!(case["configuration"]["pipe_bytes"], 65_536);
    assert_eq!(case["configuration"]["buffer_bytes"], 16_384);
    assert_eq!(case["compared_with"], search["panels"][0]["published_case"]);
    // As many as there was time for.
    let rounds = &record["settings"]["rounds_done"];
    assert!(rounds.as_u64() >= Some(1));
    assert_eq!(rounds, &record["settings"]["rounds_planned"]);
    assert!(printed.contains("Searched: 1 pair of sizes"), "{printed}");
    let line = search["panels"][0]["command"].as_str().unwrap();
    let first = line.split(" | ").next().unwrap();
    assert!(printed.contains(first), "{printed}");
}

#[test]
fn a_search_that_is_interrupted_keeps_and_shows_what_it_found() {
    let directory = tempfile::tempdir().unwrap();
    let panel = &panels()[0];
    let mut command = pipespeed(&format!(
        "bench sizes --time 12 --case {panel} --pipe-size 64K --json run.json"
    ));
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
    let tried = cells.iter().filter(|cell| cell["median"].is_f64());
    assert_eq!(tried.count(), 11);
    assert!(
        outcome.out.contains("did not come to its end"),
        "{outcome:#?}"
    );
}

#[test]
fn bad_usage_names_the_option_and_the_way_out() {
    // Whole seconds suffice, and less than what is said does not.
    let lines = run_alone(pipespeed("bench sizes --no-save --time 3")).refused(2, &["--time 3: "]);
    let needed = lines.err.split(" of measuring take ").nth(1).unwrap();
    let needed: f64 = needed.split(" s: ").next().unwrap().parse().unwrap();
    assert!(needed > 3.0, "{lines:#?}");
    for (options, words) in [
        ("--data touch", &["--data", "bench touched"][..]),
        ("--work 2", &["--work", "touched"]),
        ("--time 1", &["--time 1", "--case", "--buffer-size"]),
        ("--buffer-size 100", &["--buffer-size", "4096"]),
        ("--case nothing", &["--case nothing", "write_read_same"]),
        ("--channel pipe", &["--channel", "bench channels"]),
    ] {
        let command = pipespeed(&format!("bench sizes --no-save {options}"));
        run_alone(command).refused(2, words);
    }
}
