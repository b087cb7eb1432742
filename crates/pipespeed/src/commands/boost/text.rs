//! What boosting a pipeline gained, as a few lines.

use pipespeed_base::size;
use pipespeed_measure::rounds::rounds_for_verdicts;
use pipespeed_pipeline::boost::{Account, PipeName, TreatedPipe};
use pipespeed_pipeline::diagnosis::Bottleneck;
use pipespeed_pipeline::raise::{Exemption, Treatment};
use pipespeed_report::style::{BOLD, GREEN, RED, YELLOW};
use pipespeed_report::{Style, describe_bottleneck, interval, pluralize, ratio, significant};
use pipespeed_stats::{Doubt, Estimate, Verdict};

use super::proof::{CONFIDENCE, MAX_WINDOW, Proof, ProofWay, Sameness, TimedRun, WayRuns};

/// Nothing is promised for pipelines that take less.
const MIN_SECONDS: f64 = 0.05;
/// In a shorter time the start of the process that raises the pipes hides what it takes.
const MIN_SECONDS_FOR_SHARE: f64 = 0.1;

/// The start of boost and its sidecar takes no longer.
const MAX_START_SECONDS: f64 = 0.02;

/// Why nothing was done to any pipe.
const NONE_CARRIES_MUCH: &str =
    "no pipe was raised: none that is a program's standard input was seen to carry much data";

/// What was gained, by which pipes, and if nothing, why.
pub fn describe_proof(proof: &Proof, style: Style) -> String {
    let mut lines = Vec::new();
    let names = proof.cases.iter().map(|case| case.way.name().len());
    let width = names.max().unwrap_or(0);
    for case in proof.cases.iter().filter(|case| !case.samples.is_empty()) {
        let line = format!("  {}", measured(case, width));
        let line = match describe_gain(proof, case) {
            Some(text) => format!("{line}   {text}"),
            None => line,
        };
        let colour = match (&case.way, proof.verdict()) {
            (ProofWay::Boosted, Some(Verdict::Faster)) => GREEN,
            (ProofWay::Boosted, Some(Verdict::Slower)) => RED,
            (ProofWay::Boosted, _) => BOLD,
            _ => "",
        };
        lines.push(if colour.is_empty() {
            style.sentence(&line)
        } else {
            style.note(&line, colour)
        });
        if case.way == ProofWay::Boosted {
            // The pipes are those of the untimed run.
            let pipes = proof.raised_pipes().filter(|_| may_be_raised(case));
            let details = pipes.map(describe).chain(describe_saving(case));
            lines.extend(details.map(|text| style.sentence(&format!("    {text}"))));
        }
    }
    if let Some(why) = explain(proof) {
        lines.push(style.sentence(&format!("  {why}")));
    }
    if let Some(portable) = &proof.portable {
        lines.push(format!("  without pipespeed:  {portable}"));
    }
    if let Some(control) = proof
        .null_control
        .filter(|ratio| ratio.estimate.interval.is_some())
    {
        let text = format!(
            "  equal runs: {} {}",
            ratio(control.estimate),
            control.verdict.name()
        );
        let is_sound = matches!(control.verdict, Verdict::Same | Verdict::Undecided);
        lines.push(if is_sound {
            style.sentence(&text)
        } else {
            style.note(
                &format!("{text}: something else changed, measure again"),
                YELLOW,
            )
        });
    }
    lines.extend(doubts(proof).map(|text| style.note(&format!("  note: {text}"), YELLOW)));
    lines.join("\n") + "\n"
}

/// `plain    0.41 s [0.40, 0.43]  CPU 0.43 s`.
fn measured(case: &WayRuns, width: usize) -> String {
    let time = |estimate: Option<Estimate>| match estimate {
        Some(it) => format!("{} s {}", significant(it.median), interval(it.interval)),
        None => "?".to_owned(),
    };
    let cpu = case.cpu_s.map_or(f64::NAN, |cpu| cpu.median);
    let name = format!("{:width$}", case.way.name());
    format!(
        "{name}  {}  CPU {} s",
        time(case.seconds).trim_end(),
        significant(cpu)
    )
}

