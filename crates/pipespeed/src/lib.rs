//! Measures, explains and reports how fast data moves between processes.
//!
//! The library behind the `pipespeed` command; ARCHITECTURE.md in the
//! repository says which room holds what.
#![deny(unsafe_code)]

pub mod case;
pub mod channel;
pub mod check;
pub mod cli;
pub mod commands;
pub mod comparison;
pub mod costs;
pub mod endpoint;
pub mod failure;
pub mod fizzbuzz;
pub mod interrupt;
pub mod latency;
pub mod machine;
pub mod measure;
pub mod meter;
pub mod pages;
pub mod profile;
pub mod report;
pub mod results;
pub mod runner;
pub mod schedule;
pub mod search;
pub mod size;
pub mod standard;
pub mod stats;
pub mod suite;
pub mod trial;
