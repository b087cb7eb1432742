//! The options of the commands that produce data at pipe speed.

use super::named::named;
use std::ffi::OsString;

use clap::Args;
use fastpipe::method::{AssertReaderCopies, Method};

use pipespeed_base::named;
use pipespeed_tools::fizzbuzz::{CodePath, LAST};

named! {
    /// Names of the library's [`Method`]s.
    ///
    /// An enum of its own, since a name is not enough for a `Method`: `Copy` has a length,
    /// and `Drained` an assertion about the reader, which a program makes on purpose and
    /// must not be able to parse. `--method drained` makes it here.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum MethodArg {
        /// The fastest of copy, fresh and cow-checked, found while sending
        ///
        /// [`Method::Auto`].
        Auto = "auto",
        /// write(2), a page or two at a time
        ///
        /// [`Method::copy`].
        Copy = "copy",
        /// vmsplice(2); pages are never written again
        ///
        /// [`Method::Fresh`].
        Fresh = "fresh",
        /// vmsplice(2); pages are written again once nobody refers to them
        ///
        /// [`Method::CowChecked`].
        CowChecked = "cow-checked",
        /// vmsplice(2); pages are written again after they have left the pipe
        ///
        /// [`Method::Drained`].
        Drained = "drained",
    }
}

impl From<MethodArg> for Method {
    fn from(name: MethodArg) -> Self {
        match name {
            MethodArg::Auto => Method::Auto,
            MethodArg::Copy => Method::copy(),
            MethodArg::Fresh => Method::Fresh,
            MethodArg::CowChecked => Method::CowChecked,
            MethodArg::Drained => Method::Drained(AssertReaderCopies),
        }
    }
}

/// `pipespeed fizzbuzz`.
#[derive(Debug, Args)]
#[command(after_help = include_str!("help/fizzbuzz.txt").trim_ascii_end())]
pub struct FizzbuzzArgs {
    /// First number.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = line_number, allow_negative_numbers = true)]
    pub from: u64,
    /// Last number, up to 9223372036854775808 (2^63) [default: no end].
    #[arg(long, value_name = "N", value_parser = line_number, allow_negative_numbers = true)]
    pub to: Option<u64>,
    /// How to send [default: auto].
    #[arg(long, value_parser = named::<MethodArg>(), value_name = "METHOD")]
    pub method: Option<MethodArg>,
    /// Never sleep: retry at once while the pipe is full.
    #[arg(long, alias = "busy_loop")]
    pub busy_loop: bool,
    /// Implementation [default: the fastest on this machine].
    #[arg(long, value_parser = named::<CodePath>(), value_name = "NAME")]
    pub by: Option<CodePath>,
    /// Print the method and its statistics on standard error.
    #[arg(long)]
    pub verbose: bool,
}

/// `pipespeed yes`.
#[derive(Debug, Args)]
#[command(after_help = include_str!("help/yes.txt").trim_ascii_end())]
pub struct YesArgs {
    /// Words to print, separated by spaces [default: y].
    #[arg(value_name = "STRING")]
    pub strings: Vec<OsString>,
    /// Never sleep: retry at once while the pipe is full.
    #[arg(long, alias = "busy_loop")]
    pub busy_loop: bool,
}

fn line_number(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(n @ 1..=LAST) => Ok(n),
        _ => Err(format!("write a whole number from 1 to {LAST} (2^63)")),
    }
}
