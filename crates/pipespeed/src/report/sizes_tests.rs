use super::*;
use crate::report::sample;
use crate::report::{Style, table};

fn narrow(width: usize) -> Style {
    Style {
        width: Some(width),
        colour: false,
    }
}

#[test]
fn a_search_as_it_is_shown() {
    insta::assert_snapshot!(table(&sample::sizes(), Style::default()));
}

#[test]
fn a_narrow_terminal_keeps_sizes_and_rates() {
    let text = table(&sample::sizes(), narrow(80));
    let rows = text.lines().take_while(|line| !line.is_empty());
    assert!(
        rows.clone().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    assert!(
        rows.clone().any(|line| line.contains("write_read_same ")),
        "{text}"
    );
}

#[test]
fn a_search_cut_short_shows_what_leads_and_says_so() {
    use crate::search::sample::{Fake, usual_axes, usual_panels, whole_run};
    let runner = Fake {
        signal_at: Some(1200),
        ..Fake::default()
    };
    let run = whole_run(sample::ladder(), &usual_panels(), &usual_axes(1), runner);
    let text = table(&run, Style::default());
    assert!(text.contains("interrupted: SIGINT"), "{text}");
    assert!(text.contains("did not come to its end"), "{text}");
    assert!(text.contains("not measured afresh"), "{text}");
    assert!(!text.contains("confirmed"), "{text}");
}

#[test]
fn what_the_rounds_do_not_bear_out_is_not_confirmed() {
    let mut run = sample::sizes();
    let panel = run.search.as_ref().unwrap().panels[8].clone();
    let name = panel.winner_case.clone().unwrap();
    for (found, low, high, word) in [
        (Verdict::Undecided, 0.9, 1.2, "not confirmed"),
        (Verdict::Same, 0.99, 1.01, "not confirmed: the same"),
        (Verdict::Slower, 0.7, 0.8, "not confirmed: slower"),
        (Verdict::Faster, 1.2, 1.3, "confirmed"),
    ] {
        let case = run.cases.iter_mut().find(|case| case.name == name).unwrap();
        let ratio = case.ratio.as_mut().unwrap();
        (ratio.verdict, ratio.low, ratio.high) = (found, Some(low), Some(high));
        assert_eq!(verdict(&run, &panel), word);
    }
    // By no more than a case may differ from itself.
    let control = run.null_control.as_mut().unwrap().ratio.as_mut().unwrap();
    (control.verdict, control.low, control.high) = (Verdict::Undecided, Some(0.83), Some(1.1));
    assert_eq!(verdict(&run, &panel), "not confirmed");
    let best = &mut run.search.as_mut().unwrap().best[3];
    best.against[0].ratio.as_mut().unwrap().verdict = Verdict::Undecided;
    let best = best.clone();
    let line = sentence(&run, run.search.as_ref().unwrap(), &best);
    assert!(
        line.ends_with("Not confirmed to be faster than what is published."),
        "{line}"
    );
}

#[test]
fn only_what_was_tried_counts_and_want_of_time_is_as_the_search_noted_it() {
    use crate::search::sample::{Fake, usual_axes, usual_panels, whole_run};
    let mut panels = usual_panels();
    panels[8].refused = Some("invented".to_owned());
    // Found out in the first stage, which so loses more than half of its pairs.
    let runner = Fake {
        refused_pipe: Some(1 << 20),
        ..Fake::default()
    };
    let run = whole_run(sample::ladder(), &panels, &usual_axes(1), runner);
    let mut search = run.search.clone().unwrap();
    let text = measured(&run, &search);
    assert!(
        text.starts_with("Searched: 704 pairs of sizes in 8 panels"),
        "{text}"
    );
    assert!(!text.contains("less time than it needs"), "{text}");
    search.short_of_time = true;
    assert!(measured(&run, &search).contains("less time than it needs"));
}

#[test]
fn spinning_on_one_processor_is_said_to_be_left_out_unless_it_is_refused() {
    let said = |search: &Search| left_out(search, Style::default()).is_some();
    let mut search = sample::sizes().search.unwrap();
    assert!(said(&search));
    search.panels.retain(|panel| panel.placement != "same");
    assert!(!said(&search));
    for panel in &mut search.panels {
        panel.reader_cpu = panel.writer_cpu;
    }
    assert!(!said(&search));
}

#[test]
fn a_command_line_can_be_copied_as_it_stands() {
    let text = table(&sample::sizes(), narrow(60));
    let first = text
        .lines()
        .position(|line| line.contains("pipespeed write"))
        .unwrap();
    let lines: Vec<&str> = text.lines().skip(first).take(2).collect();
    assert!(lines[0].ends_with(" |"), "{lines:?}");
    assert!(lines[1].contains("pipespeed read"), "{lines:?}");
}
