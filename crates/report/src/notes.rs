//! Notes below a table.

use super::format::pluralize;
use super::style::{DIM, RED, Style, YELLOW};
use itertools::Itertools as _;
use pipespeed_host::warnings::disturbances_and_load;
use pipespeed_host::{Warning, WarningKind, WarningScope};

/// Maximum number of lines of notes without --verbose, but for those that are always shown.
const MAX_LINES: usize = 5;

/// A note below a table. The variants are in the order of importance.
pub(super) enum Note {
    /// The figures are not reliable. Always shown.
    Alarm(String),
    /// What disturbed this run, or kept it from what was asked for. Always shown.
    Run(String),
    /// Figures are missing, or less certain than they look.
    Caution(String),
    /// A permanent property of the machine. Without --verbose only its name is shown.
    Machine { name: &'static str, text: String },
    /// The method and the meaning of the figures.
    Method(String),
}

impl Note {
    /// A warning of a record. Failed trials are alarms.
    pub fn warning(warning: &Warning) -> Note {
        let text = format!("note: {warning}");
        match (warning.kind, warning.kind.scope()) {
            (WarningKind::Failed, _) => Note::Alarm(text),
            (WarningKind::FewRounds | WarningKind::Busy, _) => Note::Run(text),
            (_, WarningScope::Disturbance) => Note::Run(text),
            (_, WarningScope::Machine(name)) => Note::Machine { name, text },
            (_, WarningScope::Run) => Note::Caution(text),
        }
    }

    /// The warnings of a record. A load before the first trial is left out if it was measured
    /// during the trials, too.
    pub fn warnings(warnings: &[Warning]) -> Vec<Note> {
        let shown: Vec<&Warning> = disturbances_and_load(warnings).collect();
        let is_shown = |warning: &&Warning| {
            warning.kind != WarningKind::Busy || shown.iter().any(|one| one == warning)
        };
        warnings
            .iter()
            .filter(is_shown)
            .map(Note::warning)
            .collect()
    }

    /// The text without the word before it.
    pub fn into_text(self) -> String {
        let (Note::Alarm(text)
        | Note::Run(text)
        | Note::Caution(text)
        | Note::Machine { text, .. }
        | Note::Method(text)) = self;
        text.trim_start_matches("note: ").to_owned()
    }

    fn order(&self) -> usize {
        match self {
            Note::Alarm(_) => 0,
            Note::Run(_) => 1,
            Note::Caution(_) => 2,
            Note::Machine { .. } => 3,
            Note::Method(_) => 4,
        }
    }

    fn is_always_shown(&self) -> bool {
        matches!(self, Note::Alarm(_) | Note::Run(_))
    }

