//! The published programs.

mod common;

mod endings;
mod get_user_pages;
mod published;
mod rules;
