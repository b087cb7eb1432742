//! The names of techniques in records.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Names the values of an enum, whose variants may carry a unit value. It is saved
/// and loaded as that name.
macro_rules! words {
    ($type:ident { $($variant:ident $(($inner:path))? = $name:literal,)+ }) => {
        impl $type {
            /// The word used in messages and records.
            pub fn name(self) -> &'static str {
                match self { $($type::$variant $(($inner))? => $name,)+ }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = String::deserialize(deserializer)?;
                match word.as_str() {
                    $($name => Ok($type::$variant $(($inner))?),)+
                    _ => Err(serde::de::Error::unknown_variant(&word, &[$($name,)+])),
                }
            }
        }
    };
}
pub(super) use words;

/// How an end accesses the data: by a technique of its channel or, without a channel,
/// in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access<T> {
    /// In memory; there is no channel.
    Memory,
    /// Through the channel.
    #[serde(untagged)]
    Channel(T),
}

impl<T> From<T> for Access<T> {
    fn from(technique: T) -> Self {
        Access::Channel(technique)
    }
}

impl<T: fmt::Display> fmt::Display for Access<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Access::Channel(technique) => technique.fmt(f),
            Access::Memory => f.pad("memory"),
        }
    }
}
