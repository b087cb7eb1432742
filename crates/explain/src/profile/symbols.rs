//! The names of the kernel's functions, from `/proc/kallsyms`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The kernel's text symbols and their addresses.
#[derive(Debug, Clone, Default)]
pub struct Symbols {
    /// Sorted by address; one name an address.
    functions: Vec<(u64, Box<str>)>,
}

/// The kernel's symbols can't be read.
#[derive(Debug, thiserror::Error)]
pub enum SymbolsError {
    /// All addresses are zero, as for processes that may not see them
    /// (kernel/kallsyms.c, `kptr_restrict`).
    #[error("the kernel shows all its addresses as zero")]
    Hidden,
    /// The file contains no functions.
    #[error("there are no kernel symbols in /proc/kallsyms")]
    Empty,
    /// The file can't be read; kernels without CONFIG_KALLSYMS lack it.
    #[error("can't read /proc/kallsyms: {0}")]
    Unreadable(#[from] io::Error),
}

impl Symbols {
    /// Reads the symbols of the running kernel and its modules.
    ///
    /// # Errors
    /// [`SymbolsError`].
    pub fn read(path: &Path) -> Result<Self, SymbolsError> {
        let mut text = String::new();
        File::open(path)?.read_to_string(&mut text)?;
        Symbols::parse(&text)
    }

    /// Parses lines of an address, a type as in nm(1), a name and possibly a module
    /// in brackets.
    ///
    /// # Errors
    /// [`SymbolsError::Hidden`] or [`SymbolsError::Empty`].
    pub fn parse(text: &str) -> Result<Self, SymbolsError> {
        let mut zeros = false;
        let mut functions: Vec<(u64, &str)> = Vec::new();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let address = words.next().map(|word| u64::from_str_radix(word, 16));
            // Functions: global, local, weak.
            let (Some(Ok(address)), Some("T" | "t" | "W" | "w"), Some(name)) =
                (address, words.next(), words.next())
            else {
                continue;
            };
            match address {
                0 => zeros = true,
                _ => functions.push((address, name)),
            }
        }
        if functions.is_empty() {
            let hidden = zeros.then_some(SymbolsError::Hidden);
            return Err(hidden.unwrap_or(SymbolsError::Empty));
        }
        // The sort is stable: of several names at an address the first is kept.
        functions.retain(|(_, name)| !MARKERS.contains(name));
        functions.sort_by_key(|(address, _)| *address);
        functions.dedup_by_key(|(address, _)| *address);
        let functions = functions.into_iter();
        Ok(Symbols {
            functions: functions
                .map(|(at, name)| (at, plain(name).into()))
                .collect(),
        })
    }

    /// The name of the function that contains an address.
    pub fn name(&self, address: u64) -> Option<&str> {
        let after = self.functions.partition_point(|(at, _)| *at <= address);
        let (_, name) = self.functions.get(after.checked_sub(1)?)?;
        Some(name)
    }
}

/// Symbols that mark a section rather than a function (vmlinux.lds.S).
const MARKERS: &[&str] = &[
    "_text",
    "_stext",
    "__entry_text_start",
    "__entry_text_end",
    "__noinstr_text_start",
    "__sched_text_start",
    "__lock_text_start",
    "__irqentry_text_start",
    "__softirqentry_text_start",
    "__kprobes_text_start",
    "__cpuidle_text_start",
];

/// The name without suffixes of compilers (`.isra.0`, `.constprop.0`, `.part.0`,
/// `.cold`, `.llvm.123`) and without the prefix `__pfx_` of the padding before a
/// function (since Linux 6.2).
fn plain(name: &str) -> &str {
    let name = name.strip_prefix("__pfx_").unwrap_or(name);
    match name.split_once('.') {
        Some((plain, _)) if !plain.is_empty() => plain,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
ffffffff81000000 T _stext
ffffffff81000000 T startup
ffffffff81000400 t pipe_write.isra.0
ffffffff81000200 T pipe_read
ffffffff81000300 D jiffies
ffffffff810005f0 t __pfx_vfs_read
ffffffffc0001000 t do_it\t[a_module]
";

    #[test]
    fn an_address_belongs_to_the_last_function_before_it() {
        let symbols = Symbols::parse(TEXT).unwrap();
        assert_eq!(symbols.name(0xffff_ffff_8100_0000), Some("startup"));
        assert_eq!(symbols.name(0xffff_ffff_8100_03ff), Some("pipe_read"));
        assert_eq!(symbols.name(0xffff_ffff_8100_0400), Some("pipe_write"));
        assert_eq!(symbols.name(0xffff_ffff_8100_05f1), Some("vfs_read"));
        assert_eq!(symbols.name(0xffff_ffff_c000_1010), Some("do_it"));
        assert_eq!(symbols.name(0x1000), None);
    }

    #[test]
    fn zero_addresses_are_hidden_symbols() {
        let hidden = TEXT
            .lines()
            .map(|line| format!("0000000000000000{}\n", &line[16..]))
            .collect::<String>();
        assert!(matches!(Symbols::parse(&hidden), Err(SymbolsError::Hidden)));
        assert!(matches!(Symbols::parse(""), Err(SymbolsError::Empty)));
        assert!(matches!(
            Symbols::parse("nonsense\nzz T x\n12\n"),
            Err(SymbolsError::Empty)
        ));
    }
}
