//! Error rates of the verdicts, by simulating runs with known differences. The
//! figures go to METHOD.md: `cargo test simulation -- --nocapture`.

use super::testing::Noise;
use super::{holm_ratios, holm_unpaired, paired_ratios};
use crate::schedule::Schedule;
use crate::{Ratio, Verdict};

const RUNS: u64 = 2000;
const ROUNDS: usize = 30;
/// A reference and the 8 cases compared with it.
const CASES: usize = 9;

/// The rate of a trial, by noise source, state kept between trials, round, and
/// position in the round.
type Model = fn(&mut Noise, &mut f64, usize, usize) -> f64;

/// 8 % noise for each trial and 8 % for each round.
fn lognormal(noise: &mut Noise, shared: &mut f64, _: usize, position: usize) -> f64 {
    if position == 0 {
        *shared = noise.lognormal(0.08);
    }
    *shared * noise.lognormal(0.08)
}

/// As [`lognormal`], but three trials in ten run at three quarters of the rate.
fn bimodal(noise: &mut Noise, shared: &mut f64, round: usize, position: usize) -> f64 {
    let mode = if noise.uniform() < 0.3 { 0.75 } else { 1.0 };
    mode * lognormal(noise, shared, round, position)
}

/// The machine drifts by 8 % (with a correlation of 0.9 between trials) and slows
/// down by 30 % during the run; each trial has 4 % noise.
fn drifting(noise: &mut Noise, wander: &mut f64, round: usize, position: usize) -> f64 {
    let step = if round + position == 0 {
        1.0
    } else {
        0.19f64.sqrt()
    };
    *wander = 0.9 * *wander + step * noise.normal();
    let progress = (round * CASES + position) as f64 / (ROUNDS * CASES) as f64;
    (1.0 - 0.3 * progress) * (0.08 * *wander).exp() * noise.lognormal(0.04)
}

/// Simulates a run: the rates of each case, multiplied by its factor.
fn run(model: Model, factors: [f64; CASES], seed: u64) -> Vec<Vec<(usize, f64)>> {
    let mut noise = Noise::new(seed.wrapping_mul(0x5851_f42d_4c95_7f2d));
    let mut state = 0.0;
    let mut rates = vec![Vec::new(); CASES];
    for (round, order) in Schedule::new(CASES, ROUNDS, seed).orders.iter().enumerate() {
        for (position, &case) in order.iter().enumerate() {
            let rate = factors[case] * model(&mut noise, &mut state, round, position);
            rates[case].push((round, rate));
        }
    }
    rates
}

fn compared(rates: &[Vec<(usize, f64)>]) -> Vec<Ratio> {
    let ratios: Vec<Vec<f64>> = rates[1..]
        .iter()
        .map(|case| paired_ratios(case, &rates[0]))
        .collect();
    holm_ratios(&ratios, 0.95).into_iter().flatten().collect()
}

fn claims(ratio: &Ratio) -> bool {
    matches!(ratio.verdict, Verdict::Faster | Verdict::Slower)
}

fn excludes_one(ratio: &Ratio) -> bool {
    let (low, high) = ratio.estimate.ends();
    low > 1.0 || high < 1.0
}

fn share(runs: u64, condition: impl FnMut(&u64) -> bool) -> f64 {
    (0..runs).filter(condition).count() as f64 / runs as f64
}

/// 5 % plus three standard errors of a share observed in `runs` runs.
fn allowed(runs: u64) -> f64 {
    0.05 + 3.0 * (0.05f64 * 0.95 / runs as f64).sqrt()
}

#[test]
fn runs_without_differences_seldom_claim_one() {
    let models: [(&str, Model); 3] = [
        ("lognormal", lognormal),
        ("bimodal", bimodal),
        ("drifting", drifting),
    ];
    for (name, model) in models {
        let (mut excluded, mut single) = (0, 0);
        let false_claims = share(RUNS, |&seed| {
            let ratios = compared(&run(model, [1.0; CASES], seed));
            excluded += u64::from(ratios.iter().any(excludes_one));
            single += ratios.iter().filter(|r| claims(r)).count();
            ratios.iter().any(claims)
        });
        let excluded = excluded as f64 / RUNS as f64;
        println!(
            "null, {name}: {:.2} % of runs claim a difference, {:.2} % have an interval without 1, \
             {:.3} % of comparisons claim one",
            100.0 * false_claims,
            100.0 * excluded,
            100.0 * single as f64 / (RUNS as usize * (CASES - 1)) as f64,
        );
        assert!(excluded <= allowed(RUNS) && false_claims <= excluded);
    }
}

