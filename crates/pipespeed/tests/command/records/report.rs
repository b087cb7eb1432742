//! `report`: which files it takes, what it measures without any, and where it puts the page.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::common::procs::{Mark, eventually};
use crate::common::records::{Records, run};
use crate::common::{
    PIPESPEED, Running, conditions, names_in, pipespeed, run_alone, says, start, start_into,
};
use pipespeed_measure::spec::Suite;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};

fn page(records: &Records, args: &str) -> String {
    let outcome = records.pipespeed(&format!("report {args} -o -"));
    outcome.succeeded_in_silence().out
}

#[test]
fn a_page_of_saved_records_says_what_else_could_be_measured() {
    let records = Records::new();
    let outcome = records
        .pipespeed("report old.json -o page.html")
        .succeeded();
    assert_eq!(
        (&*outcome.out, outcome.err.trim_end()),
        ("", "saved: page.html")
    );
    let text = fs::read_to_string(records.0.path().join("page.html")).unwrap();
    assert!(text.starts_with("<!DOCTYPE html>") && text.ends_with("</html>\n"));
    says(
        &text,
        &[
            "<li>What mattered most here: ",
            "pipespeed bench touched --json",
        ],
    );
    assert_eq!(page(&records, "old.json"), text);
    // With the missing record the line is gone.
    records.save("touched.json", &run(Suite::Touched, &[]));
    let both = page(&records, "old.json touched.json");
    assert!(!both.contains("pipespeed bench touched --json"));
    assert!(both.contains("With every byte produced and used, a plain pipe"));
}

#[test]
fn a_page_has_a_new_name_unless_one_is_given() {
    let records = Records::new();
    for _ in 0..2 {
        let outcome = records.pipespeed("report old.json").succeeded();
        assert!(outcome.err.starts_with("saved: pipespeed-results/report-"));
        assert!(outcome.err.trim_end().ends_with(".html"), "{outcome:#?}");
    }
    let saved = fs::read_dir(records.0.path().join("pipespeed-results")).unwrap();
    assert_eq!(saved.count(), 2);
    let quiet = records.pipespeed("report old.json -q -o page.html");
    quiet.succeeded_in_silence();
}

/// In a container every command is process 1, say.
#[test]
fn pages_of_processes_with_the_same_number_are_all_kept() {
    let records = Records::new();
    let report = || {
        let command = conditions::in_pid_namespace(PIPESPEED, &["report", "old.json"]);
        command.map(|mut command| {
            command.current_dir(&records.0);
            start(command)
        })
    };
    // Nearly all within one second, which is part of the names.
    let Some(runs) = (0..6).map(|_| report()).collect::<Option<Vec<_>>>() else {
        return;
    };
    let mut said: Vec<String> = Vec::new();
    for run in runs {
        let outcome = run.finish().succeeded();
        said.push(
            outcome
                .err
                .trim_end()
                .replace("saved: pipespeed-results/", ""),
        );
    }
    said.sort();
    let saved = names_in(&records.0.path().join("pipespeed-results"));
    assert_eq!(saved, said);
}

#[test]
fn a_record_of_a_command_can_be_used_as_it_is() {
    let records = Records::new();
    let check = "check --only epipe --json check.json --quiet";
    records.pipespeed(check).succeeded();
    let pages = "pages --buffer 8K --json pages.json";
    records.pipespeed(pages).succeeded();
    let text = page(&records, "check.json pages.json");
    says(&text, &["<code>pipespeed check --only epipe"]);
    assert!(text.contains("The walk to address"), "{text}");
}

#[test]
fn a_file_that_is_no_record_is_refused_in_one_line() {
    let records = Records::new();
    let path = |name: &str| records.0.path().join(name);
    let old = fs::read_to_string(path("old.json")).unwrap();
    let damaged = old.replacen("\"cases\"", "\"casts\"", 1);
    fs::write(path("damaged.json"), damaged).unwrap();
    fs::write(path("other.json"), "{\"kind\": \"check\"}").unwrap();
    for (name, words) in [
        ("damaged.json", "a damaged record (missing field `cases`"),
        ("other.json", "not a record of pipespeed"),
        ("missing.json", "No such file"),
    ] {
        let outcome = records.pipespeed(&format!("report old.json {name} -o page.html"));
        outcome.refused(2, &[name, words]);
        assert!(!path("page.html").exists(), "{name}");
    }
}

