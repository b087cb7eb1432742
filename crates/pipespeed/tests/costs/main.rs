//! `costs` and `pages`. `costs` beside a busy process is looked at in `costs_busy`.

#[path = "../common/mod.rs"]
mod common;

mod costs;
mod pages;
mod pinning;
