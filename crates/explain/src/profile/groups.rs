//! The table of costs, which maps kernel functions to costs.
//!
//! It is the file `groups.txt`, which describes its format.

use std::collections::HashMap;
use std::sync::OnceLock;

use serde::Deserialize;
use serde::de::value::{Error, StrDeserializer};

pub use super::group::CostGroup;

/// A line of the table.
#[derive(Debug, Clone)]
struct Rule {
    /// `None` for a helper.
    group: Option<CostGroup>,
    /// The rule applies only below this caller.
    caller: Option<Caller>,
    /// The rule applies only if all inner functions are helpers.
    only_self: bool,
}

#[derive(Debug, Clone)]
enum Caller {
    Any(String),
    Direct(String),
}

impl Caller {
    /// Whether these callers, the next one first, include it.
    fn is_among(&self, callers: &[&str]) -> bool {
        match self {
            Caller::Any(name) => callers.contains(&name.as_str()),
            Caller::Direct(name) => callers.first() == Some(&name.as_str()),
        }
    }
}

/// The table of costs.
#[derive(Debug, Default)]
pub struct CostTable {
    exact: HashMap<String, Vec<Rule>>,
    /// The rules for prefixes, the longest first.
    prefixes: Vec<(String, Vec<Rule>)>,
}

