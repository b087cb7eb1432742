//! Sets of processors in the kernel's list format: `0-3,8`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The highest processor number accepted, so that a malformed file can't fill
/// memory. Linux allows 8,192 processors on x86-64 (`NR_CPUS`, arch/x86/Kconfig).
const MAX_CPU: usize = 65_535;

/// A set of processor numbers.
///
/// Printed, saved and parsed in the list format of cpuset(7): `0-3,8`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct CpuList(Vec<usize>);

impl CpuList {
    /// Parses the list format; `None` if it is malformed.
    pub fn parse(text: &str) -> Option<Self> {
        let mut cpus = Vec::new();
        for part in text.trim().split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: usize = first.trim().parse().ok()?;
            let last: usize = last.trim().parse().ok()?;
            if first > last || last > MAX_CPU {
                return None;
            }
            cpus.extend(first..=last);
        }
        Some(cpus.into_iter().collect())
    }

    /// The numbers, ascending.
    pub fn as_slice(&self) -> &[usize] {
        &self.0
    }

    /// The number of processors.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the set contains this processor.
    pub fn contains(&self, cpu: usize) -> bool {
        self.0.binary_search(&cpu).is_ok()
    }
}

impl FromIterator<usize> for CpuList {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        let mut cpus: Vec<usize> = cpus.into_iter().collect();
        cpus.sort_unstable();
        cpus.dedup();
        CpuList(cpus)
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0.chunk_by(|a, b| a + 1 == *b);
        for (i, run) in runs.enumerate() {
            let comma = if i == 0 { "" } else { "," };
            match run {
                [only] => write!(f, "{comma}{only}")?,
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

impl From<CpuList> for String {
    fn from(list: CpuList) -> String {
        list.to_string()
    }
}

impl TryFrom<String> for CpuList {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        CpuList::parse(&text).ok_or_else(|| format!("{text:?} is not a list of processors"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_printed_as_it_was_parsed() {
        for text in ["0-3,8", "0", "", "1,3,5-6", "0-127"] {
            assert_eq!(CpuList::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(CpuList::parse("8,0-3,2").unwrap().to_string(), "0-3,8");
    }

    #[test]
    fn malformed_lists_are_none() {
        for text in ["x", "3-1", "1-", "-1", "0-99999999999", "1 2"] {
            assert_eq!(CpuList::parse(text), None, "{text}");
        }
    }
}
