//! Where the time goes: profiles, elementary costs, pages, and what this system's pipes are like.
#![deny(unsafe_code)]

pub mod check;
pub mod costs;
pub mod pages;
pub mod profile;
