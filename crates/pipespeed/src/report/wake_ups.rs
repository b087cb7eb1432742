//! The table of wake-ups on another processor.

use comfy_table::{Table, presets};

use super::costs::align;
use super::format::{in_parts, interval, significant, wrap};
use super::style::{BOLD, Style};
use crate::costs::Cost;
use crate::costs::sleeps::{Before, Woken, in_words, names};

/// What wakes up slowly, and when: a row for what went before, a column for each
/// end. None where nothing of it was measured.
pub fn wake_ups_table(costs: &[Cost], style: Style) -> Option<String> {
    let find = |name: &str| costs.iter().find(|cost| cost.kind.name == name);
    let cell = |woken, before| {
        let [until, call] = names(woken, before);
        let (until, call) = (find(&until)?, find(&call)?);
        let within = interval(until.low, until.high);
        let (until, call) = (significant(until.median?), significant(call.median?));
        Some([format!("{until} {within}"), call])
    };
    let refused = names(Woken::Reader, Before::all().next()?);
    let refused = find(&refused[0])?.refused.as_ref();
    let draw = |ends: &[Woken]| {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let mut head = vec![String::new()];
        for woken in ends {
            head.extend([format!("the {} runs", woken.name()), "waker".to_owned()]);
        }
        table.set_header(head);
        for before in Before::all() {
            let mut row = vec![format!("  {}", in_words(before))];
            for woken in ends {
                let dashes = || ["-", "-"].map(str::to_owned);
                row.extend(cell(*woken, before).unwrap_or_else(dashes));
            }
            table.add_row(row);
        }
        align(&mut table);
        table.trim_fmt()
    };
    let title = "waking the other end on another processor (ns until it runs, and until its \
                 waker goes on)";
    let title = style.paint(&wrap(title, style.width(), "  "), BOLD);
    let table = match refused {
        Some(why) => wrap(&format!("  - {why}"), style.width(), "  "),
        None => in_parts(Woken::ALL.len(), style.width(), |part| {
            draw(&Woken::ALL[part])
        }),
    };
    Some(format!("{title}\n{table}\n"))
}

#[cfg(test)]
mod tests {
    use super::super::format::longest_line;
    use super::*;
    use crate::costs::synthetic::costs;

    #[test]
    fn both_ends_stand_side_by_side_where_there_is_room() {
        let mut costs = costs(7);
        let [until, call] = names(Woken::Writer, Before::Asleep(8000));
        for (name, median) in [(until, 34_500.0), (call, 9870.0)] {
            let cost = costs
                .iter_mut()
                .find(|cost| cost.kind.name == name)
                .unwrap();
            (cost.median, cost.low, cost.high) = (Some(median), Some(30_100.0), Some(38_200.0));
        }
        for (width, headings) in [(None, 1), (Some(120), 1), (Some(80), 1), (Some(60), 2)] {
            let style = Style {
                width,
                colour: false,
            };
            let text = wake_ups_table(&costs, style).unwrap();
            let row = text.lines().filter(|line| line.contains("asleep for 8 us"));
            let row: String = row.collect();
            assert_eq!(text.matches("in turns, 1 us of work").count(), headings);
            assert!(
                row.contains("34500 [30100, 38200]") && row.contains("9870"),
                "{text}"
            );
            assert!(row.contains("20000") && row.contains("8000"), "{text}");
            assert!(
                width.is_none_or(|width| longest_line(&text) <= width),
                "{text}"
            );
        }
    }

    #[test]
    fn a_refusal_is_said_once() {
        let mut costs = costs(7);
        for cost in &mut costs {
            cost.median = None;
            cost.refused = Some("not allowed".to_owned());
        }
        let text = wake_ups_table(&costs, Style::for_terminal(false)).unwrap();
        assert_eq!(text.matches("not allowed").count(), 1, "{text}");
        assert_eq!(wake_ups_table(&[], Style::for_terminal(false)), None);
    }
}
