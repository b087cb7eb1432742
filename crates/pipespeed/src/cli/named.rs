//! Options whose values are those of an enum.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, Command, Error};
use pipespeed_base::Named;

/// Parses the values of a [`Named`] enum, and lists them in help.
pub(super) fn named<T: Named>() -> NamedParser<T> {
    named_among(T::VALUES.to_vec())
}

/// Parses these values of a [`Named`] enum only.
pub(super) fn named_among<T: Named>(values: Vec<T>) -> NamedParser<T> {
    NamedParser(values)
}

#[derive(Clone)]
pub(super) struct NamedParser<T>(Vec<T>);

impl<T: Named> NamedParser<T> {
    fn possible(&self) -> impl Iterator<Item = PossibleValue> {
        self.0.iter().map(|value| {
            PossibleValue::new(value.name())
                .aliases(value.aliases())
                .help(value.about())
        })
    }
}

impl<T: Named> TypedValueParser for NamedParser<T> {
    type Value = T;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<T, Error> {
        let word = PossibleValuesParser::new(self.possible()).parse_ref(command, arg, value)?;
        let matches = |value: &&T| value.name() == word || value.aliases().contains(&&*word);
        let found = self.0.iter().find(matches);
        match found {
            Some(value) => Ok(*value),
            None => unreachable!("the word is one of the possible values"),
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.possible()))
    }
}