#[test]
fn a_record_that_a_page_has_no_use_for_is_left_out() {
    let records = Records::new();
    let path = records.0.path().join("doctor.json");
    let old = fs::read_to_string(records.0.path().join("old.json")).unwrap();
    fs::write(path, old.replacen("\"bench\"", "\"doctor\"", 1)).unwrap();
    let both = records.pipespeed("report old.json doctor.json -o -");
    let both = both.succeeded();
    assert_eq!(both.out, page(&records, "old.json"));
    says(&both.err, &["doctor.json: a page has no use"]);
    let slots = "pages --pipe --json slots.json";
    records.pipespeed(slots).succeeded();
    let slots = records.pipespeed("report old.json slots.json -o -");
    let slots = slots.succeeded().err;
    assert!(slots.contains("slots.json: a page has no use"), "{slots}");
    let path = records.0.path();
    fs::copy(path.join("doctor.json"), path.join("two\nlines.json")).unwrap();
    let mut command = pipespeed("report old.json -o -");
    command.arg("two\nlines.json").current_dir(path);
    says(
        &run_alone(command).err,
        &["two\\nlines.json: a page has no use"],
    );
    let alone = records.pipespeed("report doctor.json -q -o -");
    alone.refused(2, &["none of these files can be used"]);
}

#[test]
fn a_record_is_not_replaced_by_the_page() {
    let records = Records::new();
    for output in ["old.json", "./old.json"] {
        let outcome = records.pipespeed(&format!("report old.json -o {output}"));
        outcome.refused(2, &["--output", "is a record: name another file"]);
    }
    let path = records.0.path().join("old.json");
    let old = fs::read(&path).unwrap();
    let open = || {
        let mut options = fs::File::options();
        options.read(true).append(true).open(&path).unwrap()
    };
    let mut command = pipespeed("report - -o old.json");
    command.current_dir(&records.0).stdin(open());
    let words = ["--output", "standard input is a record"];
    start(command).finish().refused(2, &words);
    let mut command = pipespeed("report old.json -o -");
    command.current_dir(&records.0);
    let outcome = start_into(command, open()).finish();
    outcome.refused(2, &["--output", "old.json is a record"]);
    assert_eq!(fs::read(&path).unwrap(), old);
    let outcome = records.pipespeed("report old.json -o no/such.html");
    outcome.refused(2, &["--output", "no/such.html"]);
    let outcome = records.pipespeed("report - - -o page.html");
    outcome.refused(2, &["only one file can be '-'"]);
    records
        .pipespeed("report old.json -o /dev/full")
        .failed(1, &["/dev/full"]);
}

#[test]
fn records_of_another_machine_are_shown_beside() {
    let records = Records::new();
    records.changed("there.json", |run| {
        run.header.machine.kernel.release = Some("5.17.0".to_owned());
    });
    let text = page(&records, "old.json --compare there.json");
    assert!(text.contains("Beside another machine") && text.contains("Linux 5.17.0"));
    assert!(!page(&records, "old.json").contains("Beside another machine"));
    let outcome = records.pipespeed("report old.json --compare missing.json -o -");
    outcome.refused(2, &["missing.json"]);
}

/// The record of the commands that take long, which a resumed report does not measure again.
fn measured_before(records: &Records) -> PathBuf {
    let directory = records.0.path().join("before");
    fs::create_dir(&directory).unwrap();
    for (name, suite) in [
        ("ladder", Suite::Ladder),
        ("touched", Suite::Touched),
        ("sizes", Suite::Sizes),
        ("channels", Suite::Channels),
        ("changes", Suite::Changes),
    ] {
        records.save(&format!("before/{name}.json"), &run(suite, &[]));
    }
    directory
}

