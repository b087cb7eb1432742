//! Small files of `/proc` and `/sys`, below a directory that tests can choose.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// No file read here is longer than this in any use; what lies beyond is
/// ignored, so that an odd file can't fill memory.
const LONGEST: u64 = 4 << 20;

/// The directory below which `proc`, `sys` and the like are looked for: `/` on
/// a real machine, a fixture's directory in tests.
///
/// A file that is missing, unreadable or empty is `None` here: a machine that
/// hides something is described with a gap, not refused.
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

    /// Whether there is anything at the path.
    pub(super) fn exists(&self, file: impl AsRef<Path>) -> bool {
        self.path(file).exists()
    }

    /// A file's text without the blanks around it. The NULs that end the
    /// strings of a device tree count as blanks.
    pub(super) fn text(&self, file: impl AsRef<Path>) -> Option<String> {
        let mut bytes = Vec::new();
        let opened = File::open(self.path(file)).ok()?;
        opened.take(LONGEST).read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_matches(|c: char| c == '\0' || c.is_whitespace());
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// A file that holds one number.
    pub fn number<T: FromStr>(&self, file: impl AsRef<Path>) -> Option<T> {
        self.text(file)?.parse().ok()
    }

    /// A file that holds blank-separated words.
    pub(super) fn words(&self, file: impl AsRef<Path>) -> Option<Vec<String>> {
        Some(
            self.text(file)?
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
        )
    }

    /// The word in brackets, by which the kernel shows the choice in force
    /// (`always [madvise] never`); the whole text where there are none.
    pub(super) fn selected(&self, file: impl AsRef<Path>) -> Option<String> {
        let text = self.text(file)?;
        let inner = text
            .split_once('[')
            .and_then(|(_, rest)| rest.split_once(']'));
        Some(inner.map_or(text.as_str(), |(word, _)| word).to_owned())
    }

    /// The names in a directory, sorted; none if it can't be read.
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

    /// Whether this process's capabilities count for what concerns the whole
    /// system (capable() in kernel/capability.c): not in a user namespace. The
    /// first one's number is fixed (PROC_USER_INIT_INO in
    /// include/linux/proc_ns.h); its map of user ids is not, since others may map
    /// all of them, too. Where nothing is shown, they are believed to.
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

/// The values of all lines `key: value` with this key, blanks around the colon
/// ignored; empty values are left out.
pub(super) fn fields<'a>(text: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .filter(move |(name, value)| name.trim() == key && !value.trim().is_empty())
        .map(|(_, value)| value.trim())
}
