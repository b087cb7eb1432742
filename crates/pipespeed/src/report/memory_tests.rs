//! Tests of the tables of memory, and of what they say.
