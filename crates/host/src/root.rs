//! Small files of `/proc` and `/sys`, below a root directory that tests replace.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::cpu_list::CpuList;

/// The directory with one entry per processor.
pub(super) const CPUS: &str = "sys/devices/system/cpu";

/// Files are read up to this size, so that an unusual one can't fill memory.
const MAX_BYTES: u64 = 4 << 20;

/// The directory that contains `proc` and `sys`: `/` on a real machine, a
/// fixture's directory in tests.
///
/// A missing, unreadable or empty file is `None`, never an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root(pub PathBuf);

impl Default for Root {
    fn default() -> Self {
        Root(PathBuf::from("/"))
    }
}

impl Root {
    /// The path of a file, given from the root without a leading slash.
    pub fn path(&self, file: impl AsRef<Path>) -> PathBuf {
        self.0.join(file)
    }

    /// Whether this is the real system, where system calls describe the same
    /// machine as the files do.
    pub(super) fn is_system(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// Whether the file or directory exists.
    pub(super) fn exists(&self, file: impl AsRef<Path>) -> bool {
        self.path(file).exists()
    }

    /// A file's text, trimmed of white space and NULs, which end the strings of a
    /// device tree.
    pub fn text(&self, file: impl AsRef<Path>) -> Option<String> {
        // Most files of /proc fit: the first read takes all. Without, several small ones would.
        let mut bytes = Vec::with_capacity(1024);
        let opened = File::open(self.path(file)).ok()?;
        opened.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_matches(|c: char| c == '\0' || c.is_whitespace());
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// The number in a file.
    pub fn number<T: FromStr>(&self, file: impl AsRef<Path>) -> Option<T> {
        self.text(file)?.parse().ok()
    }

    /// The processors listed in a file.
    pub(super) fn cpus(&self, file: impl AsRef<Path>) -> Option<CpuList> {
        CpuList::parse(&self.text(file)?)
    }

    /// The words in a file, separated by white space; none if it can't be read.
    pub(super) fn words(&self, file: impl AsRef<Path>) -> Vec<String> {
        let text = self.text(file).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect()
    }

    /// The word in brackets, which marks the current setting
    /// (`always [madvise] never`); without brackets, the whole text.
    pub(super) fn selected(&self, file: impl AsRef<Path>) -> Option<String> {
        let text = self.text(file)?;
        let inner = text
            .split_once('[')
            .and_then(|(_, rest)| rest.split_once(']'));
        Some(inner.map_or(text.as_str(), |(word, _)| word).to_owned())
    }

    /// The sorted names in a directory; empty if it can't be read.
    pub(super) fn names(&self, directory: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(directory)) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    /// Whether this process is in the initial user namespace, where capabilities
    /// apply to the whole system (capable() in kernel/capability.c). Its inode
    /// number is fixed (PROC_USER_INIT_INO in include/linux/proc_ns.h); its map of
    /// user ids is not distinctive, since others may map all of them, too. True if
    /// unknown.
    pub fn in_first_user_namespace(&self) -> bool {
        let link = fs::read_link(self.path("proc/self/ns/user"));
        link.map_or(true, |link| link.as_os_str() == "user:[4026531837]")
    }

    /// The value of the first line `key: value` of a file such as
    /// `/proc/self/status`.
    pub fn field(&self, file: impl AsRef<Path>, key: &str) -> Option<String> {
        fields(&self.text(file)?, key).next().map(str::to_owned)
    }
}

/// The non-empty values of all lines `key: value` with this key, trimmed.
pub(super) fn fields<'a>(text: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .filter(move |(name, value)| name.trim() == key && !value.trim().is_empty())
        .map(|(_, value)| value.trim())
}
