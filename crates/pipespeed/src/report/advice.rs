//! What would help most.

use comfy_table::{CellAlignment, Table, presets};

use super::format::{ratio_interval, significant, times, wrap};
use super::style::{BOLD, Style};
use crate::costs::advice::{Advice, Change, LARGE_PIPE, Promise, WORTH};
use crate::costs::prediction::Prediction;
use crate::costs::through::PIECE;
use crate::size;

/// The share of predictions that must hold for the advice to be worth much:
/// six in seven.
const RELIABLE: f64 = 6.0 / 7.0;

/// A block for each user: the changes, the one that helps most first.
pub fn advice_text(advice: &[Advice], predictions: &[Prediction], style: Style) -> String {
    let checked = advice.iter().any(|advice| advice.checked.is_some());
    let mut text = style.paint("what would help most here", BOLD);
    if advice.is_empty() {
        text.push_str(": nothing can be said, since costs are missing (see above)\n");
        return text;
    }
    text.push_str(match checked {
        true => " (predicted, and measured)\n",
        false => " (predicted; --check measures it)\n",
    });
    let judged: Vec<bool> = predictions
        .iter()
        .filter_map(Prediction::explains)
        .collect();
    let held = judged.iter().filter(|held| **held).count();
    if (held as f64) < RELIABLE * judged.len() as f64 {
        text.push_str(
            "Predictions hold too seldom at present to rely on: something else runs, or this machine does\n\
             things that the model does not know.\n",
        );
    }
    for advice in advice {
        text.push_str(&block(advice, checked));
    }
    let spins = |advice: &Advice| {
        advice
            .promises
            .iter()
            .any(|p| p.changes == [Change::Spinning])
    };
    if advice.iter().any(spins) {
        text.push_str("Spinning takes a processor for each end, and all of it.\n");
    }
    text
}

fn block(advice: &Advice, checked: bool) -> String {
    let mut text = headline(advice);
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let (helping, rest): (Vec<&Promise>, Vec<&Promise>) =
        advice.promises.iter().partition(|p| p.gain >= WORTH);
    for promise in helping {
        let what = words(promise.changes[0]);
        table.add_row(row(what, promise, checked));
    }
    if let Some(together) = &advice.together {
        let what: Vec<String> = together.changes.iter().map(|c| words(*c)).collect();
        let what = format!("together: {}", what.join(", "));
        table.add_row(row(what, together, checked));
    }
    let (right, left) = (CellAlignment::Right, CellAlignment::Left);
    for (column, alignment) in table
        .column_iter_mut()
        .zip([left, right, right, left, right])
    {
        column.set_cell_alignment(alignment);
        column.set_padding((0, 2));
    }
    text.push_str(&table.trim_fmt());
    text.push('\n');
    if !rest.is_empty() {
        let each = rest.iter().map(|promise| {
            let measured = promise.checked.as_ref().and_then(|checked| checked.gain);
            let measured =
                measured.map_or_else(String::new, |gain| format!(", measured {}", times(gain)));
            format!(
                "{} ({}{measured})",
                words(promise.changes[0]),
                times(promise.gain)
            )
        });
        let each: Vec<String> = each.collect();
        text.push_str(&wrap(
            &format!("  no gain: {}", each.join("; ")),
            100,
            "    ",
        ));
        text.push('\n');
    }
    text
}

fn headline(advice: &Advice) -> String {
    let measured = advice.checked.as_ref().and_then(|checked| checked.measured);
    let measured = measured.map_or_else(String::new, |rate| {
        format!(", measured {}", significant(rate))
    });
    format!(
        "{}, pipe of {}, {} at a time: {} GiB/s{measured}\n",
        advice.user,
        size::format(advice.pipe_bytes as u64),
        size::format(advice.piece_bytes as u64),
        significant(advice.predicted),
    )
}

fn row(what: String, promise: &Promise, checked: bool) -> Vec<String> {
    let mut row = vec![
        format!("  {what}"),
        times(promise.gain),
        format!("{} GiB/s", significant(promise.predicted)),
    ];
    if !checked {
        return row;
    }
    match &promise.checked {
        Some(checked) => match (checked.gain, checked.measured, &checked.refused) {
            (Some(gain), Some(rate), _) => {
                let within = ratio_interval(checked.gain_low, checked.gain_high);
                row.push(format!("measured {} {within}", times(gain)));
                row.push(format!("{} GiB/s", significant(rate)));
            }
            (_, _, Some(why)) => row.push(why.clone()),
            _ => {}
        },
        None => row.push("not measured".to_owned()),
    }
    row
}

fn words(change: Change) -> String {
    match change {
        Change::LargerPipe => format!("a pipe of {}", size::format(LARGE_PIPE as u64)),
        Change::OneProcessor => "one processor for both ends".to_owned(),
        Change::Spinning => "spinning instead of sleeping".to_owned(),
        Change::Vmsplice => "vmsplice instead of write".to_owned(),
        Change::HugePages => "huge pages".to_owned(),
        Change::LargerPieces => format!("{} at a time", size::format(PIECE as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::advice::{Checked, advise};
    use crate::costs::predict::Figures;
    use crate::costs::synthetic::costs;
    use crate::machine::topology::Relation;

    fn advice() -> Vec<Advice> {
        advise(
            &Figures::medians(&costs(7)),
            Relation::SharedCache(3),
            64 << 10,
        )
    }

    #[test]
    fn each_user_has_a_block_with_the_best_change_first() {
        let text = advice_text(&advice(), &[], Style::for_terminal(false));
        let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("{word}: {text}"));
        assert!(at("a plain write | read, pipe of 64KiB, 64KiB at a time") < at("vmsplice | read"));
        assert!(at("spinning instead of sleeping") < at("huge pages"));
        at("together: ");
        at("--check measures it");
        at("Spinning takes a processor");
        assert!(!text.contains("measured x"));
    }

    #[test]
    fn what_does_not_help_is_no_advice() {
        let text = advice_text(&advice(), &[], Style::for_terminal(false));
        let line = text.lines().find(|line| line.contains("no gain")).unwrap();
        assert!(line.contains("huge pages (x1.00)"), "{text}");
        let none = advice_text(&[], &[], Style::for_terminal(false));
        assert!(none.contains("nothing can be said"), "{none}");
    }

    #[test]
    fn a_check_stands_beside_its_promise() {
        let mut advice = advice();
        let checked = |gain| {
            Some(Checked {
                measured: Some(7.25),
                gain: Some(gain),
                gain_low: Some(gain - 0.5),
                gain_high: Some(gain + 0.5),
                refused: None,
            })
        };
        advice[0].checked = checked(1.0);
        advice[0].promises[0].checked = checked(3.5);
        advice[0].promises[1].checked = Some(Checked {
            refused: Some("not allowed here".to_owned()),
            ..Checked::default()
        });
        let text = advice_text(&advice, &[], Style::for_terminal(false));
        for words in [
            "measured x3.50 [3.00, 4.00]",
            "7.25 GiB/s",
            "not allowed here",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(!text.contains("--check"));
    }
}
