//! Addresses as text in records.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

/// An address as text.
pub(super) fn hexadecimal<S: Serializer>(address: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{address:#018x}"))
}

/// The address of such a text.
pub(super) fn from_hexadecimal<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    let digits = text.strip_prefix("0x");
    let address = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    address.ok_or_else(|| D::Error::custom("no hexadecimal address"))
}
