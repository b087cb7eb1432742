//! Profiles of a user's command, if sampling is allowed.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use super::{is_only_for_root, number};
use crate::common::conditions::{self, ForAll};
use crate::common::procs::{Mark, eventually};
use crate::common::{
    Outcome, PIPESPEED, json, json_file, pipespeed, recorded, run_alone, run_marked, skip,
    start_marked,
};
use rustix::process::Signal;
use serde_json::Value;

/// The command with options and a pipeline.
fn profile(options: &str, pipeline: &str) -> Command {
    let mut command = pipespeed(&format!("profile --quiet {options} --"));
    command.arg(pipeline);
    command
}

/// Whether this process may sample the kernel; a skip if not.
fn can_sample() -> bool {
    let outcome = run_alone(profile("--time 1 --json -", "true")).succeeded();
    let refusal = &json(&outcome.out)["settings"]["refusal"];
    if let Some(reason) = refusal.as_str() {
        skip(reason);
    }
    refusal.is_null()
}

/// The pipeline in the record of a profile.
#[track_caller]
fn profiled(options: &str, pipeline: &str) -> Value {
    recorded(profile(&format!("{options} --json -"), pipeline))["pipeline"].clone()
}

fn pipeline_of(outcome: &Outcome) -> Value {
    let profile: Value = serde_json::from_str(&outcome.out).unwrap();
    profile["pipeline"].clone()
}

/// Checks that each stage's costs add up to its wall time.
#[track_caller]
fn assert_adds_up(pipeline: &Value) {
    for stage in pipeline["stages"].as_array().unwrap() {
        let costs = stage["costs"].as_array().unwrap();
        let sum: f64 = costs.iter().map(|cost| number(&cost["seconds"])).sum();
        let wall = number(&stage["usage"]["wall_s"]);
        assert!(
            (sum / wall - 1.0).abs() < 0.05,
            "{sum} of {wall}: {stage:#}"
        );
    }
}

/// The commands of the stages.
fn commands(pipeline: &Value) -> Vec<&str> {
    let stages = pipeline["stages"].as_array().unwrap();
    let commands = stages.iter().map(|stage| stage["command"].as_str());
    commands.map(Option::unwrap).collect()
}

/// Checks how a stage ended, if the kernel tells (Linux 6.15).
#[track_caller]
fn assert_ended(stage: &Value, how: &str, number: i32) {
    let status = &stage["status"];
    assert!(
        status.is_null() || status[how] == number,
        "{how} {number}: {stage:#}"
    );
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
    // Some are not seen at the end. `head` and `cat` also read a few shared libraries.
    let passed = stages[2]["taken_bytes"].as_u64().unwrap();
    let expected = 1 << 30;
    assert!(
        (expected / 2..expected + (1 << 20)).contains(&passed),
        "{passed}"
    );
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
    let long = "head -c 300M /dev/zero | tail -c 1";
    // Two pipelines in a list, with a here-document.
    let pipeline = of(&format!(
        "cat << E > /dev/null\n'|\nE\n{long} && {long} | wc -c; true"
    ));
    let found = commands(&pipeline);
    // On a busy machine wc ends before its arguments are read.
    for expected in ["head -c 300M /dev/zero (2 times)", "tail -c 1", "wc"] {
        let mut found = found.iter();
        assert!(
            found.any(|command| command.starts_with(expected)),
            "{expected}: {pipeline:#}"
        );
    }
    // Equal pipelines of a loop are one.
    let pipeline = of(&format!("for i in 1 2 3; do {long}; done"));
    let expected = ["head -c 300M /dev/zero (3 times)", "tail -c 1 (3 times)"];
    assert_eq!(commands(&pipeline), expected, "{pipeline:#}");
    // So are equal programs of a loop that last.
    let pipeline = of("for i in 1 2 3; do head -c 200M /dev/zero; done | cat");
    let expected = ["head -c 200M /dev/zero (3 times)", "cat"];
    assert_eq!(commands(&pipeline), expected, "{pipeline:#}");
    let given = number(&pipeline["stages"][0]["given_bytes"]);
    assert!(given > (400 << 20) as f64, "{pipeline:#}");
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
    assert!(
        number(&shell["samples"]) > 20.0 * number(&cat["samples"]),
        "{pipeline:#}"
    );
    assert_eq!(shell["writes_to"], 2, "{pipeline:#}");
    // Most of its running time is that of processes that were not seen; getrusage(2) has all.
    let all = number(&pipeline["cpu_s"]);
    let shown = number(&shell["cpu_s"]);
    assert!((shown / all - 1.0).abs() < 0.2, "{shown} of {all}");
}

