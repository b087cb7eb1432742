//! What boosting a pipeline gained, as a few lines.

use itertools::Itertools as _;
use pipespeed_base::size;
use pipespeed_pipeline::boost::{Account, LeftPipe, RaisedPipe};
use pipespeed_pipeline::diagnosis::Pace;
use pipespeed_pipeline::proof::{Case, Proof, Sameness, Way};
use pipespeed_pipeline::wait::Outside;
use pipespeed_stats::{Estimate, Interval, Verdict};

use super::format::{interval, pluralize, ratio, significant};
use super::style::{BOLD, GREEN, RED, Style, YELLOW};

/// In a shorter time the start of the process that raises the pipes hides what it takes.
const MIN_SECONDS_FOR_SHARE: f64 = 0.1;

/// What was gained, by which pipes, and if nothing, why.
pub fn boost(proof: &Proof, style: Style) -> String {
    let mut lines = Vec::new();
    let names = proof.cases.iter().map(|case| case.way.name().len());
    let width = names.max().unwrap_or(0);
    for case in proof.cases.iter().filter(|case| !case.samples.is_empty()) {
        let line = format!("  {}", measured(case, width));
        let line = match ratio_of(proof, case) {
            Some(text) => format!("{line}   {text}"),
            None => line,
        };
        let colour = match (&case.way, proof.verdict()) {
            (Way::Boosted, Some(Verdict::Faster)) => GREEN,
            (Way::Boosted, Some(Verdict::Slower)) => RED,
            (Way::Boosted, _) => BOLD,
            _ => "",
        };
        lines.push(if colour.is_empty() {
            style.sentence(&line)
        } else {
            style.note(&line, colour)
        });
        if case.way == Way::Boosted {
            let raised = proof.raised.iter().map(raised);
            lines.extend(raised.map(|text| style.sentence(&format!("    {text}"))));
            lines.extend(saving(case).map(|text| style.sentence(&format!("    {text}"))));
        }
    }
    if let Some(why) = why_not(proof) {
        lines.push(style.sentence(&format!("  {why}")));
    }
    if let Some(portable) = &proof.portable {
        lines.push(format!("  without pipespeed:  {portable}"));
    }
    if let Some(control) = proof
        .null_control
        .filter(|it| it.estimate.interval.is_some())
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
fn measured(case: &Case, width: usize) -> String {
    let time = |estimate: Option<Estimate>| match estimate {
        Some(it) => format!("{} s {}", significant(it.median), interval(it.interval)),
        None => "?".to_owned(),
    };
    let cpu = case.cpu_s.map_or(f64::NAN, |it| it.median);
    let name = format!("{:width$}", case.way.name());
    format!(
        "{name}  {}  CPU {} s",
        time(case.seconds).trim_end(),
        significant(cpu)
    )
}

fn ratio_of(proof: &Proof, case: &Case) -> Option<String> {
    if case.way == Way::Boosted {
        let speed = case.speed?;
        let output = match proof.output {
            Some(Sameness::Same) => ", same output",
            _ => "",
        };
        Some(format!(
            "{} {}{output}",
            ratio(speed.estimate),
            speed.verdict.name()
        ))
    } else {
        let speed = case.boosted_speed?;
        Some(format!(
            "that pipe: {} {}",
            ratio(speed.estimate),
            speed.verdict.name()
        ))
    }
}

/// `1MiB in place of 64KiB between cat and wc`.
fn raised(pipe: &RaisedPipe) -> String {
    let count = match pipe.count {
        1 => String::new(),
        count => format!(" ({count} pipes)"),
    };
    format!(
        "{} in place of {} between {} and {}{count}",
        size::format(pipe.to_bytes),
        size::format(pipe.from_bytes),
        pipe.writer,
        pipe.reader
    )
}

fn left(pipe: &LeftPipe) -> String {
    let (writer, reader) = (&pipe.writer, &pipe.reader);
    format!(
        "the pipe between {writer} and {reader} was left as it is: {}",
        pipe.reason.reason()
    )
}

fn saving(boosted: &Case) -> Option<String> {
    let saving = boosted.cpu_saving?;
    let what = match saving.verdict {
        Verdict::Faster => "less processor time",
        Verdict::Slower => "more processor time",
        Verdict::Same | Verdict::Undecided => return None,
    };
    let share = Estimate {
        median: 1.0 / saving.estimate.median,
        interval: saving.estimate.interval.map(|it| Interval {
            low: 1.0 / it.high,
            high: 1.0 / it.low,
            ..it
        }),
    };
    Some(format!("{what}: {}", ratio(share)))
}

/// Why nothing was gained; `None` if something was, or before that is known.
fn why_not(proof: &Proof) -> Option<String> {
    let speed = proof.boosted()?.speed?;
    if speed.verdict == Verdict::Faster {
        return None;
    }
    if proof.raised.is_empty() {
        let reasons = proof.left.iter().map(left).join("; ");
        return Some(if reasons.is_empty() {
            "no gain: no pipe was raised, since none carried much data between two programs"
                .to_owned()
        } else {
            format!("no gain: {reasons}")
        });
    }
    let gain = match speed.verdict {
        Verdict::Slower => "slower",
        Verdict::Undecided => "no certain gain",
        _ => "no gain",
    };
    proof
        .pace
        .as_ref()
        .map(|pace| format!("{gain}: {}", limit(pace)))
}

/// What the stage that sets the pace does, and what would help.
fn limit(pace: &Pace) -> String {
    let (name, shares) = (&pace.stage.name, &pace.shares);
    let percent = |share: f64| format!("{:.0} % of the time", share * 100.0);
    let outside = pace.outside.unwrap_or(Outside::Other);
    if shares.working >= shares.disk.max(shares.elsewhere) {
        format!(
            "{name} works {}: nothing around it helps; a faster {name} would",
            percent(shares.working)
        )
    } else if shares.disk >= shares.elsewhere {
        format!(
            "{name} waits for a disk {}: a faster disk or less data would help",
            percent(shares.disk)
        )
    } else {
        format!(
            "{name} waits for {} {}: the pipes are not the cause",
            outside.name(),
            percent(shares.elsewhere)
        )
    }
}

fn doubts(proof: &Proof) -> impl Iterator<Item = String> {
    let output = match proof.output {
        Some(Sameness::PlainDiffers) => {
            Some("the output differs from run to run even without boosting".to_owned())
        }
        Some(Sameness::Differs) => Some("boosted, the command had a different output".to_owned()),
        Some(Sameness::StatusDiffers) => Some(
            "boosted, the command had the same output and another exit status: a reader that \
             ends early leaves more in a larger pipe"
                .to_owned(),
        ),
        Some(Sameness::Same) | None => None,
    };
    let failed = (proof.status != 0).then(|| format!("its exit status is {}", proof.status));
    let seconds = proof.plain().and_then(|case| case.seconds);
    let short = seconds.filter(|it| it.median < 0.05);
    let short = short.map(|_| {
        "it takes less than 50 ms: most of that is starting programs, which no pipe changes"
            .to_owned()
    });
    let speed = proof.boosted().and_then(|case| case.speed);
    let few = speed.filter(|it| {
        let excludes_one = |it: Interval| it.low > 1.0 || it.high < 1.0;
        it.verdict == Verdict::Undecided && it.estimate.interval.is_none_or(excludes_one)
    });
    let few = few.map(|_| "too few pairs for a verdict: the default is 10".to_owned());
    [output, failed, short, few].into_iter().flatten()
}

/// What was done to the pipes of a pipeline: a sentence each.
pub fn boosted(account: &Account) -> Vec<String> {
    let mut lines: Vec<String> = account.raised.iter().map(raised).collect();
    if lines.is_empty() {
        lines.push("no pipe was raised".to_owned());
    }
    lines.extend(account.left.iter().map(left));
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
    use pipespeed_pipeline::diagnosis::{Certainty, Who};
    use pipespeed_pipeline::observe::Shares;
    use pipespeed_pipeline::proof::Sample;
    use pipespeed_pipeline::raise::Left;

    fn pipe(writer: &str, reader: &str, count: u64) -> RaisedPipe {
        RaisedPipe {
            writer: writer.to_owned(),
            reader: reader.to_owned(),
            from_bytes: 65536,
            to_bytes: 1 << 20,
            count,
        }
    }

    fn case(way: Way, seconds: f64, cpu_s: f64) -> Case {
        let sample = |round: usize| Sample {
            round,
            position: 0,
            seconds: seconds * (1.0 + 0.005 * (round % 5) as f64),
            cpu_s: cpu_s * (1.0 + 0.005 * (round % 3) as f64),
            bytes: 7,
            status: 0,
        };
        Case {
            samples: (0..10).map(sample).collect(),
            ..Case::new(way)
        }
    }

    fn proof(boosted_s: f64) -> Proof {
        let mut proof = Proof {
            pipeline: "cat big.bin | wc -l".to_owned(),
            shell: Some("/bin/bash".to_owned()),
            input: None,
            pairs: 10,
            seed: 1,
            order: "williams, 5 complete sets".to_owned(),
            interrupted: None,
            output: Some(Sameness::Same),
            status: 0,
            raised: vec![pipe("cat", "wc", 1)],
            left: Vec::new(),
            pace: None,
            portable: None,
            cases: vec![
                case(Way::Plain, 0.41, 0.43),
                case(Way::Boosted, boosted_s, 0.3),
            ],
            null_control: None,
        };
        proof.evaluate();
        proof
    }

    fn screen(proof: &Proof) -> String {
        boost(proof, Style::of_width(100))
    }

    #[test]
    fn a_gain_names_the_pipes_and_the_portable_line() {
        let mut gain = proof(0.15);
        gain.portable = Some("pipesz -s 1M cat big.bin | wc -l".to_owned());
        let mut each = proof(0.15);
        each.raised.push(pipe("tr", "wc", 3));
        let without = Way::Without {
            writer: "cat".to_owned(),
            reader: "wc".to_owned(),
        };
        each.cases.push(case(without, 0.4, 0.43));
        each.evaluate();
        insta::assert_snapshot!([screen(&gain), screen(&each)].join("\n"));
    }

    #[test]
    fn without_a_gain_the_reason_is_named() {
        let mut busy = proof(0.41);
        busy.pace = Some(Pace {
            stage: Who {
                pid: 7,
                name: "zcat".to_owned(),
            },
            certainty: Certainty::Clear,
            shares: Shares {
                working: 0.98,
                ..Shares::default()
            },
            outside: None,
            before: Vec::new(),
            after: Vec::new(),
        });
        let mut none = proof(0.41);
        none.raised.clear();
        let mut chosen = none.clone();
        chosen.left.push(LeftPipe {
            writer: "yes".to_owned(),
            reader: "pv".to_owned(),
            reason: Left::Chosen,
            count: 1,
        });
        insta::assert_snapshot!([busy, none, chosen].map(|it| screen(&it)).join("\n"));
    }

    #[test]
    fn what_casts_doubt_is_a_note() {
        let with = |output| {
            let mut proof = proof(0.02);
            proof.cases[0] = case(Way::Plain, 0.03, 0.04);
            proof.status = 3;
            proof.evaluate();
            Proof {
                output: Some(output),
                ..proof
            }
        };
        let all = [
            Sameness::PlainDiffers,
            Sameness::Differs,
            Sameness::StatusDiffers,
        ];
        insta::assert_snapshot!(all.map(|output| screen(&with(output))).join("\n"));
    }

    #[test]
    fn an_account_is_a_line_a_pipe() {
        let account = Account {
            raised: vec![pipe("cat", "wc", 1), pipe("yes", "head", 12)],
            cpu_s: 0.0123,
            seconds: 3.5,
            scans: 80,
            ..Account::default()
        };
        insta::assert_snapshot!(boosted(&account).join("\n"));
        let nothing = "no pipe was raised\n0 scans in 0 s took 0 ms of processor time";
        assert_eq!(boosted(&Account::default()).join("\n"), nothing);
    }
}
