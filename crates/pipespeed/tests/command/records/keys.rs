//! The fields of saved records, which programs rely on: those of docs/records.md, and no others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use rustix::fs::{CWD, FileType, Mode};
use serde_json::Value;

use crate::common::procs::eventually;
use crate::common::{PIPESPEED, conditions, json, pipespeed, run_alone, skip};
use crate::doctor::{Group, pipe};

const PAGE: &str = include_str!("../../../../../docs/records.md");

/// The section of fields that all kinds but `top` have.
const COMMON: &str = "Every record";

/// Fields that these records may lack, with what is in them, and why.
const MAY_BE_MISSING: [(&str, &str); 32] = [
    (
        "boost/cases/way",
        "a pipe is only left out if several were raised",
    ),
    (
        "boost/pipes/left",
        "which pipes are raised depends on the moment",
    ),
    ("doctor/processes/runs_between", "few run several threads"),
    ("delay", "depends on what else uses the processors"),
    ("exit/signal", "how a stage ends depends on the moment"),
    ("finding/is_stuck", "no splice holds a pipe's lock"),
    ("finding/stages", "stages by turns depend on the moment"),
    ("finding/active", "so does whether a stage stands out"),
    ("finding/event_loops", "the same"),
    ("active", "the same"),
    (
        "finding/sides",
        "nobody waits for a message in an event loop",
    ),
    ("finding/writers", "the same"),
    ("finding/who", "the same"),
    ("finding/has_timeout", "the same"),
    ("pipe/device", "no FIFO is open on both sides"),
    ("pipe_id/device", "the same"),
    ("pipe/number", "no terminal stands still"),
    ("pipe/is_output", "the same"),
    ("pipe_id/number", "the same"),
    ("pipe_id/is_output", "the same"),
    ("function", "depends on what is sampled"),
    ("machine/kernel/mitigations", "depends on the kernel"),
    ("machine/memory", "the same"),
    ("machine/processors", "depends on the machine"),
    (
        "member/reasons/child",
        "no member of a deadlock waits for a child",
    ),
    ("member/reasons/fifo_peer", "nor for a FIFO"),
    (
        "bottleneck/room/small",
        "which stage is the bottleneck depends on the moment",
    ),
    ("bottleneck/room/emptied", "the same"),
    ("bottleneck/limiter", "the same"),
    (
        "pinning/figures/counted",
        "the kernel's benchmark: see ci/gup-test",
    ),
    ("pinning/kernel", "the same"),
    ("quota", "needs a control group with a quota"),
];

/// Types whose fields are missing where profiles can't be sampled.
const OF_SAMPLES: [&str; 6] = ["profile", "end", "stage", "part", "stack", "function"];

/// A field of the page.
#[derive(Debug, Default)]
struct Field {
    /// The types whose fields it has, too.
    types: BTreeSet<String>,
    /// Whether it is a list.
    is_list: bool,
}

/// The fields of the page and what records have of them. A field's place begins with the kind of
/// record or the type: `bench/cases/name`.
#[derive(Debug, Default)]
struct Fields {
    documented: BTreeMap<String, Field>,
    found: BTreeSet<String>,
    wrong: BTreeSet<String>,
}

/// The parts of a text in single marks.
fn marked(text: &str, mark: char) -> impl Iterator<Item = &str> {
    text.split(mark).skip(1).step_by(2)
}

impl Fields {
    /// Reads the tables of the page in the notation that it explains.
    fn read(page: &str) -> Fields {
        let mut fields = Fields::default();
        let mut section = "";
        // An escaped star stands for any name.
        let page = page.replace("\\*", "%");
        for line in page.lines() {
            section = line.strip_prefix("## ").unwrap_or(section);
            let row = line
                .strip_prefix("| ")
                .and_then(|row| row.split_once(" | "));
            let Some((first, second)) = row.filter(|row| row.0.contains(['*', '`'])) else {
                continue;
            };
            for entry in first.split(", ") {
                let base = marked(entry, '`').next().unwrap_or(section);
                let path = marked(entry, '*').next();
                let place = path.map_or(base.to_owned(), |path| fields.add(base, path));
                for path in marked(second, '*') {
                    fields.add(&place, path);
                }
            }
        }
        fields
    }

