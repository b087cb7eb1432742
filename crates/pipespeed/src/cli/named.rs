//! Options whose values are those of an enum.

use std::ffi::OsStr;
use std::marker::PhantomData;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, Command, Error};
use pipespeed_base::Named;

/// Parses the values of a [`Named`] enum, and lists them in help.
pub(super) fn named<T: Named>() -> NamedParser<T> {
    NamedParser(PhantomData)
}

#[derive(Clone)]
pub(super) struct NamedParser<T>(PhantomData<T>);

fn possible<T: Named>() -> impl Iterator<Item = PossibleValue> {
    T::VALUES.iter().map(|value| {
        PossibleValue::new(value.name())
            .aliases(value.aliases())
            .help(value.about())
    })
}

impl<T: Named> TypedValueParser for NamedParser<T> {
    type Value = T;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<T, Error> {
        let word = PossibleValuesParser::new(possible::<T>()).parse_ref(command, arg, value)?;
        let is_meant = |value: &&T| value.name() == word || value.aliases().contains(&&*word);
        let found = T::VALUES.iter().find(is_meant);
        match found {
            Some(value) => Ok(*value),
            None => unreachable!("it is one of their names"),
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(possible::<T>()))
    }
}