/// What this way gains; if some of its runs may have been plain ones, nothing.
fn describe_gain(proof: &Proof, case: &WayRuns) -> Option<String> {
    if case.way == ProofWay::Plain {
        return None;
    }
    if !case.is_known() {
        let what = match case.way {
            ProofWay::Without(_) => "not known to be left out each time",
            _ => "not known to be boosted",
        };
        return Some(what.to_owned());
    }
    let (intro, speed, output) = match case.way {
        ProofWay::Boosted => ("", case.speed?, describe_output(proof)),
        _ => ("that pipe: ", case.boosted_speed?, ""),
    };
    let verdict = speed.verdict.name();
    Some(format!(
        "{intro}{} {verdict}{output}",
        ratio(speed.estimate)
    ))
}

fn describe_output(proof: &Proof) -> &'static str {
    let mut samples = proof.cases.iter().flat_map(|case| &case.samples);
    if proof.output != Some(Sameness::Same) || count_unlike(proof).next().is_some() {
        ""
    } else if samples.all(|sample| sample.bytes == 0) {
        ", same status; it printed nothing to compare"
    } else {
        ", same output"
    }
}

/// The timed runs of each way that ended unlike the first plain one, if there are any.
fn count_unlike(proof: &Proof) -> impl Iterator<Item = (&WayRuns, usize)> {
    let first = proof.plain().samples.first();
    let cases = first.into_iter().flat_map(|first| {
        proof.cases.iter().map(|case| {
            let is_unlike =
                |sample: &TimedRun| (sample.bytes, sample.status) != (first.bytes, first.status);
            (case, case.count_runs(is_unlike))
        })
    });
    cases.filter(|(_, unlike)| *unlike > 0)
}

/// `1MiB in place of 64KiB between cat and wc`.
fn describe(pipe: &TreatedPipe) -> String {
    let PipeName { writer, reader } = &pipe.name;
    match pipe.treatment {
        Treatment::Raised {
            from_bytes,
            to_bytes,
        } => {
            let count = match pipe.count {
                1 => String::new(),
                count => format!(" ({count} pipes)"),
            };
            let (from, to) = (size::format(from_bytes), size::format(to_bytes));
            format!("{to} in place of {from} between {writer} and {reader}{count}")
        }
        Treatment::Left(exemption) => format!(
            "the pipe between {writer} and {reader} was left as it is: {}",
            exemption.reason()
        ),
    }
}

fn describe_saving(boosted: &WayRuns) -> Option<String> {
    let saving = boosted.cpu_saving.filter(|_| boosted.is_known())?;
    let what = match saving.verdict {
        Verdict::Faster => "less processor time",
        Verdict::Slower => "more processor time",
        Verdict::Same | Verdict::Undecided => return None,
    };
    Some(format!("{what}: {}", ratio(saving.estimate.reciprocal())))
}

/// Why nothing was gained, as far as it was seen.
fn explain(proof: &Proof) -> Option<String> {
    let gain = match proof.verdict()? {
        Verdict::Faster => return None,
        Verdict::Slower => return explain_loss(proof),
        Verdict::Undecided => "no certain gain",
        Verdict::Same => "no gain beyond 5 %",
    };
    let boosted = proof.boosted();
    let left = || {
        let pipes = proof.pipes.iter().flatten();
        pipes.map(describe).collect::<Vec<String>>().join("; ")
    };
    let was_raised = proof.raised_pipes().next().is_some();
    let reason = if may_be_raised(boosted) {
        let limit = describe_limit(proof.bottleneck.as_ref()?, proof.verdict()?);
        if boosted
            .seconds
            .is_some_and(|seconds| seconds.median > MAX_WINDOW.as_secs_f64())
        {
            format!("in its first {} s {limit}", MAX_WINDOW.as_secs())
        } else {
            limit
        }
    } else if !was_raised && !left().is_empty() {
        left()
    } else if was_raised {
        "no pipe was raised in the timed runs".to_owned()
    } else if is_short(proof) {
        "no pipe was raised: the runs are short, or none carries much data".to_owned()
    } else {
        NONE_CARRIES_MUCH.to_owned()
    };
    Some(format!("{gain}: {reason}"))
}

