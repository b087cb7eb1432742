//! The cost of pinning, as text.

use super::format::{fixed, interval, pluralize};
use super::notes::{Note, notes};
use super::style::Style;
use super::table::{Column, Table};
use pipespeed_base::size;
use pipespeed_explain::costs::pinning::{
    FigurePages, GupBenchmark, PIPE_PAGES_PER_CALL, PinningFigure, PinningPlan, PinningStep,
};
use pipespeed_host::Warning;

/// Maximum rounding error without a note, in percent.
const MAX_ROUNDING: f64 = 1.0;

/// The figures of the kernel's own benchmark, or why there are none, and those of the
/// estimate.
pub fn pinning(
    source: Result<&GupBenchmark, &str>,
    plan: &PinningPlan,
    figures: &[PinningFigure],
    warnings: &[Warning],
    style: Style,
) -> String {
    let untouched = if plan.untouched {
        ", never written"
    } else {
        ""
    };
    let page = size::format(fastpipe::pipe::page_size() as u64);
    let (estimated, measured): (Vec<_>, Vec<_>) = figures
        .iter()
        .partition(|figure| !matches!(figure.step, PinningStep::Get | PinningStep::Put));
    let mut blocks = Vec::new();
    match source {
        Ok(kernel) => {
            blocks.push(style.sentence(&format!(
                "{}: get_user_pages_fast, {} at a time, {} per call",
                kernel.file.display(),
                pluralize(plan.pages_per_call as usize, "page"),
                size::format(plan.size as u64),
            )));
            let title = format!("the kernel's own benchmark (ns per page of {page}{untouched})");
            let notes = measured.iter().filter_map(|figure| note(figure));
            let notes = notes.map(|note| format!("\n{}", style.sentence(&note)));
            blocks.push(table(title, &measured, style) + &notes.collect::<String>());
        }
        Err(missing) => blocks.push(style.sentence(&format!(
            "The kernel's own benchmark is not available: {missing}. The figures below are an \
             estimate."
        ))),
    }
    let title = format!(
        "estimate, from a pipe that is filled and drained (ns per page of {page}{untouched})"
    );
    let method = format!(
        "The estimate is vmsplice minus splice of the same pages from another pipe, which does \
         not pin them. It is an upper estimate: vmsplice does more for a page than pinning it. \
         vmsplice pins {PIPE_PAGES_PER_CALL} pages at a time, 256KiB per call."
    );
    let estimate = table(title, &estimated, style);
    blocks.push(format!("{estimate}\n{}\n", style.sentence(&method)));
    if !warnings.is_empty() {
        let warnings = Note::warnings(warnings);
        blocks.push(notes(warnings, style) + "\n");
    }
    blocks.join("\n\n")
}

/// The row's name.
fn name(figure: &PinningFigure) -> String {
    let pages = match figure.of {
        FigurePages::Base => "base",
        FigurePages::Huge => "huge",
        FigurePages::Difference => return "base minus huge pages".to_owned(),
    };
    match figure.step {
        PinningStep::Get => format!("pin {pages} pages"),
        PinningStep::Put => format!("release {pages} pages"),
        PinningStep::Vmsplice => format!("vmsplice, {pages} pages"),
        PinningStep::Splice => format!("splice from a pipe, {pages} pages"),
        PinningStep::Estimate => format!("estimate for {pages} pages"),
    }
}

fn table(title: String, figures: &[&PinningFigure], style: Style) -> String {
    let mut table = Table::new([Column::left(""), Column::right(""), Column::left("")]);
    table.heading(title);
    for figure in figures {
        // One decimal, since pinning a page may take only a few nanoseconds.
        match figure.estimate_ns {
            Some(found) => table.row([
                name(figure),
                fixed(found.median, 1),
                interval(found.interval),
            ]),
            None => {
                let cells = [name(figure), "-".to_owned()];
                let reason = figure.not_run.as_ref().map_or("", |why| &why.reason);
                table.row_with_text(cells, reason);
            }
        }
    }
    table.render(style)
}

/// A note on a figure of the kernel's benchmark that is less accurate than it looks.
fn note(figure: &PinningFigure) -> Option<String> {
    let calls = figure.counted?;
    let name = name(figure);
    if figure.step == PinningStep::Get && calls.pinned_bytes < calls.asked_bytes {
        return Some(format!(
            "{name}: the kernel pinned only {} of {}; the figure refers to the bytes pinned.",
            size::format(calls.pinned_bytes),
            size::format(calls.asked_bytes)
        ));
    }
    let at = usize::from(figure.step == PinningStep::Put);
    let rounding = calls.rounding_percent[at];
    (rounding > MAX_ROUNDING).then(|| {
        format!(
            "{name}: the kernel reports whole microseconds, so the error may be {} % (each \
             sample is {}); use a larger --size.",
            fixed(rounding, 0),
            pluralize(calls.calls as usize, "call")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipespeed_explain::costs::pinning::fixtures;
    use pipespeed_measure::fixtures::estimate;

    /// Replaces the costs of pipes measured here by a constant.
    fn invented(mut figures: Vec<PinningFigure>) -> Vec<PinningFigure> {
        let of_pipe = |figure: &&mut PinningFigure| {
            !matches!(figure.step, PinningStep::Get | PinningStep::Put)
        };
        for figure in figures.iter_mut().filter(of_pipe) {
            figure.estimate_ns = Some(estimate(280.0, 300.0, 350.0));
        }
        figures
    }

    #[test]
    fn the_kernels_benchmark_comes_before_the_estimate() {
        let style = Style::of_width(80);
        let (plan, kernel, figures) = fixtures::with_benchmark();
        let text = pinning(
            kernel.as_ref().ok_or(""),
            &plan,
            &invented(figures),
            &[],
            style,
        );
        insta::assert_snapshot!(text);
    }

    #[test]
    fn without_a_benchmark_there_is_an_estimate() {
        let (plan, _, figures) = fixtures::without_benchmark();
        let text = pinning(
            Err("it was not built"),
            &plan,
            &invented(figures),
            &[],
            Style::of_width(80),
        );
        insta::assert_snapshot!(text);
    }
}