#[test]
fn a_resumed_report_measures_only_what_is_missing_or_unfinished() {
    let records = Records::new();
    let directory = measured_before(&records);
    let names = ["ladder", "touched", "sizes", "channels", "changes"];
    let texts = || names.map(|name| fs::read(directory.join(format!("{name}.json"))).unwrap());
    let before = texts();
    fs::write(directory.join("check.json"), "{\"kind\": \"che").unwrap();
    fs::write(directory.join("unfinished"), "check\n").unwrap();
    let outcome = records.pipespeed("report --resume=before").succeeded();
    says(
        &outcome.err,
        &[
            "measuring check, pages: about",
            "1 of 2: pipespeed check",
            "saved: before/report.html",
        ],
    );
    assert_eq!(outcome.out, "", "the tables of the commands are not shown");
    assert_eq!(texts(), before);
    let text = fs::read_to_string(directory.join("report.html")).unwrap();
    says(
        &text,
        &[
            "pipespeed check --explain NAME explains one",
            "<li>What mattered most here: ",
        ],
    );
    assert!(text.contains("<code>pipespeed check</code>"), "{text}");
    assert!(!directory.join("unfinished").exists());
    // With nothing left to measure it is the page alone.
    let again = records.pipespeed("report --resume=before -o -");
    assert_eq!(again.succeeded_in_silence().out, text);
    // Also where the list of the unfinished ones was lost, as by copying the records.
    let path = directory.join("check.json");
    let check = fs::read_to_string(&path).unwrap();
    let kind = "\"kind\": \"check\",";
    let interrupted = check.replacen(kind, &format!("{kind} \"interrupted\": \"SIGINT\","), 1);
    fs::write(&path, interrupted).unwrap();
    let outcome = records.pipespeed("report --resume=before").succeeded();
    says(&outcome.err, &["measuring check: about"]);
    assert!(!fs::read_to_string(&path).unwrap().contains("SIGINT"));
}

/// Starts a report and waits until it measures the ladder, which takes a minute.
fn until_the_ladder_runs(records: &Records, mut command: Command) -> (Running, Mark, PathBuf) {
    command.current_dir(&records.0);
    let mark = Mark::on(&mut command);
    let running = start(command);
    let results = records.0.path().join("pipespeed-results");
    let found = eventually(|| {
        let directory = fs::read_dir(&results).ok()?.next()?.ok()?.path();
        let step = fs::read_to_string(directory.join("unfinished")).ok()?;
        (step == "ladder\n" && mark.endpoint("reader").is_some()).then_some(directory)
    });
    (running, mark, found.unwrap())
}

#[test]
fn a_signal_ends_a_report_whose_step_is_stopped() {
    let records = Records::new();
    let (running, mark, directory) = until_the_ladder_runs(&records, pipespeed("report -q"));
    let all = mark.processes().into_iter();
    let mut steps = all.filter(|(_, line)| line.contains("__endpoint step"));
    kill_process(steps.next().unwrap().0, Signal::STOP).unwrap();
    running.send(Signal::TERM);
    let outcome = running.finish();
    mark.nobody_left();
    assert_eq!(outcome.code, Some(128 + 15), "{outcome:#?}");
    assert!(directory.join("report.html").exists());
}

#[test]
fn an_interrupted_report_keeps_what_is_finished_and_goes_on() {
    let records = Records::new();
    let (running, mark, directory) = until_the_ladder_runs(&records, pipespeed("report"));
    running.send(Signal::TERM);
    let outcome = running.finish();
    mark.nobody_left();
    assert_eq!(outcome.code, Some(128 + 15), "{outcome:#?}");
    let err = outcome.unwrapped_err();
    says(
        &err,
        &["`pipespeed report --resume=", "` measures the rest"],
    );
    assert!(err.ends_with("pipespeed: interrupted by SIGTERM"), "{err}");
    assert_eq!(err.matches("interrupted by").count(), 1, "{err}");
    let names = names_in(&directory);
    for name in ["check.json", "report.html", "unfinished"] {
        assert!(names.iter().any(|it| it == name), "{name}: {names:?}");
    }
    let check = fs::read(directory.join("check.json")).unwrap();
    // The newest report is the one that goes on.
    let (running, mark, again) = until_the_ladder_runs(&records, pipespeed("report --resume -q"));
    assert_eq!(again, directory);
    // A real-time signal, which has no name.
    let kill = format!("kill -34 {}", running.pid().as_raw_pid());
    let sent = Command::new("sh").args(["-c", &kill]).status().unwrap();
    assert!(sent.success());
    let outcome = running.finish();
    mark.nobody_left();
    assert_eq!(outcome.code, Some(128 + 34), "{outcome:#?}");
    assert_eq!(fs::read(directory.join("check.json")).unwrap(), check);
}