#[test]
fn child_processes_count_as_their_stage() {
    if !can_sample() {
        return;
    }
    let dd = "dd if=/dev/zero bs=64k count=2000 2>/dev/null";
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
    // What each moves after it was last looked at is not seen.
    assert!(first["given_bytes"].as_u64().unwrap() > 0, "{first:#}");
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
    let first = &pipeline["stages"][0];
    let sampled = number(&first["usage_sampled"]["cpu_s"]);
    assert!(sampled > 0.1 * number(&first["cpu_s"]), "{first:#}");
    let expected = sampled * 1999.0;
    let samples = number(&first["samples"]);
    assert!(samples > expected / 4.0, "{samples} of {expected}");
}

#[test]
fn a_long_pipeline_is_terminated_with_all_its_processes() {
    if !can_sample() {
        return;
    }
    // Processes that ignore SIGTERM, or whose parent has ended.
    let stubborn = "sh -c 'trap \"\" TERM; (sleep 1000 &) ; while :; do sleep 1000; done'";
    let command = profile(
        "--time 0.3 --json -",
        &format!("yes | {stubborn} | (sleep 1000; true)"),
    );
    let outcome = run_marked(command).succeeded();
    let pipeline = pipeline_of(&outcome);
    assert_eq!(pipeline["out_of_time"], true);
    assert!(number(&pipeline["wall_s"]) >= 0.3);
    assert_adds_up(&pipeline);
}

#[test]
fn an_interrupted_pipeline_is_shown_and_leaves_no_process() {
    if !can_sample() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("profile.json");
    let options = format!("--time 1000 --json {}", path.display());
    for (signal, name) in [
        (Signal::INT, "SIGINT"),
        (Signal::TERM, "SIGTERM"),
        (Signal::QUIT, "SIGQUIT"),
    ] {
        let command = profile(&options, "yes | (cat; sleep 1000) | cat > /dev/null");
        let (running, mark) = start_marked(command);
        let under_way = || {
            let all = mark.processes();
            let is = |name: &str| all.iter().any(|(_, line)| line.trim() == name);
            (is("yes") && is("cat")).then_some(())
        };
        eventually(under_way).unwrap();
        running.send(signal);
        let outcome = running.finish();
        mark.nobody_left();
        let outcome = outcome.failed(128 + signal.as_raw(), &["interrupted by SIG"]);
        let shown = format!("then interrupted by {name}");
        assert!(outcome.out.contains(&shown), "{outcome:#?}");
        assert_eq!(json_file(&path)["interrupted"], name);
        assert!(outcome.out.contains("sum "), "{outcome:#?}");
    }
}

#[test]
fn a_pipeline_keeps_running_when_its_profile_is_killed() {
    if !can_sample() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).unwrap();
    let mut command = profile(
        "--time 1000",
        "cat fifo | (: > second; cat; echo all) | cat > out",
    );
    command.current_dir(&directory);
    let (running, mark) = start_marked(command);
    // Opening succeeds once the first command runs; the files show that the others do.
    let mut input = fs::File::options().write(true).open(&fifo).unwrap();
    let out = directory.path().join("out");
    let second = directory.path().join("second");
    eventually(|| (second.exists() && out.exists()).then_some(())).unwrap();
    running.send(Signal::KILL);
    assert_eq!(running.finish().signal, Some(9));
    std::io::Write::write_all(&mut input, b"still here\n").unwrap();
    drop(input);
    let whole = || (fs::read_to_string(&out).ok()? == "still here\nall\n").then_some(());
    assert!(
        eventually(whole).is_some(),
        "{:?}",
        fs::read_to_string(&out)
    );
    mark.nobody_left();
}

