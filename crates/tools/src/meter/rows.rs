//! Several meters in one terminal, each in a row of its own.
//!
//! The rows are kept in a small file, one a terminal and user, which the meters
//! lock to draw. The cursor rests below the rows: whoever draws goes up by as
//! many rows as were drawn last, draws them all, and is below them again. So the
//! terminal need not be asked where its cursor is, whose answer would come among
//! what somebody types, and it may scroll.
//!
//! Nobody waits for the lock: whoever has it may have been stopped. What a meter
//! that was killed leaves is its row, which goes when the last of the others
//! ends, or when the next meter finds nobody alive.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::process::{geteuid, getpid};
use serde::{Deserialize, Serialize};

use super::screen::Screen;

/// Tries to get the lock for the last drawing, and the time between them.
const LAST_TRIES: u32 = 50;
const BETWEEN: Duration = Duration::from_millis(10);

/// A file that was removed while its lock was being taken is opened again so
/// often.
const OPENINGS: u32 = 5;

/// More rows than any pipeline has: a limit for what is read.
const MAX_BYTES: u64 = 1 << 20;

/// One meter's row.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
struct Row {
    pid: i32,
    /// When the process was started, since its number may be used again.
    start: u64,
    ended: bool,
    text: String,
}

/// All rows of a terminal, in the order of the processes: that of the pipeline,
/// mostly.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq)]
struct Shared {
    /// Rows drawn above the cursor.
    drawn: usize,
    rows: Vec<Row>,
}

/// This meter's row among the others.
#[derive(Debug)]
pub struct Rows {
    path: PathBuf,
    pid: i32,
    start: u64,
}

impl Rows {
    /// For the terminal at standard error.
    ///
    /// # Errors
    /// Those of fstat(2), or if /proc does not show this process.
    pub fn new() -> io::Result<Self> {
        let terminal = rustix::fs::fstat(io::stderr())?.st_rdev;
        let directory = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let directory = directory.filter(|path| path.is_dir());
        let directory = directory.unwrap_or_else(std::env::temp_dir);
        let user = geteuid().as_raw();
        let pid = getpid().as_raw_pid();
        Ok(Rows {
            path: directory.join(format!("pipespeed-meter-{user}-{terminal:x}")),
            pid,
            start: started(pid).ok_or(io::ErrorKind::NotFound)?,
        })
    }

    /// Draws this meter's row and all others. False if somebody else is drawing
    /// just now, or the terminal takes nothing.
    ///
    /// # Errors
    /// Those of the file: then there is nothing to share.
    pub fn draw(&self, screen: &mut Screen, text: &str, height: usize) -> io::Result<bool> {
        self.update(screen, text, height, false)
    }

    /// Draws this meter's row for the last time, waiting a moment for the lock.
    ///
    /// # Errors
    /// Those of the file.
    pub fn draw_last(&self, screen: &mut Screen, text: &str, height: usize) -> io::Result<bool> {
        for _ in 0..LAST_TRIES {
            if self.update(screen, text, height, true)? {
                return Ok(true);
            }
            std::thread::sleep(BETWEEN);
        }
        Ok(false)
    }

    fn update(
        &self,
        screen: &mut Screen,
        text: &str,
        height: usize,
        ended: bool,
    ) -> io::Result<bool> {
        let Some(mut file) = self.lock()? else {
            return Ok(false);
        };
        let mut shared = Shared::read(&mut file);
        shared.forget_if_all(Row::is_over);
        shared.set(Row {
            pid: self.pid,
            start: self.start,
            ended,
            text: text.to_owned(),
        });
        if !screen.write(&shared.drawing(height)) {
            return Ok(false);
        }
        shared.drawn = shared.rows.len();
        if ended && shared.rows.iter().all(Row::is_over) {
            std::fs::remove_file(&self.path)?;
        } else {
            shared.write(&mut file)?;
        }
        Ok(true)
    }

    /// Writes lines that stay: the rows go on below them.
    pub fn say(&self, screen: &mut Screen, text: &str) {
        let file = self.lock().ok().flatten();
        screen.write_last(text);
        if let Some(mut file) = file {
            let mut shared = Shared::read(&mut file);
            shared.drawn = 0;
            // At worst the rows are drawn over what was said.
            let _ = shared.write(&mut file);
        }
    }