#[test]
fn a_step_that_was_killed_is_named_and_measured_again() {
    let records = Records::new();
    let (running, mark, directory) = until_the_ladder_runs(&records, pipespeed("report -q"));
    let bench = mark.processes().into_iter();
    let of_report = |pid: Pid| {
        let stat =
            fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).unwrap_or_default();
        let words = stat.rsplit_once(')').map(|(_, words)| words.to_owned());
        let parent = words.and_then(|words| words.split_whitespace().nth(1)?.parse().ok());
        parent == Some(running.pid().as_raw_pid())
    };
    let mut bench = bench.filter(|(pid, line)| line.contains("bench ladder") && of_report(*pid));
    kill_process(bench.next().unwrap().0, Signal::KILL).unwrap();
    let is_next = || {
        let steps = fs::read_to_string(directory.join("unfinished")).ok()?;
        (steps == "ladder\ntouched\n").then_some(())
    };
    assert!(eventually(is_next).is_some());
    running.send(Signal::TERM);
    let outcome = running.finish();
    mark.nobody_left();
    assert_eq!(outcome.code, Some(128 + 15), "{outcome:#?}");
    says(
        outcome.unwrapped_err(),
        &["pipespeed bench ladder failed (signal: 9 (SIGKILL)): it"],
    );
    let unfinished = directory.join("unfinished");
    assert_eq!(
        fs::read_to_string(&unfinished).unwrap(),
        "ladder\ntouched\n"
    );
    // A failed save does not lose that.
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "trap '' XFSZ; ulimit -f 0; exec \"$0\" report -q --resume",
        PIPESPEED,
    ]);
    command.current_dir(&records.0);
    let outcome = start(command).finish();
    assert_eq!(outcome.code, Some(1), "{outcome:#?}");
    assert_eq!(
        fs::read_to_string(&unfinished).unwrap(),
        "ladder\ntouched\n"
    );
}

#[test]
fn a_killed_report_leaves_no_process() {
    let records = Records::new();
    // As shells without job control do for what they start in the background.
    let script = "trap '' INT; exec \"$0\" report -q";
    let mut command = Command::new("sh");
    command.args(["-c", script, PIPESPEED]);
    let (running, mark, directory) = until_the_ladder_runs(&records, command);
    running.send(Signal::KILL);
    running.finish();
    mark.nobody_left();
    assert!(directory.join("unfinished").exists());
    // It was interrupted rather than finished, perhaps in its first round.
    if let Ok(ladder) = fs::read_to_string(directory.join("ladder.json")) {
        assert!(ladder.contains("\"interrupted\": \"SIGTERM\""), "{ladder}");
    }
}

