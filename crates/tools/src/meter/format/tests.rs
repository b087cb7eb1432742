use jiff::Timestamp;
use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::super::progress::Ending;
use super::*;

fn half_way() -> Snapshot {
    Snapshot {
        done: 3 << 20,
        size: Some(6 << 20),
        elapsed: Duration::from_secs(3),
        rate: Some(1_048_576.0),
        fill: Some(0.5),
        beats: 3,
        ..Snapshot::default()
    }
}

fn line_of(format: &Format, snapshot: &Snapshot, width: usize, name: Option<&str>) -> String {
    let now = Timestamp::UNIX_EPOCH.to_zoned(TimeZone::UTC);
    let snapshot = Snapshot {
        name: name.map(str::to_owned),
        ..snapshot.clone()
    };
    format.line(&snapshot, Unit::Bytes, width, &now).text
}

fn formatted(text: &str, snapshot: &Snapshot) -> String {
    line_of(&Format::parse(text).unwrap(), snapshot, 60, Some("disk"))
}

#[test]
fn the_default_line_is_drawn_at_any_width() {
    let format = Format::default();
    let line = |width| line_of(&format, &half_way(), width, None);
    insta::assert_snapshot!(line(80), @"3.00MiB 0:00:03 [1.00MiB/s] [================>                ]  50% ETA 0:00:03");
    insta::assert_snapshot!(line(60), @"3.00MiB 0:00:03 [1.00MiB/s] [======>      ]  50% ETA 0:00:03");
    insta::assert_snapshot!(line(48), @"3.00MiB 0:00:03 [1.00MiB/s]      50% ETA 0:00:03");
    insta::assert_snapshot!(line(40), @"3.00MiB 0:00:03 [1.00MiB/s] ETA 0:00:03");
    insta::assert_snapshot!(line(10), @"3.00MiB 0:");
    insta::assert_snapshot!(line(0), @"");
}

#[test]
fn without_a_size_an_indicator_replaces_the_bar() {
    let mut snapshot = half_way();
    snapshot.size = None;
    let line = line_of(&Format::default(), &snapshot, 50, Some("disk"));
    insta::assert_snapshot!(line, @"     disk: 3.00MiB 0:00:03 [1.00MiB/s] [   <=>   ]");
}

#[test]
fn the_last_line_has_the_average_and_no_time_left() {
    let mut snapshot = half_way();
    snapshot.rate = Some(5.0);
    snapshot.ending = Some(Ending::default());
    let line = line_of(&Format::default(), &snapshot, 50, None);
    insta::assert_snapshot!(line, @"3.00MiB 0:00:03 [1.00MiB/s] [=======>       ]  50%");
}

#[test]
fn a_format_is_text_and_letters() {
    assert_eq!(formatted("%t|%b|%%", &half_way()), "0:00:03|3.00MiB|%");
    assert_eq!(formatted("%r%a", &half_way()), "[1.00MiB/s][1.00MiB/s]");
    assert_eq!(formatted("%T %N", &half_way()), "{ 50%}      disk:");
    assert_eq!(formatted("%I", &half_way()), "ETA 00:00:03");
    assert_eq!(formatted("in %p", &half_way()).len(), 60);
    assert_eq!(formatted("", &half_way()), "");
    let mut slow = half_way();
    slow.rate = Some(100.0);
    assert_eq!(formatted("%I", &slow), "ETA 1970-01-01 08:44:17");
    slow.rate = Some(1e-9);
    assert_eq!(formatted("%I", &slow), "ETA --:--:--");
    slow.rate = None;
    assert_eq!(formatted("%e", &slow), "ETA -:--:--");
}

#[test]
fn malformed_formats_are_refused() {
    assert!(Format::parse("%x").unwrap_err().contains("%x"));
    assert!(Format::parse("50%").unwrap_err().contains("%%"));
    assert!(Format::parse("%p%p").unwrap_err().contains("once"));
}

#[test]
fn control_characters_never_reach_the_terminal() {
    assert_eq!(formatted("a\u{1b}[2J\n%t\r", &half_way()), "a?[2J?0:00:03?");
    let name = line_of(&Format::default(), &half_way(), 20, Some("x\u{1b}y\n"));
    assert!(name.starts_with("     x?y?:"), "{name:?}");
}

