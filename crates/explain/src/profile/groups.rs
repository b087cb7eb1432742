//! The table of costs, and how a call chain finds its place in it.
//!
//! The table is the text file `groups.txt` beside this one; it explains itself.

use std::collections::HashMap;
use std::sync::OnceLock;

pub use super::group::Group;

/// What the table says of a function.
#[derive(Debug, Clone)]
struct Rule {
    /// None: a helper.
    group: Option<Group>,
    /// Only under this function.
    under: Option<Under>,
    /// Only where nothing but helpers lies within.
    only_self: bool,
}

/// Where a caller has to stand.
#[derive(Debug, Clone)]
enum Under {
    /// Further out.
    Somewhere(String),
    /// Next.
    Directly(String),
}

impl Under {
    /// `callers` from the next one outwards.
    fn holds(&self, callers: &[&str]) -> bool {
        match self {
            Under::Somewhere(name) => callers.contains(&name.as_str()),
            Under::Directly(name) => callers.first() == Some(&name.as_str()),
        }
    }
}

/// The table of costs.
#[derive(Debug, Default)]
pub struct Table {
    exact: HashMap<String, Vec<Rule>>,
    /// The longest first.
    prefixes: Vec<(String, Vec<Rule>)>,
}

/// A line of a table that makes no sense.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the table of groups: {text:?}")]
pub struct BadLine {
    /// Counted from 1.
    pub line: usize,
    /// What stands there.
    pub text: String,
}

