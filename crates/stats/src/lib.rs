//! Statistics of samples: medians with exact intervals, ratios with verdicts,
//! balanced schedules, and checks for drift, dependence and two modes.
//!
//! Rates have long tails, several modes and genuine outliers, so nothing here
//! assumes a distribution: all methods use order and sign. All functions are
//! pure. Ratios are computed as logarithms, so that exchanging the two sides
//! gives the reciprocal.
//!
//! Sources:
//! - W. J. Conover, *Practical Nonparametric Statistics*, 3rd ed., Wiley 1999:
//!   sections 3.2 (interval of a quantile), 3.4 (sign test), 5.1 (two samples).
//! - M. Hollander, D. A. Wolfe, E. Chicken, *Nonparametric Statistical
//!   Methods*, 3rd ed., Wiley 2014: sections 3.4 to 3.6 and 4.1 to 4.3.
//! - J. L. Hodges, E. L. Lehmann, "Estimates of location based on rank tests",
//!   *Annals of Mathematical Statistics* 34 (1963).
//! - H. B. Mann, D. R. Whitney, "On a test of whether one of two random
//!   variables is stochastically larger than the other", *Annals of
//!   Mathematical Statistics* 18 (1947).
//! - S. Holm, "A simple sequentially rejective multiple test procedure",
//!   *Scandinavian Journal of Statistics* 6 (1979).
#![forbid(unsafe_code)]

pub mod schedule;

mod evidence;
mod holm;
mod interval;
mod median;
mod modes;
mod ratio;
mod rng;
mod series;
mod tails;
mod trend;
mod unpaired;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod testing;

pub use self::holm::holm_ratios;
pub use self::interval::Interval;
pub use self::median::{Estimate, MIN_SAMPLES, median, median_interval, summary_interval};
pub use self::modes::{Modes, two_modes};
pub use self::ratio::{Doubt, EQUIVALENCE, Ratio, Verdict, paired_ratios, verdict};
pub use self::rng::Rng;
pub use self::series::{lag1_autocorrelation, relative_drift};
pub use self::trend::half_ratios;
pub use self::unpaired::holm_unpaired;
