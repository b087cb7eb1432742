//! The original's rules, over all combinations of its options: a model written from the
//! rules, and what the programs print and do.

use std::io::{PipeReader, Read, Write};

use rustix::pipe::fcntl_getpipe_size;

use crate::common::{Outcome, read, skip, start, start_into, write};

/// The options without a value, in the order of the CSV's columns.
const FLAGS: [&str; 10] = [
    "busy_loop",
    "poll",
    "huge_page",
    "check_huge_page",
    "write_with_vmsplice",
    "read_with_splice",
    "gift",
    "lock_memory",
    "dont_touch_pages",
    "same_buffer",
];

/// Options that both programs refuse together.
const CONTRADICTION: [&str; 2] = ["--check-huge-page", "--dont-touch-pages"];

/// One command line. A size of `""` is not given.
struct Given {
    flags: [bool; FLAGS.len()],
    buf_size: &'static str,
    bytes_to_pipe: &'static str,
    pipe_size: &'static str,
}

impl Given {
    /// All combinations of flags. The sizes change from one to the next; their numbers
    /// have no common divisor with each other or a power of two, so that every choice of
    /// sizes occurs, with ever other flags.
    fn all(
        buf_size: [&'static str; 7],
        bytes_to_pipe: [&'static str; 3],
        pipe_size: [&'static str; 5],
    ) -> impl Iterator<Item = Given> {
        let may_lock = may_lock();
        (0..1 << FLAGS.len()).filter_map(move |at: usize| {
            let given = Given {
                flags: std::array::from_fn(|flag| at >> flag & 1 == 1),
                buf_size: buf_size[at % buf_size.len()],
                bytes_to_pipe: bytes_to_pipe[at % bytes_to_pipe.len()],
                pipe_size: pipe_size[at % pipe_size.len()],
            };
            (may_lock || !given.has("lock_memory")).then_some(given)
        })
    }

    fn has(&self, flag: &str) -> bool {
        let at = FLAGS.iter().position(|name| *name == flag);
        self.flags[at.unwrap()]
    }

    fn arguments(&self) -> String {
        let mut words = String::new();
        for (flag, _) in FLAGS.iter().zip(self.flags).filter(|(_, given)| *given) {
            words += &format!("--{flag} ");
        }
        for (option, size) in [
            ("buf_size", self.buf_size),
            ("bytes_to_pipe", self.bytes_to_pipe),
            ("pipe_size", self.pipe_size),
        ] {
            if !size.is_empty() {
                words += &format!("--{option}={size} ");
            }
        }
        words
    }

    fn buf_size(&self) -> u64 {
        bytes(self.buf_size, 256 << 10)
    }

    fn bytes_to_pipe(&self) -> u64 {
        bytes(self.bytes_to_pipe, 10 << 30)
    }

    fn pipe_size(&self) -> u64 {
        bytes(self.pipe_size, 0)
    }

    /// Whether both programs refuse the options.
    fn contradicts_itself(&self) -> bool {
        self.has("dont_touch_pages") && self.has("check_huge_page")
    }

    /// The size that the writer's pipe of this size gets, or the options that the writer
    /// refuses.
    fn capacity(&self, unchanged: u64) -> Result<u64, &[&str]> {
        let page = rustix::param::page_size() as u64;
        let vmsplice = self.has("write_with_vmsplice");
        if self.contradicts_itself() {
            return Err(&CONTRADICTION);
        }
        if vmsplice && self.pipe_size() > 0 {
            return Err(&["--pipe_size", "--write_with_vmsplice"]);
        }
        if vmsplice && !self.buf_size().is_multiple_of(2) {
            return Err(&["--buf-size"]);
        }
        let (wanted, option): (u64, &[&str]) = if vmsplice {
            (self.buf_size() / 2, &["--buf-size"])
        } else {
            (self.pipe_size(), &["--pipe-size"])
        };
        if wanted == 0 {
            return Ok(unchanged);
        }
        // The kernel makes it a power of two of pages; anything else is not granted.
        let granted = wanted.next_power_of_two().max(page);
        if granted == wanted {
            Ok(granted)
        } else {
            Err(option)
        }
    }

    /// The reader's CSV line after the rate.
    fn csv(&self) -> String {
        let flags = self.flags.map(|flag| if flag { ",1" } else { ",0" });
        format!(
            ",{},{},{}{}\n",
            self.bytes_to_pipe(),
            self.buf_size(),
            self.pipe_size(),
            flags.concat()
        )
    }

    /// The reader's line for people after the rate.
    fn line(&self) -> String {
        format!(
            "GiB/s, {} buffer, {} iterations ({} piped)\n",
            text(self.buf_size()),
            self.bytes_to_pipe() / self.buf_size(),
            text(self.bytes_to_pipe())
        )
    }

    /// Whether the outcome is a refusal for want of huge pages, which is up to the machine.
    fn has_no_huge_pages(&self, outcome: &Outcome) -> bool {
        let checks = self.has("huge_page") && self.has("check_huge_page");
        checks && outcome.code == Some(1) && outcome.err.contains("--check-huge-page: ")
    }
}

/// A size as given, in bytes.
fn bytes(text: &str, default: u64) -> u64 {
    if text.is_empty() {
        return default;
    }
    let digits = text.trim_end_matches(['K', 'M', 'G']);
    let unit = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        other => panic!("{other}"),
    };
    digits.parse::<u64>().unwrap() * unit
}

/// A size as printed: in the largest unit that divides it.
fn text(bytes: u64) -> String {
    for (unit, name) in [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if bytes.is_multiple_of(unit) {
            return format!("{}{name}", bytes / unit);
        }
    }
    format!("{bytes}B")
}

/// The size of a pipe.
fn capacity(pipe: &PipeReader) -> u64 {
    fcntl_getpipe_size(pipe).unwrap() as u64
}

/// Whether the limit allows locking the two largest buffers of this module, in huge pages.
fn may_lock() -> bool {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
    let allowed = limit.is_none_or(|bytes| bytes >= 8 << 20);
    if !allowed {
        skip(format_args!("RLIMIT_MEMLOCK is only {limit:?} bytes"));
    }
    allowed
}

/// Runs the reader with each combination of options on a pipe that holds what it wants,
/// and checks the rest of its line after a rate with this number of decimals.
fn check_the_reader(more: &str, decimals: usize, expected: impl Fn(&Given) -> String) {
    let buf_sizes = ["", "64K", "1000000", "1536", "3M", "4097", "777"];
    let pipe_sizes = ["", "0", "100000", "64K", "1G"];
    let mut no_huge_pages = None;
    for given in Given::all(buf_sizes, ["40K", "10007", "0"], pipe_sizes) {
        let (from, mut into) = std::io::pipe().unwrap();
        let size = capacity(&from);
        into.write_all(&vec![b'X'; given.bytes_to_pipe() as usize])
            .unwrap();
        drop(into);
        let mut reader = read(&format!("{more} {}", given.arguments()));
        reader.stdin(from.try_clone().unwrap());
        let outcome = start(reader).finish();
        // The reader never sets the pipe's size.
        assert_eq!(capacity(&from), size, "{outcome:#?}");
        if given.contradicts_itself() {
            outcome.refused(2, &CONTRADICTION);
            continue;
        }
        if given.has_no_huge_pages(&outcome) && !given.has("read_with_splice") {
            no_huge_pages = Some(outcome.err);
            continue;
        }
        let outcome = outcome.succeeded_in_silence();
        let rest = expected(&given);
        let rate = outcome.out.strip_suffix(&rest);
        let rate = rate.unwrap_or_else(|| panic!("{rest:?} is missing: {outcome:#?}"));
        let is_number = rate.parse::<f64>().is_ok_and(|rate| rate >= 0.0);
        let found = rate.split_once('.').map(|(_, decimals)| decimals.len());
        assert!(is_number && found == Some(decimals), "{outcome:#?}");
    }
    if let Some(error) = no_huge_pages {
        skip(error.trim_end());
    }
}

#[test]
fn the_readers_csv_follows_the_rules_for_all_options() {
    check_the_reader("--csv", 6, Given::csv);
}

#[test]
fn the_readers_line_follows_the_rules_for_all_options() {
    check_the_reader("", 1, Given::line);
}

#[test]
fn writers_pipe_and_refusals_follow_the_rules_for_all_options() {
    let buf_sizes = ["", "64K", "1000000", "4K", "8K", "192K", "8193"];
    let pipe_sizes = ["", "0", "100000", "128K", "1"];
    let mut no_huge_pages = None;
    // The writer ignores --bytes_to_pipe: it writes until the reader closes the pipe.
    for given in Given::all(buf_sizes, ["", "0", "10007"], pipe_sizes) {
        let arguments = given.arguments();
        let (mut from, into) = std::io::pipe().unwrap();
        let expected = match given.capacity(capacity(&from)) {
            Ok(expected) => expected,
            Err(options) => {
                // Should the writer accept them after all, it ends at once.
                drop(from);
                let outcome = start_into(write(&arguments), into).finish();
                outcome.refused(2, options);
                continue;
            }
        };
        let writer = start_into(write(&arguments), into);
        let mut data = Vec::new();
        (&mut from).take(40_000).read_to_end(&mut data).unwrap();
        let size = capacity(&from);
        drop(from);
        let outcome = writer.finish();
        if given.has_no_huge_pages(&outcome) {
            no_huge_pages = Some(outcome.err);
            continue;
        }
        let outcome = outcome.succeeded_in_silence();
        assert_eq!(size, expected, "{outcome:#?}");
        assert_eq!(data.len(), 40_000, "{outcome:#?}");
        if !given.has("dont_touch_pages") {
            assert!(data.iter().all(|byte| *byte == b'X'), "{outcome:#?}");
        }
    }
    if let Some(error) = no_huge_pages {
        skip(error.trim_end());
    }
}