#[test]
fn background_processes_of_a_finished_pipeline_are_ended() {
    if !can_sample() {
        return;
    }
    let mut command = profile("--json -", "(sleep 1000 & true)");
    let mark = Mark::on(&mut command);
    let pipeline = pipeline_of(&run_alone(command).succeeded());
    mark.nobody_left();
    assert_eq!(pipeline["left"], 1, "{pipeline:#}");
}

#[test]
fn the_report_names_stages_and_what_they_wait_for() {
    if !can_sample() {
        return;
    }
    // The first stage never sleeps, and the second never wakes once it has started. On a busy
    // machine its start may take long: in twice the time, that is half the share.
    let words = [
        "1: sh ",
        "2: cat",
        "asleep, waiting for: input (pipe empty)",
        "sum ",
    ];
    let mut seconds = 0.5;
    loop {
        let command = profile(&format!("--time {seconds}"), "(while :; do :; done) | cat");
        let outcome = run_alone(command).succeeded();
        let text = outcome.unwrapped();
        // On a busy machine it waits for a processor longer than it runs.
        let is_named = text.contains("as fast as 1: sh: it")
            && text.contains("runs mostly user code")
            || text.contains("There are too few free processors: 1: sh");
        let missing = words.iter().find(|words| !text.contains(*words));
        if missing.is_none() && is_named {
            break;
        }
        assert!(seconds < 10.0, "{missing:?}: {outcome:#?}");
        seconds *= 2.0;
    }
}

