//! Readings of fixtures whose files change in between.

use super::fixture::kvm_guest;
use super::*;
use crate::WarningKind;
use crate::warnings::of_noise;
use pipespeed_testing::says;

/// The difference after a second in which the counts of [`kvm_guest`] grew by
/// `busy` and `steal` ticks.
fn grown(busy: u64, steal: u64, cpus: &[usize], own_cpu_s: f64) -> NoiseDelta {
    let made = kvm_guest();
    let probe = NoiseProbe::open(&made.root);
    let earlier = probe.take();
    let made = made
        .file(
            "proc/stat",
            &format!(
                "cpu  {} 0 100 800 0 0 0 {steal} 7 0\ncpu0 50 0 50 400 0 0 0 0 0 0\ncpu1 {} 0 50 400 0 0 0 {steal} 7 0\nintr 5 1\n",
                100 + busy,
                50 + busy
            ),
        )
        .file("sys/fs/cgroup/app/cpu.stat", "usage_usec 9\nnr_throttled 2\nthrottled_usec 250000\n");
    let delta = probe
        .take_at(earlier.at_s + 1.0)
        .since(&earlier, cpus, own_cpu_s);
    drop(made);
    delta
}

#[test]
fn load_of_others_excludes_our_own_cpu_time() {
    let per_s = rustix::param::clock_ticks_per_second();
    let delta = grown(per_s, 0, &[], 0.25);
    assert!((delta.other_load.unwrap() - 0.75).abs() < 1e-6, "{delta:?}");
    assert_eq!(grown(0, 0, &[], 5.0).other_load, Some(0.0), "never below 0");
}

#[test]
fn steal_is_a_share_of_the_requested_processors() {
    let per_s = rustix::param::clock_ticks_per_second();
    let share = |cpus: &[usize]| grown(0, per_s / 2, cpus, 0.0).steal_share;
    let near = |share: Option<f64>, expected: f64| (share.unwrap() - expected).abs() < 1e-6;
    assert!(near(share(&[1]), 0.5));
    assert!(near(share(&[0, 1]), 0.25));
    assert!(near(share(&[]), 0.25), "none named is all of them");
    assert_eq!(share(&[9]), None, "a processor without counts");
}

#[test]
fn throttling_of_a_group_above_ours_is_seen() {
    assert_eq!(grown(0, 0, &[], 0.0).throttled_s, Some(0.25));
}

#[test]
fn warnings_depend_on_the_sum_of_all_trials() {
    let quiet = NoiseDelta {
        seconds: 1.0,
        steal_share: Some(0.0),
        throttled_s: Some(0.0),
        other_load: Some(0.02),
    };
    assert!(of_noise(&[]).is_empty());
    assert!(of_noise(&[quiet; 30]).is_empty());
    assert!(
        of_noise(&[NoiseDelta::default(); 30]).is_empty(),
        "nothing known"
    );
    let noisy = NoiseDelta {
        seconds: 1.0,
        steal_share: Some(0.1),
        throttled_s: Some(0.5),
        other_load: Some(2.0),
    };
    // One trial of ten, by far above the limits.
    let mut deltas = vec![quiet; 9];
    deltas.push(noisy);
    let said = of_noise(&deltas);
    let kinds: Vec<WarningKind> = said.iter().map(|warning| warning.kind).collect();
    assert_eq!(
        kinds,
        [
            WarningKind::Steal,
            WarningKind::Throttled,
            WarningKind::OtherLoad
        ]
    );
    assert!(said[0].message.contains("1.0 %"), "{}", said[0].message);
    says(&said[1].message, &["1 of 10 trials (0.50 s"]);
    says(&said[2].message, &["0.22 processors"]);
    // A short trial weighs less.
    deltas[9].seconds = 0.01;
    assert!(
        of_noise(&deltas)
            .iter()
            .all(|warning| warning.kind == WarningKind::Throttled)
    );
}
