//! What a boosted pipeline gains: whole runs, compared in pairs.

use std::time::Duration;

use serde::Serialize;

use pipespeed_measure::record::{NotRun, Record};
use pipespeed_pipeline::boost::{PipeName, TreatedPipe};
use pipespeed_pipeline::diagnosis::Bottleneck;
use pipespeed_pipeline::raise::Treatment;
use pipespeed_stats::{self as stats, Estimate, Ratio, Verdict};

/// The confidence level of the intervals.
pub const CONFIDENCE: f64 = 0.95;
/// A run is observed for at most this long.
pub(super) const MAX_WINDOW: Duration = Duration::from_secs(10);

/// How the pipeline is run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ProofWay {
    /// As it is.
    #[default]
    Plain,
    /// With all pipes raised.
    Boosted,
    /// With all pipes raised but those between these programs.
    Without(PipeName),
}

impl ProofWay {
    /// Its name in progress and tables.
    pub fn name(&self) -> String {
        match self {
            ProofWay::Plain => "plain".to_owned(),
            ProofWay::Boosted => "boosted".to_owned(),
            ProofWay::Without(pipe) => format!("without {pipe}"),
        }
    }
}

/// One timed run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TimedRun {
    /// The round, from 0.
    pub round: usize,
    /// The position within the round, from 0.
    pub position: usize,
    /// From the start to the end of the command and of its output.
    pub seconds: f64,
    /// Processor time of the command's processes, those it left behind included, and of what
    /// boosted them.
    pub cpu_s: f64,
    /// Bytes on standard output.
    pub bytes: u64,
    /// The exit status, as shells show it.
    pub status: i32,
    /// Number of pipes raised; null for plain runs, if what boosted them reported nothing, and
    /// if the pipe that is left out was not seen.
    pub raised: Option<u64>,
}

/// The runs of one way.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WayRuns {
    /// How it was run.
    pub way: ProofWay,
    /// Why there are no runs; null if there are.
    pub not_run: Option<NotRun>,
    /// The runs, in the order of their rounds.
    pub samples: Vec<TimedRun>,
    /// Median duration in seconds.
    pub seconds: Option<Estimate>,
    /// Median processor time in seconds.
    pub cpu_s: Option<Estimate>,
    /// How many times as fast it is as the plain runs of the same rounds, if no pipe is left out.
    pub speed: Option<Ratio>,
    /// The processor time of the plain runs over its own, if no pipe is left out: above 1 it takes less.
    pub cpu_saving: Option<Ratio>,
    /// How many times as fast the boosted runs are, if one is left out: what that pipe gains.
    pub boosted_speed: Option<Ratio>,
}

impl WayRuns {
    /// A case without runs.
    pub fn new(way: ProofWay) -> Self {
        WayRuns {
            way,
            ..WayRuns::default()
        }
    }

    /// The ratios of a value of these runs to that of others, by round.
    fn ratios(&self, others: &WayRuns, value: fn(&TimedRun) -> f64) -> Vec<f64> {
        let [these, others] = [self, others].map(|case| {
            let samples = case.samples.iter();
            let values = samples.map(|sample| (sample.round, value(sample)));
            values.collect::<Vec<_>>()
        });
        stats::paired_ratios(&these, &others)
    }

    /// Whether it is known of all runs how many pipes were raised, and that one was left out.
    pub fn is_known(&self) -> bool {
        self.count_runs(|sample| sample.raised.is_none()) == 0
    }

    /// The number of these runs.
    pub fn count_runs(&self, is_counted: impl Fn(&TimedRun) -> bool) -> usize {
        self.samples
            .iter()
            .filter(|sample| is_counted(sample))
            .count()
    }

    fn estimate(&self, value: fn(&TimedRun) -> f64) -> Option<Estimate> {
        let values: Vec<f64> = self.samples.iter().map(value).collect();
        Estimate::new(&values, CONFIDENCE)
    }
}

/// What the outputs of the untimed runs were like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sameness {
    /// The same bytes and the same exit status.
    Same,
    /// Plain runs differ from each other in their bytes or exit status.
    PlainDiffers,
    /// Plain runs are equal, and some boosted ones differ from them.
    BoostedVaries,
    /// Plain runs are equal, and all boosted ones differ in their bytes.
    Differs,
    /// The bytes are the same, and all boosted runs ended with another exit status.
    StatusDiffers,
}