    /// Adds a field, and those that it is part of, below a place. Returns its own.
    fn add(&mut self, base: &str, text: &str) -> String {
        let (path, kind) = text.split_once(": ").unwrap_or((text, ""));
        let mut place = base.to_owned();
        for name in path.split('.') {
            let plain = name.trim_end_matches("[]");
            place = format!("{place}/{plain}");
            let field = self.documented.entry(place.clone()).or_default();
            field.is_list |= plain != name;
        }
        if !kind.is_empty() {
            let field = self.documented.entry(place.clone()).or_default();
            field.types.insert(kind.to_owned());
        }
        place
    }

    /// Compares a record's value with the fields of these places.
    fn compare(&mut self, value: &Value, places: &BTreeSet<String>) {
        if let Value::Array(elements) = value {
            elements.iter().for_each(|one| self.compare(one, places));
        }
        for (name, value) in value.as_object().into_iter().flatten() {
            let mut inner = BTreeSet::new();
            for place in places {
                for place in [format!("{place}/{name}"), format!("{place}/%")] {
                    let Some(field) = self.documented.get(&place) else {
                        continue;
                    };
                    let lists = value
                        .as_array()
                        .is_some_and(|all| all.iter().any(has_fields));
                    if lists && !field.is_list || value.is_object() && field.is_list {
                        self.wrong
                            .insert(format!("{place}: [] in the page, or in records only"));
                    }
                    inner.extend(field.types.iter().cloned());
                    inner.insert(place);
                }
            }
            if inner.is_empty() {
                self.wrong
                    .insert(format!("{places:?} {name}: not in the page"));
            }
            self.found.extend(inner.iter().cloned());
            self.compare(value, &inner);
        }
    }

    /// Compares a record.
    fn compare_record(&mut self, record: &Value) {
        let kind = record["kind"].as_str().unwrap();
        let common = (kind != "top").then_some(COMMON);
        let places = [kind].into_iter().chain(common).map(str::to_owned);
        self.compare(record, &places.collect());
    }

    /// The fields of the page that no record had, but for those that may be missing.
    fn missing(&self, may_be_missing: &BTreeSet<&str>) -> Vec<&String> {
        let fields = self.documented.keys();
        let fields = fields.filter(|place| !self.found.contains(*place));
        fields
            .filter(|place| !may_be_missing.iter().any(|above| is_in(place, above)))
            .collect()
    }
}