/// What a small loss comes from. What the bottleneck does explains none.
fn explain_loss(proof: &Proof) -> Option<String> {
    let lost = proof.boosted().seconds?.median - proof.plain().seconds?.median;
    (0.0..=MAX_START_SECONDS).contains(&lost).then(|| {
        "slower: it may come from boost and the process beside it, which take some milliseconds of each run".to_owned()
    })
}

/// Whether a pipe was raised in one of these timed runs, as far as it is known.
fn may_be_raised(case: &WayRuns) -> bool {
    case.count_runs(|sample| sample.raised != Some(0)) > 0
}

/// Whether the plain runs take too little time for a certain gain.
fn is_short(proof: &Proof) -> bool {
    let seconds = proof.plain().seconds;
    seconds.is_some_and(|seconds| seconds.median < MIN_SECONDS)
}

/// What the bottleneck of the boosted command does, and what would help, if larger pipes don't.
fn describe_limit(bottleneck: &Bottleneck, verdict: Verdict) -> String {
    let text = describe_bottleneck(bottleneck, false);
    let does = format!("{} {}", bottleneck.stage.name, text.does);
    match verdict {
        Verdict::Undecided => format!("{does} with larger pipes"),
        _ => format!("{does}. {}", text.remedy).trim_end().to_owned(),
    }
}

fn doubts(proof: &Proof) -> impl Iterator<Item = String> {
    let output = match proof.output {
        Some(Sameness::PlainDiffers) => Some(
            "the output or exit status differs from run to run even without boosting".to_owned(),
        ),
        Some(Sameness::BoostedVaries) => {
            Some("the output of some boosted runs differed; the plain runs agreed".to_owned())
        }
        Some(Sameness::Differs) => Some("boosted, the command had a different output".to_owned()),
        Some(Sameness::StatusDiffers) => Some(
            "boosted, the command had the same output and another exit status, as can happen \
             where a reader ends early"
                .to_owned(),
        ),
        Some(Sameness::Same) | None => None,
    };
    let untimed = proof.pipes.as_ref();
    let untimed = untimed.map(|_| proof.raised_pipes().map(|pipes| pipes.count).sum());
    let timed = &proof.boosted().samples;
    let all: Vec<Option<u64>> = timed
        .iter()
        .map(|sample| sample.raised)
        .chain([untimed])
        .collect();
    let count = |what: &str, raised: Option<u64>| {
        let number = all.iter().filter(|other| **other == raised).count();
        let text = format!("{what} in {number} of {} boosted runs", all.len());
        (number > 0 && !timed.is_empty()).then_some((text, number))
    };
    let unknown = count("it is not known what was raised", None).map(|(text, _)| text);
    let unraised = count("no pipe was raised", Some(0));
    let unraised = unraised.and_then(|(text, number)| (number < all.len()).then_some(text));
    let unlike = count_unlike(proof)
        .map(|(case, unlike)| format!("{unlike} of {} {}", case.samples.len(), case.way.name()));
    let unlike =
        Some(unlike.collect::<Vec<String>>().join(" and ")).filter(|text| !text.is_empty());
    let unlike = unlike.map(|runs| {
        format!("another length of the output or exit status than at first in {runs} runs")
    });
    let failed = (proof.status != 0).then(|| format!("its exit status is {}", proof.status));
    let short = is_short(proof)
        .then(|| "it takes less than 50 ms: too short for a certain gain".to_owned());
    let few = proof.boosted().speed.and_then(|speed| match speed.reason? {
        Doubt::TooFewRounds => Some(format!(
            "too few pairs for a verdict (--prove={})",
            rounds_for_verdicts(proof.count_comparisons(), CONFIDENCE)
        )),
        Doubt::NullControl => Some(format!(
            "equal runs differ by nearly as much: more pairs may show whether it gains (--prove={})",
            2 * timed.len()
        )),
        Doubt::Interval | Doubt::WithinMargin => None,
    });
    let mut pipes = proof.pipes.iter().flatten();
    let is_already =
        |pipe: &TreatedPipe| matches!(pipe.treatment, Treatment::Left(Exemption::Already { .. }));
    let already = pipes.any(is_already).then(|| {
        "a pipe had the wanted size before it was raised: if another boost has set it, the plain \
         runs may have larger pipes, too"
            .to_owned()
    });
    let held = proof.held_by.as_ref().map(|holders| {
        format!(
            "after the command had ended, {holders} held its output open: what may come later was \
             not waited for"
        )
    });
    let doubts = [
        output, held, unlike, failed, unknown, unraised, already, short, few,
    ];
    doubts.into_iter().flatten()
}