    /// The note, wrapped and coloured.
    pub fn lines(&self, style: Style) -> String {
        match self {
            Note::Alarm(text) => style.note(text, RED),
            Note::Run(text) | Note::Caution(text) => style.note(text, YELLOW),
            Note::Machine { text, .. } | Note::Method(text) => style.note(text, DIM),
        }
    }
}

/// The notes, the most important first. Unless the style is verbose, those on the machine are
/// shortened to a line, and others than the most important are shown as far as they fit into
/// [`MAX_LINES`]; the last line then says how many are hidden.
pub(super) fn notes(mut notes: Vec<Note>, style: Style) -> String {
    if !style.verbose {
        shorten_machine(&mut notes);
    }
    notes.sort_by_key(Note::order);
    let shown: Vec<(bool, String)> = notes
        .iter()
        .map(|note| (note.is_always_shown(), note.lines(style)))
        .collect();
    let count = |(_, text): &(bool, String)| text.lines().count();
    let total: usize = shown.iter().map(count).sum();
    let fits = style.verbose || total <= MAX_LINES;
    // The last line counts the hidden notes.
    let mut room = MAX_LINES - 1;
    let mut texts = Vec::new();
    for note in &shown {
        let (is_always_shown, text) = note;
        if fits || *is_always_shown || count(note) <= room {
            room = room.saturating_sub(count(note));
            texts.push(text.clone());
        }
    }
    let hidden = shown.len() - texts.len();
    if hidden > 0 {
        let hidden = pluralize(hidden, "more note");
        texts.push(style.note(&format!("({hidden} with --verbose)"), DIM));
    }
    texts.join("\n")
}

/// Replaces the notes on the machine by one with their names.
fn shorten_machine(notes: &mut Vec<Note>) {
    let names = notes.iter().filter_map(|note| match note {
        Note::Machine { name, .. } => Some(*name),
        _ => None,
    });
    let names = names.unique().join(", ");
    if names.is_empty() {
        return;
    }
    notes.retain(|note| !matches!(note, Note::Machine { .. }));
    notes.push(Note::Machine {
        name: "",
        text: format!("note: permanent properties of this machine: {names} (see --verbose)"),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::verbose;

    fn many() -> Vec<Note> {
        let caution = |at: usize| Note::Caution(format!("note: the {at}th of the cautions"));
        let method = || Note::Method("Measured: in one way or another".to_owned());
        let alarm = || Note::Alarm("interrupted: SIGINT".to_owned());
        [method()]
            .into_iter()
            .chain((4..9).map(caution))
            .chain([alarm()])
            .collect()
    }

    #[test]
    fn the_most_important_notes_come_first_and_the_rest_is_counted() {
        insta::assert_snapshot!(notes(many(), Style::of_width(40)));
    }

    #[test]
    fn a_note_of_several_lines_leaves_room_for_shorter_ones() {
        insta::assert_snapshot!(notes(many(), Style::of_width(24)));
    }

    #[test]
    fn verbose_hides_no_note_and_no_property_of_the_machine() {
        assert_eq!(notes(many(), verbose(40)).lines().count(), 7);
        let warnings = [
            (WarningKind::Guest, "a guest"),
            (WarningKind::Quota, "a quota"),
        ];
        let warnings = warnings.map(|(kind, message)| Warning::new(kind, message));
        let text = notes(Note::warnings(&warnings), verbose(80));
        assert_eq!(text, "note: a guest\nnote: a quota");
    }

    #[test]
    fn five_lines_are_all_shown() {
        let five: Vec<Note> = many().into_iter().take(5).collect();
        assert!(!notes(five, Style::of_width(40)).contains("more note"));
    }

    #[test]
    fn what_disturbed_this_run_is_never_hidden_and_comes_before_the_machine() {
        let warnings = [
            (WarningKind::Guest, "a guest: waking takes long"),
            (WarningKind::PressureStall, "PSI is on"),
            (WarningKind::TwoModes, "two groups"),
            (WarningKind::Steal, "steal 2.6 %"),
            (WarningKind::OtherLoad, "others used 0.97 processors"),
            (WarningKind::Drift, "the rate changed"),
            (WarningKind::Throttled, "the quota stopped it"),
            (WarningKind::RunDelay, "an end waited"),
            (WarningKind::Flagged, "other medians"),
            (WarningKind::FewRounds, "verdicts are withheld"),
        ]
        .map(|(kind, message)| Warning::new(kind, message));
        let all = Note::warnings(&warnings);
        let text = notes(all, Style::of_width(80));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_load_before_the_run_is_shown_unless_it_was_measured_during_the_run() {
        let busy = Warning::new(WarningKind::Busy, "others used 1.9 of 2 processors before");
        let load = Warning::new(WarningKind::OtherLoad, "others used 1.8 processors");
        let shown = |warnings: &[Warning]| notes(Note::warnings(warnings), Style::of_width(80));
        let alone = shown(std::slice::from_ref(&busy));
        assert_eq!(alone, "note: others used 1.9 of 2 processors before");
        assert_eq!(shown(&[busy, load]), "note: others used 1.8 processors");
    }
}