/// How the runs were made.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ProofSettings {
    /// The seed of the order.
    pub seed: u64,
    /// The number of pairs planned.
    pub rounds_planned: usize,
    /// The number of pairs completed.
    pub rounds_done: usize,
    /// The design of the order.
    pub order: String,
}

/// The saved record.
pub type ProofRecord = Record<ProofSettings, Proof>;

/// The runs of a pipeline, and what they say.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Proof {
    /// The command; several words are quoted for sh(1).
    pub pipeline: String,
    /// The shell that ran it; null for a program with arguments.
    pub shell: Option<String>,
    /// The standard input of each run; null if it was empty.
    pub input: Option<String>,
    /// The comparison of the outputs; null before it.
    pub output: Option<Sameness>,
    /// The exit status of the first plain run.
    pub status: i32,
    /// Who held the output of that run open after the command had ended and nothing more came;
    /// null if nobody did.
    pub held_by: Option<String>,
    /// What was done to the pipes in the untimed boosted run; null if that is not known.
    pub pipes: Option<Vec<TreatedPipe>>,
    /// The bottleneck when boosted; null if none does or the run was too
    /// short to say.
    pub bottleneck: Option<Bottleneck>,
    /// The command line that raises the same pipes without pipespeed; null if there is none.
    pub portable: Option<String>,
    /// The ways of running it: plain, boosted, and then with each pipe left out.
    pub cases: Vec<WayRuns>,
    /// The duration of each run over that of the next of its case, in disjoint pairs: 1 within
    /// its interval, if the machine was quiet.
    pub null_control: Option<Ratio>,
}

impl Proof {
    /// The proof of a command, before its first run.
    pub fn new(pipeline: String, shell: Option<String>, input: Option<String>) -> Self {
        Proof {
            pipeline,
            shell,
            input,
            cases: [ProofWay::Plain, ProofWay::Boosted]
                .map(WayRuns::new)
                .to_vec(),
            ..Proof::default()
        }
    }

    /// Whether anything was gained. `None` before that is known, and if not all boosted runs
    /// are known to have been boosted.
    pub fn verdict(&self) -> Option<Verdict> {
        let boosted = Some(self.boosted()).filter(|case| case.is_known())?;
        Some(boosted.speed?.verdict)
    }

    /// The pipes that were raised in the untimed boosted run.
    pub fn raised_pipes(&self) -> impl Iterator<Item = &TreatedPipe> {
        let pipes = self.pipes.iter().flatten();
        pipes.filter(|pipe| pipe.is_raised())
    }

    /// The plain runs.
    pub fn plain(&self) -> &WayRuns {
        &self.cases[0]
    }

    /// The boosted runs.
    pub fn boosted(&self) -> &WayRuns {
        &self.cases[1]
    }

    /// Whether any run was timed.
    pub fn has_results(&self) -> bool {
        self.cases.iter().any(|case| !case.samples.is_empty())
    }

    /// The number of comparisons: of the duration and the processor time, and of each pipe that is left out.
    pub fn count_comparisons(&self) -> usize {
        self.cases.len()
    }

    /// Computes estimates and ratios from the samples. All comparisons are one family; the
    /// null control is a family of its own.
    pub fn evaluate(&mut self) {
        for case in &mut self.cases {
            case.seconds = case.estimate(|sample| sample.seconds);
            case.cpu_s = case.estimate(|sample| sample.cpu_s);
        }
        let repeats = self.cases.iter().flat_map(repeats).collect();
        self.null_control = stats::holm_ratios(&[repeats], CONFIDENCE)[0];
        let tolerance = self.null_control.map_or(0.0, |ratio| ratio.tolerance());
        let (plain, boosted) = (self.plain(), self.boosted());
        let others = self.cases[1..].iter();
        let family: Vec<Vec<f64>> = others
            .flat_map(|case| {
                // Time is the reciprocal of speed.
                let seconds = |sample: &TimedRun| sample.seconds;
                if case.way == ProofWay::Boosted {
                    let cpu_saving = plain.ratios(case, |sample| sample.cpu_s);
                    [plain.ratios(case, seconds), cpu_saving, Vec::new()]
                } else {
                    [Vec::new(), Vec::new(), case.ratios(boosted, seconds)]
                }
            })
            .collect();
        let ratios = stats::holm_ratios(&family, CONFIDENCE);
        for (case, ratios) in self.cases[1..].iter_mut().zip(ratios.chunks_exact(3)) {
            let ratio = |at: usize| Some(ratios[at]?.allowing_for(tolerance));
            (case.speed, case.cpu_saving, case.boosted_speed) = (ratio(0), ratio(1), ratio(2));
        }
    }
}