#[test]
fn a_pipeline_that_sleeps_names_what_it_waits_for() {
    if !can_sample() {
        return;
    }
    // On a busy machine the stages may start late.
    let profiled = |pipeline: &str| {
        let times = ["0.5", "1", "2", "4", "8"].into_iter();
        let runs = times.map(|time| {
            let args = format!("--time {time}");
            run_alone(profile(&args, pipeline)).succeeded().unwrapped()
        });
        let mut texts = runs.skip_while(|text| text.contains("No stage was there for half"));
        texts.next().expect("stages that start within 8 s")
    };
    let text = profiled("sleep 1000 | cat | cat");
    for words in ["1: sleep 1000", "waiting for a timer (sleep)."] {
        assert!(text.contains(words), "{words}: {text}");
    }
    for words in ["by turns", "other end"] {
        assert!(!text.contains(words), "{words}: {text}");
    }
    // A background process of a stage holds the pipe open.
    let text = profiled("(sleep 1000 & true) | cat");
    for words in ["1: sleep 1000", "mostly waiting for a timer (sleep)"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn too_few_descriptors_are_reported_at_once() {
    if !can_sample() {
        return;
    }
    // The time that it would wait for processes that can't be ended.
    let wait_time = Duration::from_secs(5);
    let run = |limit: u32| {
        let mut command = Command::new("sh");
        let script = format!(
            "ulimit -n {limit}; exec \"$0\" profile --quiet -- 'true | true | true | true'"
        );
        command.args(["-c", &script, PIPESPEED]);
        let began = Instant::now();
        (run_alone(command), began.elapsed())
    };
    // How many it needs depends on the machine: a ring for each processor.
    for limit in 10..16 {
        // A busy machine may be that slow, but not each time.
        let at_once = (0..10).any(|_| {
            let (outcome, elapsed) = run(limit);
            if limit == 10 || outcome.code != Some(0) {
                outcome.refused(1, &["ulimit -n"]);
            }
            elapsed < wait_time
        });
        assert!(at_once, "{limit}");
    }
}

#[test]
fn a_stopped_stage_ends_by_sigterm() {
    if !can_sample() {
        return;
    }
    let pipeline = "sh -c 'kill -STOP $$; :' | cat";
    let pipeline = profiled("--time 0.3", pipeline);
    // SIGTERM, not SIGKILL a second later.
    assert_ended(&pipeline["stages"][0], "signal", 15);
}

#[test]
fn options_after_quoted_pipeline_are_refused_with_the_way_out() {
    for pipeline in ["yes | head -1", "yes|head"] {
        let mut command = profile("", pipeline);
        command.args(["--time", "3"]);
        let words = [pipeline, "such as --time, go before '--'"];
        run_alone(command).refused(2, &words);
    }
}

#[test]
fn a_command_that_is_missing_or_fails_is_named() {
    if !can_sample() {
        return;
    }
    // The shell prints a message of its own.
    let outcome = run_alone(profile("", "no_such_command_at_all 7")).succeeded();
    let words = "1: no_such_command_at_all 7 exited with status 127, which shells";
    assert!(outcome.unwrapped().contains(words), "{outcome:#?}");
    let command = pipespeed("profile --quiet -- no_such_command_at_all 7");
    run_alone(command).refused(127, &["can't start the command no_such_command_at_all"]);
    // The status of a stage, or before Linux 6.15 that of the command.
    let outcome = run_alone(profile("", "yes | head -c 100M | sh -c 'cat; exit 3'")).succeeded();
    assert!(
        outcome.unwrapped().contains(" exited with status 3."),
        "{outcome:#?}"
    );
    // Several words are a program and its arguments, even with a | in them.
    let mut command = pipespeed("profile --quiet --json - -- sh -c");
    command.arg("test \"$1\" = 'a | b'").arg("sh").arg("a | b");
    let pipeline = pipeline_of(&run_alone(command).succeeded());
    assert_eq!(pipeline["stages"][0]["status"]["exited"], 0, "{pipeline:#}");
}

#[test]
fn empty_command_is_bad_usage_and_the_shell_judges_others() {
    run_alone(profile("", " ")).refused(2, &["command is missing"]);
    if !can_sample() {
        return;
    }
    let outcome = run_alone(profile("", "a 'b | c")).succeeded();
    assert!(
        outcome.out.contains("exited with status 2."),
        "{outcome:#?}"
    );
}

/// Checks that a profile without samples has all that the scheduler knows, and names the reason.
#[track_caller]
fn assert_not_divided(outcome: Outcome, words: &[&str]) {
    let text = outcome.succeeded().unwrapped();
    let rows = [
        "1: sh ",
        "2: cat",
        "running (not divided)",
        "asleep, waiting for: ",
    ];
    let refused = "The running time is not divided into costs: sampling the kernel is refused";
    let verdict = ["The pipeline is as fast as 1: sh", "There are too few"];
    for row in rows.iter().chain([&refused]).chain(words) {
        assert!(text.contains(row), "{row}: {text}");
    }
    assert!(verdict.iter().any(|words| text.contains(words)), "{text}");
    for row in ["user code", "call chains", "samples"] {
        assert!(!text.contains(row), "{row}: {text}");
    }
}

/// A pipeline whose first stage never sleeps.
const BUSY: &str = "(while :; do :; done) | cat";

#[test]
fn ordinary_user_sees_the_stages_and_the_setting_that_refuses() {
    if !is_only_for_root() {
        return;
    }
    let Some(program) = ForAll::new(PIPESPEED) else {
        return;
    };
    let profile = |options: &str, text: &str| {
        let mut command = program.command(&format!("profile --quiet {options} --"));
        command.arg(text);
        command
    };
    let words = ["/proc/sys/kernel/perf_event_paranoid", "CAP_PERFMON"];
    let outcome = run_alone(profile("--no-save --time 2", BUSY));
    assert_not_divided(outcome, &words);
    // The times are the same as in a sampled profile.
    let record = recorded(profile("--json -", COUNTS_ITSELF));
    assert_eq!(record["settings"]["event"], Value::Null);
    assert_own_times(&record["pipeline"]);
    // These files need samples.
    for option in ["--folded -", "--flame -"] {
        run_alone(profile(option, "echo it ran >&2 | cat")).refused(1, &words);
    }
}

#[test]
fn filter_that_refuses_the_call_is_named_with_the_stages() {
    let mut command = profile("--no-save --time 2", BUSY);
    if !conditions::without_call(&mut command, libc::SYS_perf_event_open) {
        return;
    }
    let outcome = run_alone(command);
    // If both refuse, the level is named.
    if outcome.unwrapped().contains("perf_event_paranoid is") {
        return skip("refused without a filter too");
    }
    assert_not_divided(outcome, &["a seccomp filter", "may be the cause"]);
}

/// A shell that counts for half a second or so, and then prints its own running time and time
/// waiting for a processor, in nanoseconds.
const COUNTS_ITSELF: &str = "sh -c 'i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; \
                             read ran waited rest < /proc/$$/schedstat; exit $((ran / 20000000))' | cat";

/// Checks that the first stage of [`COUNTS_ITSELF`] has the running time that it reported, in
/// units of 20 ms, as its exit status.
#[track_caller]
fn assert_own_times(pipeline: &Value) {
    assert_adds_up(pipeline);
    let stage = &pipeline["stages"][0];
    let Some(status) = stage["status"]["exited"].as_i64() else {
        return skip("no exit statuses before Linux 6.15");
    };
    let reported = status as f64 * 0.02;
    let cpu_s = number(&stage["cpu_s"]);
    assert!(
        (cpu_s - reported).abs() < 0.1 * reported + 0.04,
        "{cpu_s} of {reported}: {stage:#}"
    );
    let whole = number(&stage["usage"]["wall_s"]);
    assert_eq!(whole, number(&stage["wall_s"]), "{stage:#}");
    assert!(whole >= 0.9 * cpu_s, "{stage:#}");
    // All processes together, by getrusage(2).
    let all = number(&pipeline["cpu_s"]);
    assert!(all >= 0.9 * cpu_s - 0.02, "{all}: {pipeline:#}");
}

#[test]
fn a_stages_running_time_is_that_of_the_whole_run() {
    let pipeline = profiled("--time 100", COUNTS_ITSELF);
    assert_own_times(&pipeline);
}

/// The phases without sampling are half of it.
#[test]
fn the_wall_time_of_a_sleeping_stage_is_the_whole() {
    let pipeline = profiled("", "sleep 1 | cat");
    assert_adds_up(&pipeline);
    for stage in pipeline["stages"].as_array().unwrap() {
        let wall = number(&stage["usage"]["wall_s"]);
        assert!(wall > 0.75, "{stage:#}");
        assert!(wall <= number(&pipeline["wall_s"]), "{stage:#}");
        assert_eq!(stage["costs"].as_array().unwrap()[0]["group"], "asleep");
    }
}

#[test]
fn few_samples_give_no_shares() {
    let text = run_alone(profile("--no-save", "sleep 0.05"))
        .succeeded()
        .unwrapped();
    assert!(text.contains("running (not divided)"), "{text}");
    for words in ["call chains", "other kernel", "100.0 %  "] {
        let line = text.lines().find(|line| line.contains(words));
        assert!(line.is_none_or(|line| line.starts_with("sum")), "{text}");
    }
}

/// Two processes that never sleep, on one processor with the command.
struct Competitors(Vec<std::process::Child>);

impl Competitors {
    fn start(cpu: usize) -> Self {
        let busy = || {
            let mut command = Command::new("timeout");
            command.args(["60", "sh", "-c", "while :; do :; done"]);
            conditions::on_processor(&mut command, cpu);
            command.spawn().unwrap()
        };
        Competitors(vec![busy(), busy()])
    }
}

impl Drop for Competitors {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // timeout passes SIGTERM on.
            let pid = rustix::process::Pid::from_child(child);
            let _ = rustix::process::kill_process(pid, Signal::TERM);
            let _ = child.wait();
        }
    }
}

#[test]
fn waiting_for_a_processor_is_named_beside_busy_processes() {
    let cpu = conditions::first_processor();
    let _competitors = Competitors::start(cpu);
    for (pipeline, stage) in [(BUSY, "1: sh "), ("yes | cat > /dev/null", "")] {
        let mut command = profile("--no-save --time 2", pipeline);
        conditions::on_processor(&mut command, cpu);
        let text = run_alone(command).succeeded().unwrapped();
        let expected = format!("There are too few free processors: {stage}");
        assert!(text.contains(&expected), "{text}");
        assert!(!text.contains("only if"), "{text}");
        assert!(!text.contains("is as fast as"), "{text}");
    }
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
    // Nor is the running time of children after they were last seen, of which a busy machine hides
    // more.
    let all = number(&pipeline["cpu_s"]);
    assert!(number(&xargs["cpu_s"]) < 0.5 * all, "{pipeline:#}");
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