/// Whether a field is another one, or part of it.
fn is_in(place: &str, above: &str) -> bool {
    let rest = place.strip_prefix(above);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn has_fields(value: &Value) -> bool {
    match value {
        Value::Array(elements) => elements.iter().any(has_fields),
        value => value.is_object(),
    }
}

/// The record that a command prints.
#[track_caller]
fn record(command: Command) -> Value {
    let outcome = run_alone(command);
    assert!(outcome.out.starts_with('{'), "{outcome:#?}");
    json(&outcome.out)
}

/// One record or more of each command that measures.
fn measured() -> Vec<Value> {
    let commands = [
        "bench --quick --rounds 1 --case vmsplice_read",
        "bench sizes --quick --time 3 --case write_read --buffer-size 16K --pipe-size 64K",
        "latency --count 10 --rounds 1 --channel tcp,mqueue --size 1M",
        "latency --time 1 --rounds 1 --channel pipe --size 8 --rate 1000",
        "latency --count 10 --rounds 1 --naive=write-first --channel pipe --size 1M --limit 0.1",
        "check --only epipe,outlives-drain,may-have-hugetlb-pages",
        "costs --rounds 1",
        "costs --rounds 1 --pinning",
        "pages --buffer 10000",
        "pages --pipe",
        "profile write_read --time 0.2",
    ];
    let commands = commands.map(|args| pipespeed(&format!("{args} --json -")));
    commands.map(record).into()
}

/// The record of a command that runs this line.
fn record_of_line(args: &str, line: &str) -> Value {
    let mut command = pipespeed(args);
    command.arg(line);
    record(command)
}

/// A proof, a profile of a command, and a profile without samples.
fn of_pipelines() -> Vec<Value> {
    let proof = eventually(|| {
        let proof = record_of_line(
            "boost --prove=6 --yes --json -",
            "head -c 50M /dev/zero | wc -c",
        );
        proof["pipes"][0]["raised"].is_object().then_some(proof)
    });
    let line = "head -c 10M /dev/zero | sh -c 'wc -c; kill $$'";
    let mut records = vec![proof.unwrap(), record_of_line("profile --json - --", line)];
    let mut counted = pipespeed("profile write_read --time 0.2 --json -");
    if conditions::without_call(&mut counted, libc::SYS_perf_event_open) {
        records.push(record(counted));
    }
    records
}

/// Pipelines of all kinds, in one process group.
fn pipelines(directory: &Path) -> Group {
    let fifo = directory.join("fifo");
    rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let fifo = fifo.display();
    let ((to_second, from_first), (to_first, from_second)) = (pipe(), pipe());
    let mut group = Group::default();
    group.add("head -c 1000000 /dev/zero", [to_first, from_first, None]);
    group.add("head -c 1000000 /dev/zero", [to_second, from_second, None]);
    for script in [
        "(sleep 1000; :) | cat",
        "yes | sleep 1000",
        "dd if=/dev/zero bs=16 status=none | cat > /dev/null",
        // The server keeps the output of its starter open.
        "text=$(sh -c 'sleep 1000 & echo started'); echo $text",
        "sh -c 'kill -STOP $$; :' | cat",
        &format!("{PIPESPEED} write --pipe-size 4K | cat > /dev/null"),
        &format!("cat < {fifo} | cat"),
    ] {
        group.script(script);
    }
    group
}

/// What `doctor` and `top` find.
fn observed(directory: &Path) -> Vec<Value> {
    let group = pipelines(directory);
    let wanted = [
        "deadlock",
        "bottleneck",
        "small_calls",
        "small_pipe",
        "leaked_write_end",
        "unread",
    ];
    let doctor = eventually(|| {
        let record = record(pipespeed(&format!(
            "doctor --time 0.5 --arguments --json - {}",
            group.first()
        )));
        let findings = record["findings"].as_array().unwrap();
        let found: BTreeSet<&str> = findings
            .iter()
            .map(|one| one["finding"].as_str().unwrap())
            .collect();
        wanted
            .iter()
            .all(|kind| found.contains(kind))
            .then(|| record.clone())
    });
    let top = eventually(|| {
        let record = record(pipespeed(&format!(
            "top --once --arguments --json - {}",
            group.first()
        )));
        let pipelines = record["pipelines"].as_array().unwrap();
        let has_pace = pipelines
            .iter()
            .any(|pipeline| pipeline["bottleneck"].is_object());
        // On a busy machine they may not be read in time.
        let mut stages = pipelines
            .iter()
            .flat_map(|pipeline| pipeline["stages"].as_array().unwrap());
        let has_arguments = stages.any(|stage| stage["arguments"].is_string());
        (has_pace && has_arguments).then(|| record.clone())
    });
    vec![doctor.unwrap(), top.unwrap()]
}

/// A comparison of a run with one on another kernel.
fn compared(run: &Value, directory: &Path) -> Value {
    let mut other = run.clone();
    other["machine"]["kernel"]["release"] = "other".into();
    let files = [("run.json", run), ("other.json", &other)].map(|(name, run)| {
        let file = directory.join(name);
        std::fs::write(&file, run.to_string()).unwrap();
        file.display().to_string()
    });
    record(pipespeed(&format!(
        "compare {} --force --json -",
        files.join(" ")
    )))
}

#[test]
fn every_field_of_records_is_in_page_and_no_other() {
    let mut fields = Fields::read(PAGE);
    let mut may_be_missing: BTreeSet<&str> = MAY_BE_MISSING.iter().map(|entry| entry.0).collect();
    for above in &may_be_missing {
        let is_known = fields.documented.keys().any(|place| is_in(place, above));
        assert!(is_known, "{above} is not in the page");
    }
    let directory = tempfile::tempdir().unwrap();
    let mut records = measured();
    records.push(compared(&records[0], directory.path()));
    records.extend(of_pipelines());
    records.extend(observed(directory.path()));
    for record in &records {
        fields.compare_record(record);
    }
    if !fields.found.contains("stack/frames") {
        skip("profiles can't be sampled here");
        may_be_missing.extend(OF_SAMPLES);
    }
    let (wrong, missing) = (&fields.wrong, fields.missing(&may_be_missing));
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(missing.is_empty(), "no record has {missing:#?}");
}
