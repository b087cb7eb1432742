//! Explanations of throughput: profiles, elementary costs, pages of memory, and checks of
//! this system's pipes.
#![deny(unsafe_code)]

pub mod check;
pub mod costs;
pub mod pages;
pub mod profile;
