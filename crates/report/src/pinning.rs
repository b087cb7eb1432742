//! What pinning costs, as text.

use comfy_table::{CellAlignment, Table, presets};

use super::format::{interval, wrap};
use super::style::{BOLD, Style};
use pipespeed_base::size;
use pipespeed_explain::costs::pinning::{Figure, Kernel, Of, PIPE_PAGES_PER_CALL, Plan, Step};

/// Above that the clock's error is told, in percent.
const ROUNDING_TOLD: f64 = 1.0;

/// The figures as text: of the kernel's own benchmark, or why there is none,
/// and of the estimate.
pub fn pinning(
    source: Result<&Kernel, &str>,
    plan: &Plan,
    figures: &[Figure],
    style: Style,
) -> String {
    let wide = |text: &str| wrap(text, style.width(), "") + "\n";
    let untouched = if plan.untouched {
        "; nobody has written to them"
    } else {
        ""
    };
    let page = size::format(fastpipe::pipe::page_size() as u64);
    let (estimated, told): (Vec<_>, Vec<_>) = figures
        .iter()
        .partition(|figure| !matches!(figure.step, Step::Get | Step::Put));
    let mut text = String::new();
    match source {
        Ok(kernel) => {
            text.push_str(&wide(&format!(
                "{}, layout of {} ({} bytes): get_user_pages_fast, {} at a time, {} by each call",
                kernel.file.display(),
                kernel.layout.kernels,
                kernel.layout.bytes,
                super::pluralize(plan.pages_per_call as usize, "page"),
                size::format(plan.size as u64),
            )));
            let title = format!("the kernel's own benchmark (ns a page of {page}{untouched})");
            text.push_str(&format!(
                "\n{}\n{}\n",
                style.paint(&title, BOLD),
                table(&told)
            ));
            for note in told.iter().filter_map(|figure| note(figure)) {
                text.push_str(&wide(&note));
            }
        }
        Err(missing) => text.push_str(&wide(&format!(
            "No benchmark of the kernel's own: {missing}. What follows is an estimate."
        ))),
    }
    let title = format!(
        "estimate, from a pipe that is filled and drained (ns a page of {page}{untouched})"
    );
    text.push_str(&format!(
        "\n{}\n{}\n",
        style.paint(&title, BOLD),
        table(&estimated)
    ));
    text.push_str(&wide(&format!(
        "The estimate is vmsplice less splice of the same pages from another pipe, which looks \
         nothing up: rather too much than too little. vmsplice takes {PIPE_PAGES_PER_CALL} pages \
         at a time, 256KiB a call."
    )));
    text
}

fn what(figure: &Figure) -> String {
    let pages = match figure.of {
        Of::Base => "base",
        Of::Huge => "huge",
        Of::Difference => return "base pages above huge ones".to_owned(),
    };
    match figure.step {
        Step::Get => format!("{pages} pages taken"),
        Step::Put => format!("{pages} pages let go"),
        Step::Vmsplice => format!("vmsplice, {pages} pages"),
        Step::Splice => format!("splice from a pipe, {pages} pages"),
        Step::Estimate => format!("estimate for {pages} pages"),
    }
}

fn table(figures: &[&Figure]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    for figure in figures {
        let (median, range) = match (figure.estimate_ns, &figure.refused) {
            (Some(found), _) => (tenths(found.median), interval(found.interval)),
            (None, why) => ("-".to_owned(), why.clone().unwrap_or_default()),
        };
        table.add_row([
            format!("  {:32}", what(figure)),
            format!("{median:>7}"),
            range,
        ]);
    }
    let alignments = [
        CellAlignment::Left,
        CellAlignment::Right,
        CellAlignment::Left,
    ];
    for (column, alignment) in table.column_iter_mut().zip(alignments) {
        column.set_cell_alignment(alignment);
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

/// Nanoseconds with a decimal, so that a page of few nanoseconds shows.
fn tenths(ns: f64) -> String {
    format!("{ns:.1}")
}

/// What makes a figure of the kernel's less certain than it looks.
fn note(figure: &Figure) -> Option<String> {
    let counted = figure.counted?;
    let what = what(figure);
    if figure.step == Step::Get && counted.pinned_bytes < counted.asked_bytes {
        return Some(format!(
            "{what}: the kernel pinned {} of the {} it was asked to; the figure counts what it \
             pinned.",
            size::format(counted.pinned_bytes),
            size::format(counted.asked_bytes)
        ));
    }
    let at = usize::from(figure.step == Step::Put);
    let rounding = counted.rounding_percent[at];
    (rounding > ROUNDING_TOLD).then(|| {
        format!(
            "{what}: the kernel counts whole microseconds, so this may be off by {rounding:.0} % \
             (each sample is {}); take a larger --size.",
            super::pluralize(counted.calls as usize, "call")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipespeed_explain::costs::pinning::sample;

    #[test]
    fn the_text_names_file_layout_and_what_the_clock_may_have_cut_off() {
        let style = Style::for_terminal(false);
        let (plan, kernel, figures) = sample::of_a_kernel();
        let text = pinning(kernel.as_ref().ok_or(""), &plan, &figures, style);
        for word in [
            "/fake, layout of 4.20 to 5.10 (120 bytes)",
            "16 pages at a time, 1MiB by each call",
            "base pages taken",
            "base pages let go",
            "the kernel pinned 800KiB of the 1MiB it was asked to",
            "may be off by",
            "estimate for base pages",
            "nobody has written to them",
        ] {
            assert!(text.contains(word), "{word}: {text}");
        }
        let (plan, _, figures) = sample::estimated();
        let text = pinning(Err("there is none"), &plan, &figures, style);
        let said = "there is none. What follows is an estimate";
        assert!(text.contains(said), "{text}");
        assert!(!text.contains("pages taken"), "{text}");
    }
}
