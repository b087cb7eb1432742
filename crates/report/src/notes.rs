//! Notes below a table.

use super::format::pluralize;
use super::style::{DIM, RED, Style, YELLOW};
use pipespeed_host::{Warning, WarningKind};

/// Maximum number of lines of notes without --verbose.
const MAX_LINES: usize = 5;

/// A note below a table. The variants are in the order of importance.
pub(super) enum Note {
    /// The figures are not reliable.
    Alarm(String),
    /// Figures are missing, or less certain than they look.
    Caution(String),
    /// The method and the meaning of the figures.
    Method(String),
}

impl Note {
    /// A warning of a record. Failed trials are alarms, so that other warnings never hide
    /// them.
    pub fn warning(warning: &Warning) -> Note {
        let text = format!("note: {warning}");
        if warning.kind == WarningKind::Failed {
            Note::Alarm(text)
        } else {
            Note::Caution(text)
        }
    }

    /// The note, wrapped and coloured.
    pub fn lines(&self, style: Style) -> String {
        match self {
            Note::Alarm(text) => style.note(text, RED),
            Note::Caution(text) => style.note(text, YELLOW),
            Note::Method(text) => style.note(text, DIM),
        }
    }
}

/// The notes, the most important first, in at most [`MAX_LINES`] unless the style
/// is verbose; the last line then says how many are hidden.
pub(super) fn notes(mut notes: Vec<Note>, style: Style) -> String {
    notes.sort_by_key(|note| match note {
        Note::Alarm(_) => 0,
        Note::Caution(_) => 1,
        Note::Method(_) => 2,
    });
    let mut shown: Vec<String> = notes.iter().map(|note| note.lines(style)).collect();
    let lines = |text: &String| text.lines().count();
    if style.verbose || shown.iter().map(lines).sum::<usize>() <= MAX_LINES {
        return shown.join("\n");
    }
    let mut room = MAX_LINES - 1;
    shown.retain(|text| {
        let fits = lines(text) <= room;
        room -= if fits { lines(text) } else { 0 };
        fits
    });
    let hidden = pluralize(notes.len() - shown.len(), "more note");
    shown.push(style.note(&format!("({hidden} with --verbose)"), DIM));
    shown.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn failed_trials_are_shown_before_other_warnings() {
        let failed = Warning::new(WarningKind::Failed, "3 trials failed");
        let all = many().into_iter().chain([Note::warning(&failed)]).collect();
        let text = notes(all, Style::of_width(40));
        assert!(text.contains("note: 3 trials failed"), "{text}");
        assert!(text.contains("more note"), "{text}");
    }

    #[test]
    fn verbose_hides_nothing() {
        let style = Style {
            verbose: true,
            ..Style::of_width(40)
        };
        assert_eq!(notes(many(), style).lines().count(), 7);
    }

    #[test]
    fn five_lines_are_all_shown() {
        let five: Vec<Note> = many().into_iter().take(5).collect();
        assert!(!notes(five, Style::of_width(40)).contains("more note"));
    }
}