/// What was done to the pipes of a pipeline: a sentence each.
pub fn describe_account(account: &Account) -> Vec<String> {
    let mut lines: Vec<String> = account.pipes.iter().map(describe).collect();
    if lines.is_empty() {
        lines.push(NONE_CARRIES_MUCH.to_owned());
    } else if account.count_raised() == 0 {
        lines.insert(0, "no pipe was raised".to_owned());
    }
    lines.extend(
        account.connected.iter().map(|[a, b]| {
            format!("{a} and {b} are connected by a socket, which boost leaves alone")
        }),
    );
    let share = if account.seconds >= MIN_SECONDS_FOR_SHARE {
        let percent = account.cpu_s / account.seconds * 100.0;
        format!(" ({} % of a processor)", significant(percent))
    } else {
        String::new()
    };
    lines.push(format!(
        "{} in {} s took {} ms of processor time{share}",
        pluralize(account.scans as usize, "scan"),
        significant(account.seconds),
        significant(account.cpu_s * 1e3),
    ));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipespeed_pipeline::fixtures;
    use pipespeed_pipeline::sample::Shares;

    fn named(writer: &str, reader: &str) -> PipeName {
        PipeName {
            writer: writer.to_owned(),
            reader: reader.to_owned(),
        }
    }

    fn pipe(writer: &str, reader: &str, count: u64) -> TreatedPipe {
        TreatedPipe {
            name: named(writer, reader),
            treatment: Treatment::Raised {
                from_bytes: 65536,
                to_bytes: 1 << 20,
            },
            count,
        }
    }

    fn case(way: ProofWay, seconds: f64, cpu_s: f64) -> WayRuns {
        let sample = |round: usize| TimedRun {
            round,
            position: 0,
            seconds: seconds * (1.0 + 0.005 * (round % 5) as f64),
            cpu_s: cpu_s * (1.0 + 0.005 * (round % 3) as f64),
            bytes: 7,
            status: 0,
            raised: (way != ProofWay::Plain).then_some(1),
        };
        WayRuns {
            samples: (0..10).map(sample).collect(),
            ..WayRuns::new(way)
        }
    }

    fn proof(boosted_s: f64) -> Proof {
        let shell = Some("/bin/bash".to_owned());
        let mut proof = Proof::new("cat big.bin | wc -l".to_owned(), shell, None);
        proof.output = Some(Sameness::Same);
        proof.pipes = Some(vec![pipe("cat", "wc", 1)]);
        proof.cases = vec![
            case(ProofWay::Plain, 0.41, 0.43),
            case(ProofWay::Boosted, boosted_s, 0.3),
        ];
        proof.evaluate();
        proof
    }

    fn screen(proof: &Proof) -> String {
        describe_proof(proof, Style::of_width(100))
    }

    #[test]
    fn a_gain_names_the_pipes_and_the_portable_line() {
        let mut gain = proof(0.15);
        gain.portable = Some("pipesz -s 1M cat big.bin | wc -l".to_owned());
        let mut each = proof(0.15);
        each.pipes.as_mut().unwrap().push(pipe("tr", "wc", 3));
        let without = |writer| ProofWay::Without(named(writer, "wc"));
        each.cases.push(case(without("cat"), 0.4, 0.43));
        each.cases.push(case(without("tr"), 0.4, 0.43));
        each.cases[3].samples[2].raised = None;
        each.evaluate();
        insta::assert_snapshot!([screen(&gain), screen(&each)].join("\n"));
    }

    #[test]
    fn without_a_gain_the_reason_is_named() {
        let mut busy = proof(0.41);
        let runs = Shares {
            runs: 0.98,
            ..Shares::default()
        };
        busy.bottleneck = Some(fixtures::bottleneck(7, "zcat", runs));
        let mut none = proof(0.41);
        none.pipes = Some(Vec::new());
        for sample in &mut none.cases[1].samples {
            sample.raised = Some(0);
        }
        let mut late = proof(0.41);
        late.cases[1].samples = none.cases[1].samples.clone();
        let mut short = none.clone();
        for case in &mut short.cases {
            case.samples
                .iter_mut()
                .for_each(|sample| sample.seconds /= 10.0);
        }
        short.evaluate();
        let mut chosen = none.clone();
        chosen.pipes = Some(vec![TreatedPipe {
            treatment: Treatment::Left(Exemption::Chosen),
            ..pipe("yes", "pv", 1)
        }]);
        let mut already = none.clone();
        let size_bytes = 1 << 20;
        already.pipes = Some(vec![TreatedPipe {
            treatment: Treatment::Left(Exemption::Already { size_bytes }),
            ..pipe("yes", "pv", 1)
        }]);
        let all = [busy, none, late, short, chosen, already];
        insta::assert_snapshot!(all.map(|proof| screen(&proof)).join("\n"));
    }

    #[test]
    fn what_casts_doubt_is_a_note() {
        let with = |output| {
            let mut proof = proof(0.02);
            proof.cases[0] = case(ProofWay::Plain, 0.03, 0.04);
            proof.status = 3;
            proof.held_by = Some("sleep (pid 4711)".to_owned());
            proof.evaluate();
            Proof {
                output: Some(output),
                ..proof
            }
        };
        let all = [
            Sameness::PlainDiffers,
            Sameness::BoostedVaries,
            Sameness::Differs,
            Sameness::StatusDiffers,
        ];
        insta::assert_snapshot!(all.map(|output| screen(&with(output))).join("\n"));
    }

    #[test]
    fn why_a_gain_has_no_verdict_is_a_note() {
        // Each second run takes longer: equal runs differ as much as the two ways.
        let mut uneven = proof(0.25);
        for case in &mut uneven.cases {
            let samples = case.samples.iter_mut();
            samples.step_by(2).for_each(|sample| sample.seconds *= 1.7);
        }
        uneven.evaluate();
        let uneven = screen(&uneven);
        assert!(
            uneven.contains("more pairs may show whether it gains (--prove=20)"),
            "{uneven}"
        );
        let mut few = proof(0.25);
        few.cases
            .iter_mut()
            .for_each(|case| case.samples.truncate(2));
        few.evaluate();
        assert!(screen(&few).contains("too few pairs for a verdict"));
    }

    #[test]
    fn what_was_not_compared_is_not_claimed() {
        let mut silent = proof(0.15);
        for case in &mut silent.cases {
            case.samples.iter_mut().for_each(|sample| sample.bytes = 0);
        }
        let mut unknown = proof(0.41);
        unknown.cases[1].samples[3].raised = None;
        let mut unraised = proof(0.41);
        unraised.cases[1].samples[3].raised = Some(0);
        let mut unlike = proof(0.15);
        unlike.cases[0].samples[3].status = 1;
        unlike.cases[1].samples[3].bytes = 1;
        let all = [silent, unknown, unraised, unlike];
        insta::assert_snapshot!(all.map(|proof| screen(&proof)).join("\n"));
    }

    #[test]
    fn an_account_is_a_line_a_pipe() {
        let account = Account {
            pipes: vec![pipe("cat", "wc", 1), pipe("yes", "head", 12)],
            connected: vec![["node", "sh"].map(str::to_owned)],
            cpu_s: 0.0123,
            seconds: 3.5,
            scans: 80,
        };
        insta::assert_snapshot!(describe_account(&account).join("\n"));
        let nothing = "no pipe was raised: none that is a program's standard input was seen to carry much data\n\
                       0 scans in 0 s took 0 ms of processor time";
        assert_eq!(describe_account(&Account::default()).join("\n"), nothing);
    }
}