/// The ratios of the durations of two successive runs of a case, each run used once.
fn repeats(case: &WayRuns) -> Vec<f64> {
    let pairs = case.samples.chunks_exact(2);
    pairs
        .map(|pair| pair[0].seconds / pair[1].seconds)
        .filter(|ratio| ratio.is_finite() && *ratio > 0.0)
        .collect()
}

/// The command line that raises the same pipes by pipesz of util-linux (2.39 and later). There
/// is one if the command is a plain pipeline, and if each of its pipes that was raised is the
/// output of a stage with that name. `is_program` says whether a word is a program to be
/// executed.
pub fn portable(
    pipeline: &str,
    pipes: &[TreatedPipe],
    is_program: &dyn Fn(&str) -> bool,
) -> Option<String> {
    let stages = split(pipeline)?;
    let mut lines = Vec::new();
    let mut wrapped = 0;
    let raised = || pipes.iter().filter(|pipe| pipe.is_raised());
    for (at, stage) in stages.iter().enumerate() {
        let name = |stage: &str| -> Option<String> {
            let word = stage.split_whitespace().next()?;
            let name = word.rsplit('/').next()?;
            // The kernel cuts names (TASK_COMM_LEN).
            Some(name.chars().take(15).collect())
        };
        let own = PipeName {
            writer: name(stage)?,
            reader: stages
                .get(at + 1)
                .and_then(|stage| name(stage))
                .unwrap_or_default(),
        };
        let is_own = |pipe: &&TreatedPipe| pipe.name == own;
        match raised().find(is_own).map(|pipe| pipe.treatment) {
            Some(Treatment::Raised { to_bytes, .. }) => {
                if !is_program(stage.split_whitespace().next()?) {
                    return None;
                }
                wrapped += 1;
                lines.push(format!("pipesz -s {} {stage}", in_units(to_bytes)));
            }
            _ => lines.push(stage.clone()),
        }
    }
    let total: u64 = raised().map(|pipe| pipe.count).sum();
    (wrapped > 0 && wrapped == total).then(|| lines.join(" | "))
}

/// A size as pipesz(1) reads it.
fn in_units(bytes: u64) -> String {
    if bytes.is_multiple_of(1 << 20) {
        format!("{}M", bytes >> 20)
    } else {
        format!("{}K", bytes >> 10)
    }
}

/// The stages of a pipeline of simple commands. `None` if it is anything else, or hard to
/// say: with variables before a command, lists, subshells, expansions that run commands, or
/// several lines.
fn split(pipeline: &str) -> Option<Vec<String>> {
    let mut stages = vec![String::new()];
    let mut quote = None;
    for letter in pipeline.trim().chars() {
        match (quote, letter) {
            (None, '|') => {
                stages.push(String::new());
                continue;
            }
            (None, ';' | '&' | '(' | ')' | '{' | '}' | '#' | '!' | '>') => return None,
            (None | Some('"'), '`' | '$' | '\\') | (_, '\n') => return None,
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            _ => {}
        }
        stages.last_mut()?.push(letter);
    }
    let stages: Vec<String> = stages.iter().map(|stage| stage.trim().to_owned()).collect();
    let is_simple = |stage: &String| {
        let first = stage.split_whitespace().next();
        first.is_some_and(|word| {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./+-".contains(c);
            word.chars().all(is_plain) && !is_shell_word(word)
        })
    };
    (quote.is_none() && stages.iter().all(is_simple)).then_some(stages)
}

/// Whether a word begins a compound command, or may be defined by the shell itself.
fn is_shell_word(word: &str) -> bool {
    const WORDS: [&str; 26] = [
        "if", "while", "until", "for", "case", "select", "time", "function", "coproc", "exec",
        "eval", "command", "builtin", "read", "cd", "set", "echo", "printf", "test", "true",
        "false", "wait", "trap", "source", ".", "then",
    ];
    WORDS.contains(&word)
}

#[cfg(test)]
mod tests {
    use pipespeed_stats::Doubt;

    use super::*;

    fn raised_pipe(writer: &str, reader: &str) -> TreatedPipe {
        TreatedPipe {
            name: PipeName {
                writer: writer.to_owned(),
                reader: reader.to_owned(),
            },
            treatment: Treatment::Raised {
                from_bytes: 65536,
                to_bytes: 1 << 20,
            },
            count: 1,
        }
    }