#[test]
fn a_slow_down_of_a_tenth_is_nearly_always_found() {
    let five_percent: Model = |noise, _, _, _| noise.lognormal(0.05);
    let mut factors = [1.0; CASES];
    factors[4] = 0.9;
    let (mut others, mut same) = (0, 0);
    let found = share(RUNS, |&seed| {
        let ratios = compared(&run(five_percent, factors, seed));
        let mut rest = ratios.clone();
        rest.remove(3);
        others += u64::from(rest.iter().any(claims));
        same += rest.iter().filter(|r| r.verdict == Verdict::Same).count();
        ratios[3].verdict == Verdict::Slower
    });
    println!(
        "slower by 10 %, noise 5 %, 8 comparisons: found in {:.2} % of runs; \
         {:.2} % of runs claim a difference of another case; {:.1} % of the others are called same",
        100.0 * found,
        100.0 * others as f64 / RUNS as f64,
        100.0 * same as f64 / (RUNS as usize * (CASES - 2)) as f64,
    );
    assert!(found > 0.95);
}

#[test]
fn differences_just_over_the_limit_are_seldom_called_same() {
    // The worst case for `same`: all 8 cases are just beyond 5 %, and every
    // interval excludes 1, so that Holm's levels go down to 95 % for the last.
    for spread in [0.01, 0.02, 0.04] {
        let model: Model = match spread {
            0.01 => |noise, _, _, _| noise.lognormal(0.01),
            0.02 => |noise, _, _, _| noise.lognormal(0.02),
            _ => |noise, _, _, _| noise.lognormal(0.04),
        };
        let mut factors = [1.0501; CASES];
        factors[0] = 1.0;
        let wrong = share(RUNS, |&seed| {
            compared(&run(model, factors, seed))
                .iter()
                .any(|r| r.verdict == Verdict::Same)
        });
        println!(
            "all faster by 5.01 %, noise {spread}: {:.2} % of runs call one the same",
            100.0 * wrong
        );
        assert!(wrong <= allowed(RUNS));
    }
}

/// Two runs of 30 rounds of 8 cases each. A case's rounds have 3 % noise and a
/// slow drift of 6 % with a correlation of `inherited` between rounds.
fn two_runs(inherited: f64, factor: f64, seed: u64) -> Vec<(Vec<f64>, Vec<f64>)> {
    let mut noise = Noise::new(seed.wrapping_mul(0x5851_f42d_4c95_7f2d) + 1);
    let mut rates = |factor: f64| -> Vec<f64> {
        let mut wander = noise.normal();
        (0..ROUNDS)
            .map(|_| {
                wander = inherited * wander + (1.0 - inherited * inherited).sqrt() * noise.normal();
                factor * (0.06 * wander).exp() * noise.lognormal(0.03)
            })
            .collect()
    };
    (0..8).map(|_| (rates(1.0), rates(factor))).collect()
}

#[test]
fn blocks_keep_slow_drift_from_appearing_as_a_change() {
    // Fewer runs than elsewhere: each makes 900 differences for each case.
    const FEWER: u64 = 300;
    for inherited in [0.0, 0.5, 0.8] {
        let mut wrong = Vec::new();
        for block in [1, 3, 5] {
            let null = share(FEWER, |&seed| {
                holm_unpaired(&two_runs(inherited, 1.0, seed), block, 0.95)
                    .iter()
                    .flatten()
                    .any(excludes_one)
            });
            let found = share(FEWER / 3, |&seed| {
                holm_unpaired(&two_runs(inherited, 0.85, seed), block, 0.95)[0]
                    .is_some_and(|ratio| ratio.verdict == Verdict::Slower)
            });
            println!(
                "unpaired, 8 comparisons, inherited {inherited}, blocks of {block}: {:.1} % of null \
                 runs have an interval without 1; slower by 15 % is found in {:.1} %",
                100.0 * null,
                100.0 * found
            );
            wrong.push(null);
        }
        // Independent rounds need no blocks; for correlated ones, blocks help.
        if inherited == 0.0 {
            assert!(wrong.iter().all(|&share| share <= allowed(FEWER)));
        } else {
            assert!(wrong[2] < wrong[0] / 2.0);
        }
    }
}
