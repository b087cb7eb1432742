//! Which processes are a stage, and what is counted for it.

use serde_json::Value;

use super::*;
use crate::common::run_alone;
use crate::profile::number;

/// grep(1) stops at its first match where its output is /dev/null.
#[test]
fn what_the_last_stage_reads_does_not_depend_on_where_its_output_goes() {
    if !can_sample() {
        return;
    }
    let pipeline = profiled("--time 100", "yes | head -c 64M | grep y");
    let stages = pipeline["stages"].as_array().unwrap();
    assert_ended(&stages[1], "exited", 0);
    assert_ended(&stages[2], "exited", 0);
}

#[test]
fn each_stages_costs_add_up_and_its_bytes_are_counted() {
    if !can_sample() {
        return;
    }
    let pipeline = profiled("--time 100", "yes | head -c 1G | cat > /dev/null");
    assert_adds_up(&pipeline);
    assert_eq!(commands(&pipeline), ["yes", "head -c 1G", "cat"]);
    let stages = pipeline["stages"].as_array().unwrap();
    // Some are not seen at the end, on a busy machine many.
    let passed = &stages[2]["taken_bytes"];
    let expected = (1_u64 << 30) as f64;
    let is_near = passed.is_null() || (number(passed) / expected - 1.0).abs() < 0.15;
    assert!(is_near, "{passed}");
    assert_eq!(stages[0]["taken_bytes"], Value::Null);
    assert_ended(&stages[0], "signal", 13);
    assert_ended(&stages[1], "exited", 0);
    assert_eq!(pipeline["status"]["exited"], 0);
    let neighbours = ["reads_from", "writes_to"];
    assert_eq!(
        neighbours.map(|key| &stages[0][key]),
        [&Value::Null, &2.into()]
    );
    assert_eq!(neighbours.map(|key| &stages[1][key]), [1, 3]);
    assert_eq!(
        neighbours.map(|key| &stages[2][key]),
        [&2.into(), &Value::Null]
    );
    for stage in stages {
        assert!(stage["samples"].as_u64().unwrap() > 0, "{stage:#}");
    }
    assert_eq!(pipeline["out_of_time"], false);
    for missing in ["lost", "throttled"] {
        assert!(pipeline[missing].is_u64(), "{pipeline:#}");
        assert_eq!(stages[0][missing], Value::Null);
    }
}

#[test]
fn any_command_line_is_profiled() {
    if !can_sample() {
        return;
    }
    let of = |text: &str| {
        let pipeline = profiled("--time 100", text);
        assert_adds_up(&pipeline);
        pipeline
    };
    let long = "head -c 900M /dev/zero | tail -c 1";
    // Two pipelines in a list, with a here-document.
    let pipeline = of(&format!(
        "cat << E > /dev/null\n'|\nE\n{long} && {long} | wc -c; true"
    ));
    let found = commands(&pipeline);
    // On a busy machine wc ends before its arguments are read.
    for expected in ["head -c 900M /dev/zero (2 times)", "tail -c 1", "wc"] {
        let mut found = found.iter();
        assert!(
            found.any(|command| command.starts_with(expected)),
            "{expected}: {pipeline:#}"
        );
    }
    // Equal pipelines of a loop are one.
    let pipeline = of(&format!("for i in 1 2 3; do {long}; done"));
    let expected = ["head -c 900M /dev/zero (3 times)", "tail -c 1 (3 times)"];
    assert_eq!(commands(&pipeline), expected, "{pipeline:#}");
    // So are equal programs of a loop that last.
    let pipeline = of("for i in 1 2 3; do head -c 800M /dev/zero; done | cat");
    // On a busy machine one may not be seen, or not as the same.
    let found = commands(&pipeline);
    let (last, heads) = found.split_last().unwrap();
    let is_head = |command: &&str| command.starts_with("head -c 800M /dev/zero");
    assert!(*last == "cat" && heads.len() < 3, "{pipeline:#}");
    assert!(heads.iter().all(is_head), "{pipeline:#}");
    let stages = &pipeline["stages"].as_array().unwrap()[..heads.len()];
    let given = stages.iter().map(|stage| stage["given_bytes"].as_f64());
    let given: Option<f64> = given.sum();
    assert!(given.is_none_or(|given| given > 2.0e9), "{pipeline:#}");
    // Without pipes there is one stage.
    let pipeline = of("dd if=/dev/zero of=/dev/null bs=64k count=20000 2> /dev/null && true");
    assert_eq!(pipeline["stages"].as_array().unwrap().len(), 1);
    assert_eq!(pipeline["other"], Value::Null);
}

/// Each lives for a few milliseconds.
#[test]
fn short_lived_processes_count_as_their_shells_stage() {
    if !can_sample() {
        return;
    }
    let text = "while :; do env true; done | cat";
    let pipeline = profiled("--time 2", text);
    assert_adds_up(&pipeline);
    let [shell, cat] = &pipeline["stages"].as_array().unwrap()[..] else {
        panic!("{pipeline:#}");
    };
    // On a busy machine each process lives long enough to be seen. Then these are the stage, not the shell.
    if shell["command"].as_str().unwrap().contains("times)") {
        return skip("a busy machine sees each process");
    }
    assert!(
        number(&shell["samples"]) > 20.0 * number(&cat["samples"]),
        "{pipeline:#}"
    );
    assert_eq!(shell["writes_to"], 2, "{pipeline:#}");
    // Most of its running time is that of processes that were not seen; getrusage(2) has all.
    let all = number(&pipeline["cpu_s"]);
    let shown = number(&shell["cpu_s"]);
    assert!(
        (shown / all - 1.0).abs() < 0.2,
        "{shown} of {all}: {pipeline:#}"
    );
}

