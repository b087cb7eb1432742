//! Enums whose values have names in options and records.

use std::iter::Copied;
use std::slice::Iter;

/// An enum whose values have names. [`named!`](crate::named) implements it.
pub trait Named: Copy + PartialEq + Send + Sync + 'static {
    /// The values that an option accepts, in the order of its help.
    const VALUES: &'static [Self];

    /// The same as an iterator.
    fn values() -> Copied<Iter<'static, Self>> {
        Self::VALUES.iter().copied()
    }

    /// The word used in options and records.
    fn name(self) -> &'static str;

    /// Help text of one line.
    fn about(self) -> &'static str;

    /// Other words that an option accepts.
    fn aliases(self) -> &'static [&'static str] {
        &[]
    }
}

/// Defines an enum whose values have names:
///
/// ```text
/// named! {
///     /// A colour.
///     #[derive(Debug, Clone, Copy, PartialEq)]
///     pub enum Colour {
///         /// of roses
///         Red = "red" | "crimson",
///     }
/// }
/// ```
///
/// The first line of a value's documentation is what help says of it; the words are its name and
/// other words that an option accepts. Implements [`Named`], [`Display`](std::fmt::Display) and
/// [`FromStr`](std::str::FromStr), whose error lists the names.
#[macro_export]
macro_rules! named {
    (
        $(#[$attribute:meta])*
        $visibility:vis enum $type:ident {
            $(
                #[doc = $about:literal]
                $(#[$of_value:meta])*
                $value:ident = $name:literal $(| $alias:literal)*,
            )+
        }
    ) => {
        $(#[$attribute])*
        $visibility enum $type {
            $(
                #[doc = $about]
                $(#[$of_value])*
                $value,
            )+
        }

        impl $crate::Named for $type {
            const VALUES: &'static [Self] = &[$(Self::$value),+];

            fn name(self) -> &'static str {
                match self { $(Self::$value => $name,)+ }
            }

            fn about(self) -> &'static str {
                match self { $(Self::$value => $about.trim_ascii(),)+ }
            }

            fn aliases(self) -> &'static [&'static str] {
                match self { $(Self::$value => &[$($alias),*],)+ }
            }
        }

        impl $type {
            /// The word used in options and records.
            pub fn name(self) -> &'static str {
                $crate::Named::name(self)
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let values = <Self as $crate::Named>::VALUES;
                let found = values.iter().find(|value| {
                    value.name() == text || $crate::Named::aliases(**value).contains(&text)
                });
                found.copied().ok_or_else(|| {
                    let names: Vec<_> = values.iter().map(|value| value.name()).collect();
                    format!("'{text}' is none of {}", names.join(", "))
                })
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::Named;

    crate::named! {
        #[derive(Debug, Clone, Copy, PartialEq)]
        enum Colour {
            /// of roses
            Red = "red" | "crimson",
            /// of the sky
            Blue = "blue",
        }
    }

    #[test]
    fn values_parse_by_name_and_errors_list_the_names() {
        for value in Colour::VALUES {
            assert_eq!(value.to_string().parse(), Ok(*value));
        }
        assert_eq!("crimson".parse(), Ok(Colour::Red));
        let error = "green".parse::<Colour>().unwrap_err();
        assert_eq!(error, "'green' is none of red, blue");
    }
}
