//! `check`. What it leaves in a process is looked at in `check_alone` and `check_leaks`.

#[path = "../common/mod.rs"]
mod common;

mod checks;
mod conditions;
mod pages;