    #[test]
    fn a_simple_pipeline_has_a_portable_line() {
        let line = |pipeline: &str, pipes: &[TreatedPipe]| portable(pipeline, pipes, &|_| true);
        let cat_wc = [raised_pipe("cat", "wc")];
        assert_eq!(
            line("cat big.bin | wc -l", &cat_wc).as_deref(),
            Some("pipesz -s 1M cat big.bin | wc -l")
        );
        assert_eq!(
            line(
                "/bin/cat 'a|b' |grep \"x y\" | wc",
                &[raised_pipe("grep", "wc")]
            )
            .as_deref(),
            Some("/bin/cat 'a|b' | pipesz -s 1M grep \"x y\" | wc")
        );
        let both = [raised_pipe("cat", "cat"), raised_pipe("cat", "wc")];
        assert_eq!(
            line("cat a | cat | wc", &both).as_deref(),
            Some("pipesz -s 1M cat a | pipesz -s 1M cat | wc")
        );
        for pipeline in [
            "cat $FILE | wc",
            "for f in a b; do cat $f; done | wc",
            "(cat a; cat b) | wc",
            "LANG=C cat a | wc",
            "cat a > b | wc",
            "cat a || wc",
            "cat a | wc &",
            "cat `ls` | wc",
            "cat 'a | wc",
            "tac a | wc",
            "cat a",
        ] {
            assert_eq!(line(pipeline, &cat_wc), None, "{pipeline}");
        }
        assert_eq!(line("cat a | wc", &[]), None);
        assert_eq!(portable("cat a | wc", &cat_wc, &|_| false), None);
    }

    fn proof(plain: &[f64], boosted: &[f64]) -> Proof {
        let mut proof = Proof::new("cat a | wc".to_owned(), None, None);
        for (case, seconds) in proof.cases.iter_mut().zip([plain, boosted]) {
            let sample = |(round, seconds): (usize, &f64)| TimedRun {
                round,
                position: 0,
                seconds: *seconds,
                cpu_s: seconds / 2.0,
                bytes: 1,
                status: 0,
                raised: Some(1),
            };
            case.samples = seconds.iter().enumerate().map(sample).collect();
        }
        proof.evaluate();
        proof
    }

    #[test]
    fn gain_is_faster_and_the_null_control_is_the_same() {
        let around = |seconds: f64| -> Vec<f64> {
            (0..10)
                .map(|i| seconds * (1.0 + 0.001 * f64::from(i % 3)))
                .collect()
        };
        let found = proof(&around(0.4), &around(0.2));
        assert_eq!(found.verdict(), Some(Verdict::Faster));
        let boosted = found.boosted();
        assert!((boosted.speed.unwrap().estimate.median - 2.0).abs() < 0.01);
        assert!((boosted.cpu_saving.unwrap().estimate.median - 2.0).abs() < 0.01);
        assert_eq!(found.null_control.unwrap().verdict, Verdict::Same);
        let none = proof(&around(0.4), &around(0.4));
        assert_eq!(none.verdict(), Some(Verdict::Same));
    }

    #[test]
    fn a_gain_that_equal_runs_show_too_is_undecided() {
        // Each second run takes up to twice as long, plain or boosted.
        let unequal = |seconds: f64| -> Vec<f64> {
            (0..20)
                .map(|at| match at % 4 {
                    1 => seconds * 2.0,
                    3 => seconds * 0.5,
                    _ => seconds,
                })
                .collect()
        };
        let found = proof(&unequal(0.4), &unequal(0.25));
        let speed = found.boosted().speed.unwrap();
        assert!((speed.estimate.median - 1.6).abs() < 0.01);
        assert!(found.null_control.unwrap().tolerance() > 0.6);
        assert_eq!(
            (speed.verdict, speed.reason),
            (Verdict::Undecided, Some(Doubt::NullControl))
        );
    }

    #[test]
    fn runs_not_known_to_be_boosted_have_no_verdict() {
        let mut found = proof(&[0.4; 10], &[0.2; 10]);
        found.cases[1].samples[3].raised = None;
        assert_eq!(found.verdict(), None);
        assert!(!found.boosted().is_known());
    }

    #[test]
    fn too_few_pairs_are_undecided() {
        let found = proof(&[0.4, 0.4], &[0.2, 0.2]);
        assert_eq!(found.verdict(), Some(Verdict::Undecided));
        assert_eq!(proof(&[], &[]).verdict(), None);
    }
}