#[test]
fn a_resumed_report_refuses_foreign_files_before_it_measures() {
    let records = Records::new();
    let directory = measured_before(&records);
    fs::write(directory.join("sizes.json"), "{}").unwrap();
    let outcome = records.pipespeed("report --resume=before");
    outcome.refused(2, &["--resume: before/sizes.json", "not a record"]);
    fs::copy(directory.join("touched.json"), directory.join("sizes.json")).unwrap();
    let outcome = records.pipespeed("report --resume=before");
    let words = "before/sizes.json is no record of 'pipespeed bench sizes --quick': move it away";
    outcome.refused(2, &["--resume: ", words]);
    fs::remove_file(directory.join("sizes.json")).unwrap();
    // Also where that command has yet to be finished.
    let unfinished = directory.join("unfinished");
    fs::write(&unfinished, "sizes\n").unwrap();
    for name in ["sizes.json", "sizes.again.json"] {
        fs::write(directory.join(name), "my notes").unwrap();
        let outcome = records.pipespeed("report --resume=before");
        outcome.refused(2, &[&format!("--resume: before/{name}"), "not JSON"]);
        assert_eq!(fs::read(directory.join(name)).unwrap(), b"my notes");
        fs::remove_file(directory.join(name)).unwrap();
    }
    fs::create_dir(directory.join("sizes.json")).unwrap();
    let outcome = records.pipespeed("report --resume=before");
    outcome.refused(
        2,
        &["before/sizes.json is no file of 'pipespeed bench sizes"],
    );
    fs::remove_dir(directory.join("sizes.json")).unwrap();
    fs::remove_file(unfinished).unwrap();
    let notes = records.0.path().join("pipespeed-results/report-notes");
    fs::create_dir_all(&notes).unwrap();
    fs::write(notes.join("notes.txt"), "mine").unwrap();
    let outcome = records.pipespeed("report --resume");
    outcome.refused(2, &["--resume: there is no report in"]);
    let unfinished = directory.join("unfinished");
    fs::write(&unfinished, b"\xffmy notes\n").unwrap();
    let outcome = records.pipespeed("report --resume=before");
    outcome.refused(2, &["--resume: before/unfinished is no list"]);
    assert_eq!(fs::read(&unfinished).unwrap(), b"\xffmy notes\n");
    fs::remove_file(&unfinished).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &unfinished, rustix::fs::Mode::RUSR).unwrap();
    let outcome = records.pipespeed("report --resume=before");
    outcome.refused(2, &["--resume: before/unfinished is no list"]);
    fs::remove_file(unfinished).unwrap();
    // Nor does the page replace a record, also of one that is not measured yet.
    let link = records.0.path().join("page.html");
    std::os::unix::fs::symlink("before/ladder.json", link).unwrap();
    let dangling = records.0.path().join("later.html");
    std::os::unix::fs::symlink("before/check.json", dangling).unwrap();
    let hard = records.0.path().join("hard.html");
    fs::hard_link(directory.join("touched.json"), hard).unwrap();
    let ladder = fs::read(directory.join("ladder.json")).unwrap();
    for output in [
        "before/ladder.json",
        "before/check.json",
        "before/unfinished",
        "page.html",
        "later.html",
        "hard.html",
    ] {
        let outcome = records.pipespeed(&format!("report --resume=before -o {output}"));
        outcome.refused(2, &[&format!("--output: {output} is a file of the report")]);
    }
    assert_eq!(fs::read(directory.join("ladder.json")).unwrap(), ladder);
    assert!(!directory.join("check.json").exists());
}

/// One that was stopped would save its next round in place of the other one's record.
#[test]
fn two_reports_do_not_measure_into_one_directory() {
    let records = Records::new();
    let directory = measured_before(&records);
    let other = fs::File::open(&directory).unwrap();
    flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
    let outcome = records.pipespeed("report --resume=before");
    outcome.refused(2, &["--resume: another report measures into before"]);
    assert!(!directory.join("check.json").exists());
}

#[test]
fn a_page_that_cannot_be_saved_is_a_failure() {
    let records = Records::new();
    // No directory can be made there.
    fs::write(records.0.path().join("pipespeed-results"), "").unwrap();
    let outcome = records.pipespeed("report old.json");
    assert_eq!((outcome.code, &*outcome.out), (Some(1), ""), "{outcome:#?}");
    assert!(outcome.err.contains("name a file by -o"), "{outcome:#?}");
}

#[test]
fn nothing_is_measured_for_a_report_that_cannot_be_made() {
    let records = Records::new();
    for (args, words) in [
        ("--full old.json", "--full"),
        ("--resume old.json", "--resume"),
        ("--resume=old.json", "old.json is not a directory"),
        ("--resume=.", "--resume: . holds no record of a report"),
        ("--resume", "there is no report in ./pipespeed-results"),
        ("-o no/such.html", "no/such.html"),
        ("--compare missing.json", "missing.json"),
    ] {
        let outcome = records.pipespeed(&format!("report {args}"));
        outcome.refused(2, &[words]);
        assert!(
            !records.0.path().join("pipespeed-results").exists(),
            "{args}"
        );
    }
}
