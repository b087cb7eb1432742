//! What speaks against a result: disturbances, the null control, too few rounds.

use super::*;

#[test]
fn records_of_two_machines_and_a_suspect_run_are_alarms() {
    let [mut ladder, touched, ..] = runs();
    ladder.header.machine.kernel.release = Some("5.17.0".to_owned());
    fixtures::set_control(&mut ladder, within(1.2, 1.3, 1.4));
    let text = page(&records([ladder, touched]), None);
    for words in ["machines or kernels", "a case differs from itself"] {
        assert!(text.contains(words), "{words}");
    }
}

#[test]
fn a_difference_that_the_null_control_shows_too_is_undecided() {
    let mut run = with_outcome(fixtures::ladder(), ClaimBasis::Faster);
    fixtures::set_control(&mut run, within(0.7, 1.0, 1.5));
    let text = page(&records([run]), None);
    let document = parse(&text);
    let claims = claims_of(&document);
    let (_, verdict, node) = claims.iter().find(|claim| claim.0 == "spinning").unwrap();
    let sentence = text_without(*node, &[]);
    assert_eq!(*verdict, "undecided");
    assert!(
        sentence.contains("the null control allows for as much"),
        "{sentence}"
    );
}

#[test]
fn tables_and_charts_allow_for_the_null_control_as_claims_do() {
    let mut run = with_outcome(fixtures::ladder(), ClaimBasis::Slower);
    fixtures::set_control(&mut run, within(0.7, 1.0, 1.5));
    let text = page(&records([run]), None);
    let document = parse(&text);
    for cell in elements(&document, "td") {
        let text = text_without(cell, &[]);
        assert!(!text.starts_with("slower than"), "{text}");
    }
    // The plain pipe is compared with the published rates.
    let claims = claims_of(&document).into_iter();
    for (name, verdict, _) in claims.filter(|claim| claim.0 != "plain-pipe") {
        assert!(verdict != "slower", "{name}");
    }
}

#[test]
fn an_interval_from_too_few_rounds_is_not_said_to_contain_equal_rates() {
    let mut run = fixtures::ladder();
    for case in &mut run.cases {
        if let Some(ratio) = &mut case.ratio {
            *ratio = Ratio::undecided(estimate(1.2, 1.3, 1.4), Doubt::TooFewRounds);
        }
    }
    let text = page(&records([run]), None);
    let document = parse(&text);
    let claims = claims_of(&document).into_iter();
    let of_ladder = claims.filter(|claim| claim.0 == "spinning" || claim.0 == "splice");
    let sentences: Vec<String> = of_ladder.map(|claim| text_without(claim.2, &[])).collect();
    assert_eq!(sentences.len(), 2);
    for sentence in sentences {
        assert!(
            sentence.contains("from too few rounds for a verdict"),
            "{sentence}"
        );
    }
}

#[test]
fn a_disturbance_of_any_record_is_an_alarm() {
    let mut disturbed = fixtures::latency_record(ExchangeMode::Closed);
    disturbed.warnings = [
        (WarningKind::OtherLoad, "others ran"),
        (WarningKind::Guest, "a guest"),
        (WarningKind::Flagged, "disturbed trials change medians"),
    ]
    .map(|(kind, message)| pipespeed_host::Warning::new(kind, message))
    .to_vec();
    let text = page(&Records::new([Saved::Latency(Box::new(disturbed))]), None);
    let document = parse(&text);
    let alarms = document.descendants();
    let mut alarms = alarms.filter(|it| it.attribute("class") == Some("alarm"));
    let alarm = text_without(alarms.next().unwrap(), &[]);
    let notes = "(2)latency: others ran.latency: disturbed trials change medians.";
    assert!(alarm.ends_with(notes), "{alarm}");
    assert!(alarms.next().is_none());
}

#[test]
fn a_load_before_the_first_trial_is_an_alarm_unless_it_was_measured_later() {
    let busy = || pipespeed_host::Warning::new(WarningKind::Busy, "before, others ran");
    let load = || pipespeed_host::Warning::new(WarningKind::OtherLoad, "during, others ran");
    let alarms = |warnings| {
        let mut run = fixtures::touched();
        run.warnings = warnings;
        let text = page(&records([run]), None);
        let document = parse(&text);
        let alarms = document.descendants();
        let alarms = alarms.filter(|node| node.attribute("class") == Some("alarm"));
        alarms
            .map(|node| text_without(node, &[]))
            .collect::<String>()
    };
    assert!(alarms(vec![busy()]).contains("before, others ran"));
    let measured = alarms(vec![busy(), load()]);
    assert!(measured.contains("during, others ran"), "{measured}");
    assert!(!measured.contains("before, others ran"), "{measured}");
}

#[test]
fn a_warning_of_several_records_is_shown_once() {
    let warning = || pipespeed_host::Warning::new(WarningKind::Guest, "this is a guest of many");
    let with_warning = |mut run: Run| {
        run.warnings = vec![warning()];
        Saved::Bench(Box::new(run))
    };
    let both = [fixtures::touched(), fixtures::sizes()].map(with_warning);
    let text = page(&Records::new(both), None);
    assert_eq!(text.matches("this is a guest of many").count(), 1);
}
