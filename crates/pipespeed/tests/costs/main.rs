//! `costs` and `pages`.

#[path = "../common/mod.rs"]
mod common;

mod costs;
mod pages;
mod pinning;