#[test]
fn child_processes_count_as_their_stage() {
    if !can_sample() {
        return;
    }
    let dd = "dd if=/dev/zero bs=64k count=12000 2>/dev/null";
    let command = profile("--json -", &format!("sh -c '{dd}; {dd}; :' | cat"));
    let pipeline = pipeline_of(&run_alone(command).succeeded());
    assert_adds_up(&pipeline);
    let first = &pipeline["stages"][0];
    let reads_zeros = |stack: &Value| {
        let mut frames = stack["frames"].as_array().unwrap().iter();
        frames.any(|frame| frame == "anon_pipe_write" || frame == "pipe_write")
    };
    // The shell itself writes nothing.
    let stacks = first["stacks"].as_array().unwrap();
    assert!(stacks.iter().any(reads_zeros), "{first:#}");
    let given = &first["given_bytes"];
    if given.is_null() {
        return skip("a busy machine sees too little of each dd");
    }
    let whole = 2.0 * 12000.0 * 65536.0;
    assert!((number(given) / whole - 1.0).abs() < 0.15, "{first:#}");
}

/// The first phase, of 38 ms, is sampled and the second is not.
#[test]
fn children_that_start_in_phase_without_sampling_are_sampled_later() {
    if !can_sample() {
        return;
    }
    let dd = "dd if=/dev/zero bs=64k count=20000 2>/dev/null";
    for delay in ["0.05", "0.06"] {
        assert_sampled(&format!("sh -c 'sleep {delay}; {dd}; :'"));
    }
}

#[test]
fn children_of_orphans_are_sampled_too() {
    if !can_sample() {
        return;
    }
    // The parent of the inner shell lives long enough to be seen, and ends before dd starts.
    let dd = "dd if=/dev/zero bs=64k count=20000 2>/dev/null >&3";
    let orphan = format!("sh -c \"sleep 0.055; {dd}; :\" & sleep 0.03");
    assert_sampled(&format!("sh -c 'exec 3>&1; all=$({orphan}); :'"));
}

/// Checks that the samples of a stage, which keeps a processor busy, fit its processor time.
#[track_caller]
fn assert_sampled(stage: &str) {
    let pipeline = profiled("", &format!("{stage} | cat"));
    assert_adds_up(&pipeline);
    // On a busy machine a child may live long enough to be a stage.
    let (_, stages) = pipeline["stages"].as_array().unwrap().split_last().unwrap();
    let sum = |of: fn(&Value) -> &Value| stages.iter().map(|stage| number(of(stage))).sum::<f64>();
    let sampled = sum(|stage| &stage["usage_sampled"]["cpu_s"]);
    assert!(sampled > 0.1 * sum(|stage| &stage["cpu_s"]), "{pipeline:#}");
    let expected = sampled * 1999.0;
    let samples = sum(|stage| &stage["samples"]);
    assert!(samples > expected / 4.0, "{samples} of {expected}");
}

/// Its children read and write hundreds of megabytes in pipes of their own, and the reader reads
/// as much from another file.
#[test]
fn bytes_of_childrens_private_pipes_are_not_a_stages() {
    let text = "seq 40 | xargs -P2 -I{} sh -c 'head -c 20000000 /dev/zero | md5sum' | \
                (head -c 300000000 /dev/zero > /dev/null; exec cat > /dev/null)";
    let pipeline = profiled("--time 100", text);
    let stages = pipeline["stages"].as_array().unwrap();
    let xargs = stages
        .iter()
        .find(|stage| stage["command"].as_str().unwrap().starts_with("xargs"))
        .unwrap_or_else(|| panic!("{pipeline:#}"));
    // 40 lines of a checksum.
    let is_small = |bytes: &Value| bytes.as_u64().is_none_or(|bytes| bytes < 100_000);
    assert!(is_small(&xargs["given_bytes"]), "{xargs:#}");
    assert!(is_small(&xargs["taken_bytes"]), "{xargs:#}");
    // The running time of children after they were last seen is, of which a busy machine hides more.
    let all = number(&pipeline["cpu_s"]);
    assert!(number(&xargs["cpu_s"]) < 0.9 * all, "{pipeline:#}");
    let last = stages
        .iter()
        .find(|stage| stage["command"] == "cat")
        .unwrap_or_else(|| panic!("{pipeline:#}"));
    assert!(is_small(&last["taken_bytes"]), "{last:#}");
    // The private pipes have their own volumes.
    let heads = stages.iter().filter(|stage| {
        stage["command"]
            .as_str()
            .unwrap()
            .starts_with("head -c 20000000")
    });
    let moved: u64 = heads
        .filter_map(|stage| stage["given_bytes"].as_u64())
        .sum();
    assert!(moved < 41 * 20_000_000, "{pipeline:#}");
}
