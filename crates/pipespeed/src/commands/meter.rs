//! `pipespeed meter`.

use crate::cli::MeterArgs;
use crate::commands::memory_suffices;
use pipespeed_base::failure::{AlreadyReported, usage};
use pipespeed_tools::meter::{self, Format, Item, MeterOptions, Show, Unit};

/// Passes a stream on, and shows the progress.
///
/// # Errors
/// Wrong usage, or too large a buffer; or [`AlreadyReported`] with pv's exit status: each failure
/// was printed when it happened.
pub fn run(args: MeterArgs) -> anyhow::Result<()> {
    if let Some(option) = args.unsupported.first() {
        return Err(usage(format!("pipespeed meter does not support {option}")));
    }
    let options = options(args);
    if let Some(bytes) = options.block {
        memory_suffices("--buffer-size (-B)", bytes, bytes as u64)?;
    }
    match meter::run(&options) {
        0 => Ok(()),
        code => Err(AlreadyReported(code).into()),
    }
}

fn options(args: MeterArgs) -> MeterOptions {
    MeterOptions {
        show: show(&args),
        force: args.force,
        name: args.name,
        unit: match (args.null, args.line_mode) {
            (true, _) => Unit::Lines { end: 0 },
            (false, true) => Unit::Lines { end: b'\n' },
            (false, false) => Unit::Bytes,
        },
        size: nonzero(args.size),
        stop_at_size: args.stop_at_size,
        rate_limit: nonzero(args.rate_limit),
        interval: args.interval,
        delay: args.delay_start,
        wait: args.wait,
        width: columns(args.width),
        block: nonzero(args.buffer_size).map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
        copy: args.no_splice,
        resize_input: args.resize_input,
        files: args.files,
    }
}

/// Treats 0 as an option that was not given, as pv does.
fn nonzero(number: Option<u64>) -> Option<u64> {
    number.filter(|number| *number > 0)
}

fn columns(number: Option<u32>) -> Option<u16> {
    let number = number.filter(|number| *number > 0)?;
    Some(u16::try_from(number).unwrap_or(u16::MAX))
}

fn show(args: &MeterArgs) -> Show {
    if args.quiet {
        return Show::Nothing;
    }
    if args.json {
        return Show::Json;
    }
    if args.numeric {
        let (count, timer) = (args.bytes, args.timer);
        return Show::Number { count, timer };
    }
    if let Some(format) = &args.format {
        return Show::Line(format.clone());
    }
    // In the order of the line.
    let fields = [
        (args.bytes, Item::Count),
        (args.buffer_percent, Item::Fill),
        (args.timer, Item::Timer),
        (args.rate, Item::Rate),
        (args.average_rate, Item::Average),
        (args.progress, Item::Bar),
        (args.eta, Item::TimeLeft),
        (args.fineta, Item::Arrival),
    ];
    let items: Vec<Item> = fields
        .into_iter()
        .filter_map(|(is_shown, item)| is_shown.then_some(item))
        .collect();
    if items.is_empty() {
        Show::Line(Format::default())
    } else {
        Show::Line(Format::new(items))
    }
}