impl Table {
    /// The table of this program.
    pub fn built_in() -> &'static Table {
        static TABLE: OnceLock<Table> = OnceLock::new();
        TABLE.get_or_init(|| {
            Table::parse(include_str!("groups.txt")).expect("a test reads the same text")
        })
    }

    /// Reads a table.
    ///
    /// # Errors
    /// The first line that is none.
    pub fn parse(text: &str) -> Result<Self, BadLine> {
        let mut table = Table::default();
        let mut prefixes: HashMap<String, Vec<Rule>> = HashMap::new();
        let mut section: Option<Option<Group>> = None;
        for (at, line) in text.lines().enumerate() {
            let bad = || BadLine {
                line: at + 1,
                text: line.to_owned(),
            };
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let (function, under, only_self) = match words.as_slice() {
                [] => continue,
                [first, ..] if first.starts_with('#') => continue,
                [head] if head.starts_with('[') => {
                    let name = head.trim_matches(['[', ']']);
                    section = Some(match name {
                        "helpers" => None,
                        name => Some(Group::from_section(name).ok_or_else(bad)?),
                    });
                    continue;
                }
                ["self", name] => (*name, None, true),
                [name] => (*name, None, false),
                [name, "<", caller] => {
                    let under = Under::Somewhere((*caller).to_owned());
                    (*name, Some(under), false)
                }
                [name, "<<", caller] => {
                    let under = Under::Directly((*caller).to_owned());
                    (*name, Some(under), false)
                }
                _ => return Err(bad()),
            };
            let rule = Rule {
                group: section.ok_or_else(bad)?,
                under,
                only_self,
            };
            match function.strip_suffix('*') {
                Some(prefix) => prefixes.entry(prefix.to_owned()).or_default().push(rule),
                None => table
                    .exact
                    .entry(function.to_owned())
                    .or_default()
                    .push(rule),
            }
        }
        // Those that ask for a caller go first.
        let particular_first = |rule: &Rule| rule.under.is_none();
        for rules in table.exact.values_mut().chain(prefixes.values_mut()) {
            rules.sort_by_key(particular_first);
        }
        table.prefixes = prefixes.into_iter().collect();
        table.prefixes.sort_by(|(a, _), (b, _)| {
            let longest_first = b.len().cmp(&a.len());
            longest_first.then_with(|| a.cmp(b))
        });
        Ok(table)
    }

    /// Rules for a function, the most particular first: its own name's, then
    /// those of the longest beginning.
    fn rules<'a>(&'a self, function: &'a str) -> impl Iterator<Item = &'a Rule> {
        let exact = self.exact.get(function).into_iter().flatten();
        let begun = move |(prefix, _): &&(String, Vec<Rule>)| function.starts_with(&**prefix);
        let prefixed = self.prefixes.iter().filter(begun);
        exact.chain(prefixed.flat_map(|(_, rules)| rules))
    }

    /// The cost that a call chain in the kernel belongs to, its innermost
    /// function first, and the function that decided. An empty chain is the
    /// process's own code.
    pub fn attribute<'a>(&self, chain: &[&'a str]) -> (Group, &'a str) {
        let Some(innermost) = chain.first() else {
            return (Group::UserCode, "");
        };
        // The first that is no helper: where nothing is known it names what
        // is not.
        let mut stranger = None;
        for (at, function) in chain.iter().enumerate() {
            let rule = self.rules(function).find(|rule| {
                let holds = |under: &Under| under.holds(&chain[at + 1..]);
                rule.under.as_ref().is_none_or(holds) && (!rule.only_self || stranger.is_none())
            });
            match rule {
                Some(Rule {
                    group: Some(group), ..
                }) => return (*group, function),
                Some(_) => {}
                None => {
                    stranger.get_or_insert(*function);
                }
            }
        }
        (Group::Other, stranger.unwrap_or(innermost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(chain: &str) -> Group {
        let chain: Vec<&str> = chain.split(' ').filter(|word| !word.is_empty()).collect();
        Table::built_in().attribute(&chain).0
    }

    #[test]
    fn the_tables_text_is_one() {
        assert!(Table::parse(include_str!("groups.txt")).is_ok());
    }

    #[test]
    fn a_line_that_makes_no_sense_is_named() {
        let bad = |text| Table::parse(text).unwrap_err().line;
        assert_eq!(bad("[pipe_lock]\na b c d"), 2);
        assert_eq!(bad("orphan"), 1);
        assert_eq!(bad("# x\n[no_such_group]"), 2);
    }

    #[test]
    fn a_helper_belongs_to_its_caller() {
        let tail = "__wake_up_common_lock __wake_up_sync_key pipe_write vfs_write do_syscall_64";
        assert_eq!(
            of(&format!("_raw_spin_unlock_irqrestore {tail}")),
            Group::Scheduling
        );
        assert_eq!(
            of("rep_movs_alternative _copy_from_iter copy_page_from_iter pipe_write"),
            Group::CopyToKernel
        );
        assert_eq!(
            of("rep_movs_alternative _copy_to_iter copy_page_to_iter pipe_read"),
            Group::CopyToUser
        );
    }

    #[test]
    fn the_innermost_function_that_is_known_decides() {
        assert_eq!(
            of("clear_page_erms get_page_from_freelist __alloc_pages"),
            Group::PageFaults
        );
        assert_eq!(
            of("try_charge_memcg __memcg_kmem_charge_page __alloc_pages"),
            Group::MemoryCgroup
        );
        assert_eq!(
            of("unheard_of get_page_from_freelist __alloc_pages"),
            Group::PageAllocation
        );
    }

    #[test]
    fn a_rule_with_a_caller_holds_only_under_it() {
        assert_eq!(
            of("_copy_from_user iovec_from_user __import_iovec"),
            Group::EntryExit
        );
        assert_eq!(of("_copy_from_user pipe_write"), Group::CopyToKernel);
    }

    #[test]
    fn a_wake_up_that_left_no_frame_is_one_all_the_same() {
        let unlock = "_raw_spin_unlock_irqrestore";
        assert_eq!(
            of(&format!("{unlock} pipe_write vfs_write")),
            Group::Scheduling
        );
        assert_eq!(
            of(&format!(
                "{unlock} get_page_from_freelist pipe_write vfs_write"
            )),
            Group::PageAllocation
        );
    }

    #[test]
    fn what_nobody_knows_is_other_and_names_itself() {
        let chain = [
            "_raw_spin_lock",
            "unheard_of",
            "pipe_write",
            "do_syscall_64",
        ];
        let (group, function) = Table::built_in().attribute(&chain);
        assert_eq!((group, function), (Group::Other, "unheard_of"));
        assert_eq!(of("pipe_write vfs_write do_syscall_64"), Group::PipeSlots);
        assert_eq!(
            of("do_syscall_64 entry_SYSCALL_64_after_hwframe"),
            Group::EntryExit
        );
        assert_eq!(of(""), Group::UserCode);
    }

    #[test]
    fn every_group_of_the_kernels_has_a_section() {
        for group in Group::ALL {
            let name = serde_json::to_value(group).unwrap();
            let name = name.as_str().unwrap();
            let found = Group::from_section(name);
            let ours = [
                Group::Asleep,
                Group::RunDelay,
                Group::Spinning,
                Group::UserCode,
                Group::Other,
            ];
            assert_eq!(found.is_none(), ours.contains(&group), "{name}");
        }
    }
}
