//! One module for each part of the library.

mod ring;
mod transfer;
mod writer;
