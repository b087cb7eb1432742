//! What the costs predict, beside what was measured.

use comfy_table::{Table, presets};

use super::costs::align;
use super::format::{in_parts, significant, wrap};
use super::style::{BOLD, Style};
use crate::costs::prediction::{Prediction, TOLERANCE};
use crate::machine::placement::Placement;
use crate::size;

/// A table for each placement: the rungs by the pipe's size.
pub fn predictions_table(predictions: &[Prediction], style: Style) -> String {
    let mut text = String::new();
    for (placement, title) in [
        (Placement::Different, "two processors"),
        (Placement::Same, "one processor"),
    ] {
        let there: Vec<&Prediction> = predictions
            .iter()
            .filter(|prediction| prediction.placement == placement)
            .collect();
        if !there.is_empty() {
            let title = format!("the ladder on {title} (GiB/s: predicted, measured)");
            text.push_str(&style.paint(&wrap(&title, style.width(), "  "), BOLD));
            text.push('\n');
            text.push_str(&in_width(&there, style.width()));
            text.push_str("\n\n");
        }
    }
    text.push_str(&verdict(predictions, style.width().min(WIDEST)));
    text
}

/// Sentences that are longer are hard to read.
const WIDEST: usize = 100;

fn in_width(predictions: &[&Prediction], width: usize) -> String {
    let mut sizes: Vec<usize> = predictions.iter().map(|p| p.pipe_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    in_parts(sizes.len(), width, |part| table(predictions, &sizes[part]))
}

fn table(predictions: &[&Prediction], sizes: &[usize]) -> String {
    let mut cases: Vec<&str> = Vec::new();
    for prediction in predictions {
        if !cases.contains(&&*prediction.case) {
            cases.push(&prediction.case);
        }
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut head = vec!["  pipe".to_owned()];
    head.extend(sizes.iter().map(|size| size::format(*size as u64)));
    table.set_header(head);
    for case in cases {
        let mut row = vec![format!("  {case}")];
        for size in sizes {
            let here = predictions
                .iter()
                .find(|p| p.case == case && p.pipe_bytes == *size);
            row.push(here.map(|p| cell(p)).unwrap_or_default());
        }
        table.add_row(row);
    }
    align(&mut table);
    table.trim_fmt()
}

fn cell(prediction: &Prediction) -> String {
    let mark = if prediction.is_default { "*" } else { "" };
    let Some(measured) = prediction.measured else {
        return "refused".to_owned();
    };
    let predicted = match (prediction.explains(), prediction.predicted) {
        (Some(true), Some(predicted)) => significant(predicted),
        (Some(false), _) => "unexplained".to_owned(),
        _ => "-".to_owned(),
    };
    format!("{predicted} {}{mark}", significant(measured))
}

fn verdict(predictions: &[Prediction], width: usize) -> String {
    let count = |is_counted: &dyn Fn(&Prediction) -> bool| {
        let counted = predictions
            .iter()
            .filter(|prediction| is_counted(prediction));
        let judged: Vec<bool> = counted.filter_map(Prediction::explains).collect();
        let explained = judged.iter().filter(|explains| **explains).count();
        format!("{explained} of {}", judged.len())
    };
    // On one processor the ladder as it is isn't measured.
    let own = match predictions.iter().any(|prediction| prediction.is_default) {
        true => format!(
            ", {} of the ladder as it is (*)",
            count(&|prediction| prediction.is_default)
        ),
        false => String::new(),
    };
    let mut text = format!(
        "Within {:.0} % of what was measured: {} predictions{own}.\n",
        100.0 * TOLERANCE,
        count(&|_| true),
    );
    text = wrap(&text, width, "  ");
    for (reason, cases) in refusals(predictions) {
        let refused = format!("refused: {}: {reason}", cases.join(", "));
        text.push_str(&wrap(&refused, width, "  "));
        text.push('\n');
    }
    text
}

/// Each reason once, with the cases that it keeps from running.
fn refusals(predictions: &[Prediction]) -> Vec<(&str, Vec<&str>)> {
    let mut refusals: Vec<(&str, Vec<&str>)> = Vec::new();
    for prediction in predictions {
        let Some(reason) = prediction.refused.as_deref() else {
            continue;
        };
        match refusals.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, cases)) if cases.contains(&&*prediction.case) => {}
            Some((_, cases)) => cases.push(&prediction.case),
            None => refusals.push((reason, vec![&prediction.case])),
        }
    }
    refusals
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prediction(case: &str, placement: Placement, ratio: Option<f64>) -> Prediction {
        Prediction {
            case: case.to_owned(),
            placement,
            pipe_bytes: 64 << 10,
            is_default: case == "first",
            predicted: ratio.map(|ratio| 2.0 * ratio),
            measured: ratio.map(|_| 2.0),
            measured_low: None,
            measured_high: None,
            ratio,
            ratio_low: None,
            ratio_high: None,
            trials: Vec::new(),
            refused: ratio.is_none().then(|| "no".to_owned()),
        }
    }

    #[test]
    fn sizes_that_do_not_fit_go_below() {
        let mut all = vec![prediction("first", Placement::Different, Some(1.1))];
        for size in [128 << 10, 256 << 10, 1 << 20] {
            let mut other = all[0].clone();
            other.pipe_bytes = size;
            all.push(other);
        }
        let text = |width| {
            let width = Some(width);
            let style = Style {
                width,
                colour: false,
            };
            predictions_table(&all, style)
        };
        assert_eq!(text(60).matches("  pipe").count(), 1, "{}", text(60));
        assert_eq!(text(40).matches("  pipe").count(), 2, "{}", text(40));
        assert!(
            text(40).lines().all(|line| line.len() <= 40),
            "{}",
            text(40)
        );
    }

    #[test]
    fn what_is_off_is_unexplained_and_nothing_else() {
        let all = [
            prediction("first", Placement::Different, Some(1.1)),
            prediction("second", Placement::Different, Some(1.6)),
            prediction("third", Placement::Same, None),
        ];
        let text = predictions_table(&all, Style::for_terminal(false));
        let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("{word}: {text}"));
        assert!(at("two processors") < at("one processor"));
        at("2.20 2.00*");
        at("unexplained 2.00");
        at("refused");
        at("Within 25 % of what was measured: 1 of 2 predictions, 1 of 1 of the ladder");
        at("refused: third: no");
        assert!(!text.contains("3.20"), "{text}");
    }
}
