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
        let off = |prediction: &&Prediction| prediction.explains() == Some(false);
        let mut off = predictions.iter().filter(off);
        let seldom = match off.all(|prediction| prediction.ratio_low.is_some()) {
            true => {
                "Predictions hold too seldom at present to rely on: something else runs, or this machine \
                 does things that the model does not know."
            }
            false => {
                "Predictions hold too seldom to rely on: the rounds are too few (--rounds), something else \
                 runs, or this machine does things that the model does not know."
            }
        };
        text.push_str(&wrap(seldom, style.width().min(WIDEST), ""));
        text.push('\n');
    }
    for advice in advice {
        text.push_str(&block(advice, checked, style));
    }
    let mut all = advice.iter().flat_map(|advice| &advice.promises);
    if all.any(|promise| promise.gain_low.is_some()) {
        let of = "[ ] are intervals of 95 %, each for itself, of what predicted gains make of costs that differ from round \
                  to round: what the model gets wrong (the ladder above shows some of it) comes on top.";
        text.push_str(&wrap(of, style.width().min(WIDEST), ""));
        text.push('\n');
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

fn block(advice: &Advice, checked: bool, style: Style) -> String {
    let mut text = wrap(&headline(advice), style.width(), "  ") + "\n";
    let (helping, rest): (Vec<&Promise>, Vec<&Promise>) =
        advice.promises.iter().partition(|p| p.gain >= WORTH);
    let row = |promise: &Promise| {
        let each: Vec<String> = promise.changes.iter().map(|c| words(*c)).collect();
        let together = if each.len() > 1 { "together: " } else { "" };
        let what = format!("{together}{}", each.join(", "));
        (what, figures(promise, checked))
    };
    let rows: Vec<_> = helping
        .into_iter()
        .chain(&advice.together)
        .map(row)
        .collect();
    text.push_str(&lay_out(&rows, style.width()));
    let (slower, same): (Vec<&Promise>, Vec<&Promise>) =
        rest.into_iter().partition(|p| p.gain * WORTH < 1.0);
    for (what, promises) in [("no gain", same), ("slower", slower)] {
        if !promises.is_empty() {
            let each: Vec<String> = promises.into_iter().map(in_short).collect();
            let room = style.width().min(WIDEST).saturating_sub(INDENT.len());
            let line = wrap(&format!("{what}: {}", each.join("; ")), room, "  ");
            text.push_str(&indented(&line));
        }
    }
    text
}

/// A change that is no help.
fn in_short(promise: &Promise) -> String {
    let measured = promise.checked.as_ref().and_then(|checked| checked.gain);
    let measured = measured.map_or_else(String::new, |gain| format!(", measured {}", times(gain)));
    format!(
        "{} ({}{measured})",
        words(promise.changes[0]),
        times(promise.gain)
    )
}

/// Lines below a headline.
const INDENT: &str = "  ";
/// Lines longer than that are hard to read.
const WIDEST: usize = 100;
/// Columns for what to do, beside its figures, where there is room.
const BESIDE: usize = 40;
/// Columns for what to do without which it gets lines of its own.
const NAME: usize = 24;

/// What to do, and its figures beside it if there is room, else below.
fn lay_out(rows: &[(String, Vec<String>)], width: usize) -> String {
    let columns = rows.iter().map(|(_, figures)| figures.len()).max();
    let taken: usize = (0..columns.unwrap_or(0))
        .map(|at| {
            let figures = rows.iter().filter_map(|(_, figures)| figures.get(at));
            2 + figures
                .map(|figure| figure.chars().count())
                .max()
                .unwrap_or(0)
        })
        .sum();
    let room = width.saturating_sub(taken + INDENT.len());
    if room < NAME {
        let room = width.saturating_sub(2 * INDENT.len());
        let below = |(what, figures): &(String, Vec<String>)| {
            let figures = indented(&wrap(&figures.join("  "), room, ""));
            indented(&(wrap(what, room, INDENT) + "\n" + figures.trim_end()))
        };
        return rows.iter().map(below).collect();
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    for (what, figures) in rows {
        // Beside the figures of single changes, not so far off that they are lost.
        let what = wrap(what, room.min(BESIDE.max(longest_single(rows))), INDENT);
        table.add_row(std::iter::once(what).chain(figures.iter().cloned()));
    }
    let (right, left) = (CellAlignment::Right, CellAlignment::Left);
    for (column, alignment) in table
        .column_iter_mut()
        .zip([left, left, right, left, right])
    {
        column.set_cell_alignment(alignment);
        column.set_padding((0, 2));
    }
    indented(&table.trim_fmt())
}

/// The longest name that no others stand beside.
fn longest_single(rows: &[(String, Vec<String>)]) -> usize {
    let single = rows.iter().filter(|(what, _)| !what.contains(','));
    single.map(|(what, _)| what.len()).max().unwrap_or(0)
}

fn indented(text: &str) -> String {
    let line = |line: &str| format!("{INDENT}{line}\n");
    text.lines().map(line).collect()
}

fn headline(advice: &Advice) -> String {
    let measured = advice.checked.as_ref().and_then(|checked| checked.measured);
    let measured = measured.map_or_else(String::new, |rate| {
        format!(", measured {}", significant(rate))
    });
    format!(
        "{}, pipe of {}, {} at a time: {} GiB/s{measured}",
        advice.user,
        size::format(advice.pipe_bytes as u64),
        size::format(advice.piece_bytes as u64),
        significant(advice.predicted),
    )
}

/// What a promise comes to, and what came of it.
fn figures(promise: &Promise, checked: bool) -> Vec<String> {
    let gain = |gain, low, high| {
        let within = ratio_interval(low, high);
        format!("{} {within}", times(gain)).trim_end().to_owned()
    };
    let rate = |rate| format!("{} GiB/s", significant(rate));
    let mut row = vec![
        gain(promise.gain, promise.gain_low, promise.gain_high),
        rate(promise.predicted),
    ];
    if !checked {
        return row;
    }
    match &promise.checked {
        Some(checked) => match (checked.gain, checked.measured, &checked.refused) {
            (Some(times), Some(measured), _) => {
                let times = gain(times, checked.gain_low, checked.gain_high);
                row.push(format!("measured {times}"));
                row.push(rate(measured));
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
    use crate::costs::predict::Basis;
    use crate::costs::synthetic::costs;
    use crate::machine::topology::Relation;

    fn advice() -> Vec<Advice> {
        advise(
            &Basis::new(&costs(7)),
            Relation::SharedCache(3),
            64 << 10,
            &|| Ok(()),
        )
        .unwrap()
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
    fn gains_have_intervals_and_it_is_said_what_of() {
        let mut advice = advice();
        let first = &mut advice[0].promises[0];
        (first.gain, first.gain_low, first.gain_high) = (3.0, Some(2.5), Some(3.25));
        let text = advice_text(&advice, &[], Style::for_terminal(false));
        assert!(text.contains("x3.00 [2.50, 3.25]"), "{text}");
        assert!(text.contains("intervals of 95 %"), "{text}");
        for promise in advice.iter_mut().flat_map(|advice| &mut advice.promises) {
            (promise.gain_low, promise.gain_high) = (None, None);
        }
        let text = advice_text(&advice, &[], Style::for_terminal(false));
        assert!(!text.contains("intervals of 95 %"), "{text}");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in [60, 80, 200] {
            let style = Style {
                width: Some(width),
                colour: false,
            };
            let text = advice_text(&advice(), &[], style);
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(width), "{longest:?}: {text}");
            assert!(text.contains("\n  no gain: "), "{text}");
        }
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
