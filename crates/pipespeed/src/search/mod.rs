//! A search for the fastest sizes of buffer and pipe.
//!
//! Each technique, way of waiting and placement is a panel, and every panel is
//! searched by itself by successive halving (Z. Karnin, T. Koren, O. Somekh,
//! "Almost optimal exploration in multi-armed bandits", ICML 2013; K. Jamieson,
//! A. Talwalkar, "Non-stochastic best arm identification and hyperparameter
//! optimization", AISTATS 2016): all pairs of sizes get a trial, the better
//! half as many again, and so on, so that the time goes where it matters.
//!
//! Whoever is the best of a hundred was lucky too. So what is found is only a
//! candidate: it is measured afresh, in rounds that the search has not seen,
//! beside the published sizes.

pub mod afresh;
pub mod budget;
pub mod command;
pub mod grid;
pub mod halving;
pub mod judge;
#[cfg(test)]
pub(crate) mod sample;
pub mod walk;

pub use self::budget::Budget;
pub use self::command::command_line;
pub use self::grid::{Axes, Panel, Technique};
