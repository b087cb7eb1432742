//! `pipespeed boost`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::number::whole;

/// The end of the short help.
const EXAMPLES: &str = "\
Examples:
  pipespeed boost 'zcat a.gz | grep -v bot | sort | uniq -c'
  pipespeed boost --prove 'cat big.bin | wc -l'    does it help, and how much?
  pipespeed boost --pid 4711                       a pipeline that is running
  pipespeed boost --pid $$ --follow                this shell from now on";

/// The long help has this before the examples.
const METHOD: &str = "\
COMMAND is one quoted string for the shell, or a program and its arguments. A process \
beside it raises its pipes from 64 KiB to 1 MiB as they appear, and this process becomes \
the shell: exit status, signals, job control and terminal are the shell's own, and nothing \
stands in the data's way.

It raises pipes that one process of the pipeline reads as its standard input and another one \
writes to: at most 16 at a time. It leaves alone pipes whose size a program has chosen, those \
with a writer seen in vmsplice(2), FIFOs, and those of other users. No pipe is made smaller.

--pid looks for about 0.3 s and prints on standard output what was raised, and why other pipes were \
not: one to which less than 32 KiB was written so far is left as it is; --follow raises it once \
more was written. With --follow it prints nothing.

What can differ: a reader that ends early, such as head, leaves more in a larger pipe, so \
that the programs before it may have written more and end with status 0 in place of 141 \
(SIGPIPE). A program that counts reads, such as dd bs=1M count=10 without iflag=fullblock, \
gets more with each. A live stream is up to 1 MiB later. A program that relies on the default size \
with vmsplice(2) and writes 32 KiB by write(2) before, or follows a program that did, on the same \
pipe, may send wrong bytes. Nothing is promised for pipelines that \
take less than 50 ms, and nothing is gained where one busy stage is the bottleneck.

--prove runs COMMAND twice to compare its output, and then PAIRS times as it is and PAIRS \
times boosted, in balanced order, with all its side effects; up to 4 times more if its output \
differs. Its standard output is read through a pipe and discarded; its standard input is empty \
unless --input is given.

Exit status: that of COMMAND; 126 or 127 if it can't be run; 2 for wrong usage. With --pid: 0, whether or not a pipe was raised. With --prove: 0, whether or not anything was gained; 1 if the outputs differ, if COMMAND can't be run, or if anything else failed; 130 after Ctrl-C.";

/// `pipespeed boost`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{METHOD}\n\n{EXAMPLES}"))]
pub struct BoostArgs {
    /// The pipeline, quoted: 'COMMAND | COMMAND'; or a program and its arguments.
    #[arg(
        value_name = "COMMAND",
        trailing_var_arg = true,
        required_unless_present = "pid"
    )]
    pub command: Vec<OsString>,
    /// Raise the pipes of a running process, its descendants and the rest of its pipeline.
    #[arg(long, value_name = "PID", value_parser = whole::<i32>(1..=i32::MAX), allow_negative_numbers = true, conflicts_with_all = ["command", "shell", "report"])]
    pub pid: Option<i32>,
    /// Go on in the background until the process ends.
    #[arg(long, requires = "pid", conflicts_with = "command")]
    pub follow: bool,
    /// The shell that runs COMMAND [default: $SHELL].
    #[arg(long, value_name = "SHELL")]
    pub shell: Option<OsString>,
    /// Stay, and print on standard error at the end which pipes were raised.
    #[arg(long, conflicts_with = "prove")]
    pub report: bool,
    /// Where the sidecar writes its account.
    #[arg(long, hide = true, value_name = "FILE")]
    pub account: Option<String>,
    /// Pipes that are left alone.
    #[arg(
        long,
        hide = true,
        value_name = "WRITER-READER",
        allow_hyphen_values = true
    )]
    pub except: Option<String>,
    /// The proof and its options.
    #[command(flatten)]
    pub proof: ProofArgs,
}

/// `--prove`, and the options that need it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Proof")]
#[group(id = "proof", requires = "prove", conflicts_with = "pid")]
pub struct ProofArgs {
    /// Compare plain and boosted runs [default: 10 pairs].
    #[arg(long, value_name = "PAIRS", num_args = 0..=1, require_equals = true, default_missing_value = "10", value_parser = whole::<u32>(1..=10_000))]
    pub prove: Option<u32>,
    /// Also measure with each pipe left out, the first eight in turn; those between programs of
    /// the same names together.
    #[arg(long)]
    pub each: bool,
    /// Standard input of each run.
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// Don't ask before the runs.
    #[arg(long)]
    pub yes: bool,
    /// Seed for the order of the runs [default: random, recorded].
    #[arg(long, value_name = "N", value_parser = whole::<u64>(0..=u64::MAX), allow_negative_numbers = true)]
    pub seed: Option<u64>,
    /// Save every run as JSON ('-': standard output).
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Print neither progress nor notes on standard error.
    #[arg(long, short)]
    pub quiet: bool,
}
