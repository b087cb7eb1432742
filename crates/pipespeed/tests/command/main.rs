//! The command as its users run it. One program for all subjects, since linking
//! one takes longer than most tests.

mod common;

mod bench;
mod boost;
mod channels;
mod check;
mod costs;
mod doctor;
mod documents;
mod errors;
mod latency;
mod load;
mod meter;
mod profile;
mod records;
mod stages;
mod streams;
mod top;