    /// The file, locked; none if somebody else has the lock.
    fn lock(&self) -> io::Result<Option<File>> {
        for _ in 0..OPENINGS {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                // The directory may be everybody's.
                .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32)
                .open(&self.path)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            }
            let about = file.metadata()?;
            if about.uid() != geteuid().as_raw() || !about.is_file() {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            // Else its last user has removed it meanwhile.
            if about.nlink() > 0 {
                return Ok(Some(file));
            }
        }
        Ok(None)
    }
}

impl Row {
    /// Whether it will not change any more.
    fn is_over(&self) -> bool {
        self.ended || started(self.pid) != Some(self.start)
    }
}

impl Shared {
    fn read(file: &mut File) -> Self {
        let mut content = String::new();
        // What can't be understood is what a killed meter left half written.
        let _ = file.take(MAX_BYTES).read_to_string(&mut content);
        serde_json::from_str(&content).unwrap_or_default()
    }

    fn write(&self, file: &mut File) -> io::Result<()> {
        let content = serde_json::to_vec(self)?;
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(&content)
    }

    fn forget_if_all(&mut self, gone: impl Fn(&Row) -> bool) {
        if self.rows.iter().all(gone) {
            *self = Shared::default();
        }
    }

    fn set(&mut self, row: Row) {
        let found = self.rows.binary_search_by_key(&row.pid, |row| row.pid);
        match found {
            Ok(place) => self.rows[place] = row,
            Err(place) => self.rows.insert(place, row),
        }
    }

    fn drawing(&self, height: usize) -> String {
        let texts: Vec<&str> = self.rows.iter().map(|row| &*row.text).collect();
        drawing(self.drawn, &texts, height)
    }
}

/// What draws `rows` where `drawn` rows are above the cursor, and leaves it below
/// them. Where the terminal is too low for all, the first are left out.
pub fn drawing(drawn: usize, rows: &[&str], height: usize) -> String {
    let room = height.saturating_sub(1).max(1);
    let up = drawn.min(room);
    let mut text = match up {
        0 => String::new(),
        up => format!("\x1b[{up}A"),
    };
    for row in &rows[rows.len().saturating_sub(room)..] {
        text.push('\r');
        text.push_str(row);
        text.push_str("\x1b[K\n");
    }
    // What was drawn before and is not any more.
    if drawn > rows.len() {
        text.push_str("\x1b[J");
    }
    text
}

/// When a process was started, in ticks since boot; none if there is none.
fn started(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain anything, blanks and parentheses too. After it comes
    // the third field; the start is the 22nd (proc_pid_stat(5)).
    let fields = stat.rsplit_once(')')?.1;
    fields.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pid: i32, text: &str, ended: bool) -> Row {
        Row {
            pid,
            start: 7,
            ended,
            text: text.to_owned(),
        }
    }

    #[test]
    fn rows_stand_in_the_order_of_the_processes_and_each_once() {
        let mut shared = Shared::default();
        for (pid, text) in [(30, "c"), (10, "a"), (20, "b"), (10, "A")] {
            shared.set(row(pid, text, false));
        }
        assert_eq!(shared.drawing(24), "\rA\x1b[K\n\rb\x1b[K\n\rc\x1b[K\n");
        shared.drawn = 3;
        assert!(shared.drawing(24).starts_with("\x1b[3A\rA"));
    }

    #[test]
    fn in_a_low_terminal_the_last_rows_are_drawn() {
        assert_eq!(drawing(0, &["a", "b", "c"], 3), "\rb\x1b[K\n\rc\x1b[K\n");
        assert_eq!(
            drawing(3, &["a", "b", "c"], 3),
            "\x1b[2A\rb\x1b[K\n\rc\x1b[K\n"
        );
        assert_eq!(drawing(1, &["a"], 0), "\x1b[1A\ra\x1b[K\n");
        assert_eq!(drawing(2, &["a"], 24), "\x1b[2A\ra\x1b[K\n\x1b[J");
    }

    #[test]
    fn rows_of_which_nobody_is_left_are_forgotten() {
        let mut shared = Shared {
            drawn: 2,
            rows: vec![row(1, "a", true), row(2, "b", false)],
        };
        shared.forget_if_all(|row| row.ended);
        assert_eq!(shared.rows.len(), 2);
        shared.forget_if_all(|_| true);
        assert_eq!(shared, Shared::default());
    }

    #[test]
    fn this_process_has_been_started() {
        assert!(started(std::process::id() as i32).is_some());
        assert_eq!(started(-1), None);
    }
}
