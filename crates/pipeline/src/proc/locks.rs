//! File locks for which processes wait.

use std::collections::BTreeMap;

use super::Proc;

impl Proc {
    /// The processes that wait for a file lock, and who has locked the file. A lock keeps the number of the
    /// process that took it.
    pub(crate) fn awaited_locks(&self) -> BTreeMap<i32, i32> {
        awaited_locks(&self.text("proc/locks").unwrap_or_default())
    }
}

/// Parses proc_locks(5): a lock is followed by those who wait for it, which have its number and an arrow.
fn awaited_locks(text: &str) -> BTreeMap<i32, i32> {
    let mut waiting = BTreeMap::new();
    let mut holder = None;
    for line in text.lines() {
        let fields = || line.split_ascii_whitespace().skip(1);
        let is_waiting = fields().next() == Some("->");
        // The kind, whether it is mandatory, and for what it is.
        let pid = fields().nth(3 + usize::from(is_waiting));
        // Of a process in another namespace, and of a lock of an open file, it is not known.
        let pid = pid
            .and_then(|pid| pid.parse::<i32>().ok())
            .filter(|pid| *pid > 0);
        if is_waiting {
            waiting.extend(pid.zip(holder));
        } else {
            holder = pid;
        }
    }
    waiting
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_a_lock_is_told_with_its_holder() {
        let text = "\
1: FLOCK  ADVISORY  WRITE 101 fe:00:10191495 0 EOF
1: -> FLOCK  ADVISORY  WRITE 102 fe:00:10191495 0 EOF
1:  -> FLOCK  ADVISORY  WRITE 103 fe:00:10191495 0 EOF
2: POSIX  ADVISORY  READ  104 fe:00:10051587 0 EOF
3: OFDLCK ADVISORY  WRITE -1 fe:00:10051588 0 EOF
3: -> POSIX  ADVISORY  WRITE 105 fe:00:10051588 0 EOF
4: POSIX  ADVISORY  WRITE 106 fe:00:10051589 0 10
4: -> POSIX  ADVISORY  READ 107 fe:00:10051589 5 EOF
";
        let expected = BTreeMap::from([(102, 101), (103, 101), (107, 106)]);
        assert_eq!(awaited_locks(text), expected);
    }
}
