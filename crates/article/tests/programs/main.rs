//! The published programs.

#[path = "../common/mod.rs"]
mod common;

mod endings;
mod get_user_pages;
mod published;
