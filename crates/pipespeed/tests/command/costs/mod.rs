//! `costs` and `pages`.

mod elementary;
mod pages;
mod pinning;