#[test]
fn wide_characters_take_two_columns() {
    let format = Format::parse("%N").unwrap();
    let line = line_of(&format, &half_way(), 7, Some("漢字漢字漢字"));
    assert_eq!(line, "   漢字");
}

proptest! {
    #[test]
    fn no_line_is_wider_than_the_terminal(
        text in "([a-z漢 ]|%[pteIrabTN%]){0,12}",
        name in prop::option::of(".{0,20}"),
        done: u64,
        size in prop::option::of(any::<u64>()),
        seconds in 0..u64::MAX / 2,
        rate in prop::option::of(0.0..1e30_f64),
        beats: u64,
        last: bool,
        width in 0..200_usize,
    ) {
        let Ok(format) = Format::parse(&text) else { return Ok(()) };
        let snapshot = Snapshot {
            done, size, rate, beats, name,
            elapsed: Duration::from_secs(seconds),
            ending: last.then(Ending::default),
            ..Snapshot::default()
        };
        let now = Timestamp::UNIX_EPOCH.to_zoned(TimeZone::UTC);
        let line = format.line(&snapshot, Unit::Bytes, width, &now);
        prop_assert!(line.text.width() <= width, "{line:?}");
        prop_assert!(!line.text.chars().any(char::is_control));
        prop_assert!(line.text.get(line.bar.clone()).is_some());
    }
}

#[test]
fn a_bar_fills_from_left_to_right() {
    assert_eq!(progress_bar(0.0, 0, 17), "[>         ]   0%");
    assert_eq!(progress_bar(0.5, 50, 17), "[=====>    ]  50%");
    assert_eq!(progress_bar(0.99, 99, 17), "[=========>]  99%");
    assert_eq!(progress_bar(1.0, 100, 17), "[==========] 100%");
    assert_eq!(progress_bar(2.0, 200, 17), "[==========] 200%");
    assert_eq!(progress_bar(0.5, 50, 5), "  50%");
    assert_eq!(progress_bar(0.5, 50, 3), "");
}

#[test]
fn the_mark_moves_back_and_forth() {
    let at = |beats| indicator(beats, 8);
    assert_eq!(at(0), "[<=>   ]");
    assert_eq!(at(3), "[   <=>]");
    assert_eq!(at(4), "[  <=> ]");
    assert_eq!(at(6), "[<=>   ]");
    assert_eq!(indicator(7, 5), "[<=>]");
    assert_eq!(indicator(7, 4), "");
}

proptest! {
    #[test]
    fn a_bar_has_the_requested_width_or_none(
        share in 0.0..3.0_f64, percent in 0..100_000_u64, beats: u64, width in 0..300_usize,
    ) {
        for bar in [progress_bar(share, percent, width), indicator(beats, width)] {
            prop_assert!(bar.is_empty() || bar.len() == width, "{bar:?}");
        }
    }
}

const LINES: Unit = Unit::Lines { end: b'\n' };

#[test]
fn amounts_have_three_or_four_digits() {
    let bytes = |value| amount(value, Unit::Bytes);
    assert_eq!(bytes(0.0), "0B");
    assert_eq!(bytes(1023.0), "1023B");
    assert_eq!(bytes(1024.0), "1.00KiB");
    assert_eq!(bytes(3.0 * 1_048_576.0), "3.00MiB");
    assert_eq!(bytes(9.996 * 1024.0), "10.0KiB");
    assert_eq!(bytes(1023.6 * 1024.0), "1.00MiB");
    assert_eq!(bytes(1023.4 * 1024.0), "1023KiB");
    assert_eq!(bytes(u64::MAX as f64), "16.0EiB");
    assert_eq!(bytes(f64::NAN), "0B");
    assert_eq!(bytes(-1.0), "0B");
    assert_eq!(amount(999.0, LINES), "999");
    assert_eq!(amount(43_800.0, LINES), "43.8k");
    assert_eq!(amount(999_999.0, LINES), "1.00M");
}

#[test]
fn long_times_begin_with_days() {
    let shown = |seconds| time(Duration::from_secs(seconds));
    assert_eq!(shown(0), "0:00:00");
    assert_eq!(shown(5), "0:00:05");
    assert_eq!(shown(3600 * 23 + 59 * 60 + 59), "23:59:59");
    assert_eq!(shown(2 * 86_400 + 3 * 3600 + 4 * 60 + 5), "2:03:04:05");
    assert_eq!(shown(u64::MAX / 2).matches(':').count(), 3);
}