impl CostTable {
    /// The table built into this program.
    pub fn built_in() -> &'static CostTable {
        static TABLE: OnceLock<CostTable> = OnceLock::new();
        TABLE.get_or_init(|| {
            CostTable::parse(include_str!("groups.txt")).expect("a test parses the same text")
        })
    }

    /// Reads a table.
    ///
    /// # Errors
    /// The number and text of the first malformed line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut exact: HashMap<String, Vec<Rule>> = HashMap::new();
        let mut prefixes: HashMap<String, Vec<Rule>> = HashMap::new();
        let mut section: Option<Option<CostGroup>> = None;
        for (at, line) in text.lines().enumerate() {
            let malformed = || format!("line {} of the table of costs: {line:?}", at + 1);
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let (function, caller, only_self) = match *words.as_slice() {
                [] => continue,
                [first, ..] if first.starts_with('#') => continue,
                ["[helpers]"] => {
                    section = Some(None);
                    continue;
                }
                [head] if head.starts_with('[') => {
                    let name = StrDeserializer::<Error>::new(head.trim_matches(['[', ']']));
                    section = Some(Some(CostGroup::deserialize(name).map_err(|_| malformed())?));
                    continue;
                }
                ["self", name] => (name, None, true),
                [name] => (name, None, false),
                [name, "<", caller] => (name, Some(Caller::Any(caller.to_owned())), false),
                [name, "<<", caller] => (name, Some(Caller::Direct(caller.to_owned())), false),
                _ => return Err(malformed()),
            };
            let rule = Rule {
                group: section.ok_or_else(malformed)?,
                caller,
                only_self,
            };
            let (rules, name) = match function.strip_suffix('*') {
                Some(prefix) => (&mut prefixes, prefix),
                None => (&mut exact, function),
            };
            rules.entry(name.to_owned()).or_default().push(rule);
        }
        // Rules with a caller are tried first.
        for rules in exact.values_mut().chain(prefixes.values_mut()) {
            rules.sort_by_key(|rule| rule.caller.is_none());
        }
        let mut prefixes: Vec<_> = prefixes.into_iter().collect();
        prefixes.sort_by(|(a, _), (b, _)| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        Ok(CostTable { exact, prefixes })
    }

    /// The rules for a function: those of its name, then those of the longest
    /// matching prefix.
    fn rules<'a>(&'a self, function: &'a str) -> impl Iterator<Item = &'a Rule> {
        let prefixes = self.prefixes.iter();
        let prefixes = prefixes.filter(move |(prefix, _)| function.starts_with(&**prefix));
        let exact = self.exact.get(function).into_iter().flatten();
        exact.chain(prefixes.flat_map(|(_, rules)| rules))
    }

    /// The cost that a call chain in the kernel belongs to, and the function that
    /// decided. The innermost function comes first; an empty chain is the process's
    /// own code.
    pub fn attribute<'a>(&self, chain: &[&'a str]) -> (CostGroup, &'a str) {
        let Some(innermost) = chain.first() else {
            return (CostGroup::UserCode, "");
        };
        // The innermost function that is neither known nor a helper.
        let mut unknown = None;
        for (at, function) in chain.iter().enumerate() {
            let rule = self.rules(function).find(|rule| {
                let callers = &chain[at + 1..];
                let caller = rule.caller.as_ref();
                caller.is_none_or(|caller| caller.is_among(callers))
                    && (!rule.only_self || unknown.is_none())
            });
            match rule {
                Some(Rule {
                    group: Some(group), ..
                }) => return (*group, function),
                Some(_) => {}
                None => {
                    unknown.get_or_insert(*function);
                }
            }
        }
        (CostGroup::Other, unknown.unwrap_or(innermost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The innermost functions of stacks, by the group that they belong to. A helper belongs to
    /// its caller; rules with a caller apply only below it; waking may have no frame of its own.
    const STACKS: &str = "\
        scheduling: _raw_spin_unlock_irqrestore __wake_up_common_lock __wake_up_sync_key
        copy_to_kernel: rep_movs_alternative _copy_from_iter copy_page_from_iter pipe_write
        copy_to_user: rep_movs_alternative _copy_to_iter copy_page_to_iter pipe_read
        page_zeroing: clear_page_erms get_page_from_freelist __alloc_pages
        page_zeroing: clear_page_erms do_anonymous_page handle_mm_fault exc_page_fault
        page_faults: do_anonymous_page handle_mm_fault exc_page_fault
        memory_cgroup: try_charge_memcg __memcg_kmem_charge_page __alloc_pages
        page_allocation: unheard_of get_page_from_freelist __alloc_pages
        entry_exit: _copy_from_user iovec_from_user __import_iovec
        copy_to_kernel: _copy_from_user pipe_write
        scheduling: _raw_spin_unlock_irqrestore pipe_write vfs_write
        page_allocation: _raw_spin_unlock_irqrestore get_page_from_freelist pipe_write
        other: _raw_spin_lock unheard_of pipe_write do_syscall_64
        pipe_slots: pipe_write vfs_write do_syscall_64
        entry_exit: do_syscall_64 entry_SYSCALL_64_after_hwframe";

    #[test]
    fn the_innermost_function_that_has_a_rule_decides() {
        for line in STACKS.lines() {
            let (group, functions) = line.trim().split_once(": ").unwrap();
            let functions: Vec<&str> = functions.split(' ').collect();
            let (found, _) = CostTable::built_in().attribute(&functions);
            assert_eq!(serde_json::to_value(found).unwrap(), group, "{line}");
        }
        assert_eq!(CostTable::built_in().attribute(&[]).0, CostGroup::UserCode);
        let (_, function) = CostTable::built_in().attribute(&["_raw_spin_lock", "unheard_of"]);
        assert_eq!(function, "unheard_of");
    }

    #[test]
    fn a_malformed_line_is_named() {
        for (text, number, line) in [
            ("[pipe_lock]\na b c d", 2, "a b c d"),
            ("orphan", 1, "orphan"),
            ("# x\n[no_such_group]", 2, "[no_such_group]"),
        ] {
            let expected = format!("line {number} of the table of costs: {line:?}");
            assert_eq!(CostTable::parse(text).unwrap_err(), expected);
        }
    }

    #[test]
    fn every_group_of_the_kernels_functions_has_a_section() {
        let derived = [
            CostGroup::Asleep,
            CostGroup::RunDelay,
            CostGroup::Spinning,
            CostGroup::UserCode,
            CostGroup::Other,
            CostGroup::Running,
        ];
        for (at, group) in CostGroup::all().enumerate() {
            assert_eq!(group as usize, at);
            let name = serde_json::to_value(group).unwrap();
            let section = format!("\n[{}]\n", name.as_str().unwrap());
            let is_there = include_str!("groups.txt").contains(&section);
            assert_eq!(is_there, !derived.contains(&group), "{section}");
        }
    }
}
