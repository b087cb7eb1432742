//! Several meters in one terminal, each in its own row.
//!
//! The rows are kept in a small file per terminal and user. A meter locks the file while
//! it draws. Between drawings the cursor is below the rows: a drawing moves it up by
//! the number of rows drawn last, and draws all rows. So the terminal may scroll, and
//! no meter has to query the cursor position, whose answer would mix with the user's
//! input.
//!
//! No meter waits for the lock, since its holder may be stopped. The row of a killed
//! meter remains until all other meters have ended.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::process::{geteuid, getpid};
use serde::{Deserialize, Serialize};

use super::screen::Screen;

/// Attempts to get the lock for the last drawing, and the time between them.
const MAX_TRIES: u32 = 50;
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Attempts to open the file if it was removed before it could be locked.
const MAX_OPENS: u32 = 5;

/// Limit on the bytes read, enough for the rows of any pipeline.
const MAX_BYTES: u64 = 1 << 20;

/// One meter's row.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
struct Row {
    pid: i32,
    /// Start time of the process, since its id may be reused.
    start: u64,
    ended: bool,
    text: String,
}

/// All rows of a terminal, ordered by process id: usually the order of the
/// pipeline.
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
    /// Joins the meters of the terminal at standard error.
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
            start: start_time(pid).ok_or(io::ErrorKind::NotFound)?,
        })
    }

    /// Draws all rows, with `text` as this meter's. Skips the drawing if another meter has
    /// the lock or the terminal accepts no output, but retries the last one.
    ///
    /// # Errors
    /// Those of opening, reading and writing the file.
    pub fn draw(
        &self,
        screen: &mut Screen,
        text: &str,
        height: usize,
        is_last: bool,
    ) -> io::Result<()> {
        for _ in 0..MAX_TRIES {
            if self.update(screen, text, height, is_last)? || !is_last {
                break;
            }
            std::thread::sleep(RETRY_INTERVAL);
        }
        Ok(())
    }

    /// Draws all rows. Returns whether it succeeded.
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
        shared.clear_if_all(Row::has_ended);
        shared.set(Row {
            pid: self.pid,
            start: self.start,
            ended,
            text: text.to_owned(),
        });
        let drawing = drawing(shared.drawn, &shared.rows, height);
        if screen.write(&drawing).is_err() {
            return Ok(false);
        }
        shared.drawn = shared.rows.len();
        if ended && shared.rows.iter().all(Row::has_ended) {
            std::fs::remove_file(&self.path)?;
        } else {
            shared.write(&mut file)?;
        }
        Ok(true)
    }

    /// Prints lines that remain; the rows continue below them.
    ///
    /// # Errors
    /// Those of [`Screen::write`].
    pub fn print_above(&self, screen: &mut Screen, text: &str) -> io::Result<()> {
        let file = self.lock().ok().flatten();
        let written = screen.write_last(text);
        if let Some(mut file) = file {
            let mut shared = Shared::read(&mut file);
            shared.drawn = 0;
            // If that fails, the rows overwrite the lines.
            let _ = shared.write(&mut file);
        }
        written
    }

    /// Opens and locks the file; `None` if another meter has the lock.
    fn lock(&self) -> io::Result<Option<File>> {
        for _ in 0..MAX_OPENS {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                // Other users may be able to write to the directory.
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
            // Without links, another meter removed the file before it was locked here.
            if about.nlink() > 0 {
                return Ok(Some(file));
            }
        }
        Ok(None)
    }
}

impl Row {
    /// Whether the meter of this row has ended.
    fn has_ended(&self) -> bool {
        self.ended || start_time(self.pid) != Some(self.start)
    }
}

impl AsRef<str> for Row {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

impl Shared {
    fn read(file: &mut File) -> Self {
        let mut content = String::new();
        // A killed meter may leave an incomplete file, which is ignored.
        let _ = file.take(MAX_BYTES).read_to_string(&mut content);
        serde_json::from_str(&content).unwrap_or_default()
    }

    fn write(&self, file: &mut File) -> io::Result<()> {
        let content = serde_json::to_vec(self)?;
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(&content)
    }

    fn clear_if_all(&mut self, has_ended: impl Fn(&Row) -> bool) {
        if self.rows.iter().all(has_ended) {
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
}

/// Returns the output that draws `rows` over the `drawn` rows above the cursor, and
/// leaves the cursor below them. Omits the first rows if the terminal is too short.
pub fn drawing(drawn: usize, rows: &[impl AsRef<str>], height: usize) -> String {
    let room = height.saturating_sub(1).max(1);
    let up = drawn.min(room);
    let mut text = String::new();
    if up > 0 {
        text += &format!("\x1b[{up}A");
    }
    for row in &rows[rows.len().saturating_sub(room)..] {
        text.push('\r');
        text.push_str(row.as_ref());
        text.push_str("\x1b[K\n");
    }
    // Clear rows that are no longer drawn.
    if drawn > rows.len() {
        text.push_str("\x1b[J");
    }
    text
}

/// Start time of a process in ticks since boot; `None` if it does not exist.
fn start_time(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, field 2, may contain spaces and parentheses. The start time is field 22
    // (proc_pid_stat(5)).
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
    fn rows_are_ordered_by_process_without_duplicates() {
        let mut shared = Shared::default();
        for (pid, text) in [(30, "c"), (10, "a"), (20, "b"), (10, "A")] {
            shared.set(row(pid, text, false));
        }
        assert_eq!(
            drawing(shared.drawn, &shared.rows, 24),
            "\rA\x1b[K\n\rb\x1b[K\n\rc\x1b[K\n"
        );
        shared.drawn = 3;
        assert!(drawing(shared.drawn, &shared.rows, 24).starts_with("\x1b[3A\rA"));
    }

    #[test]
    fn a_short_terminal_shows_the_last_rows() {
        assert_eq!(drawing(0, &["a", "b", "c"], 3), "\rb\x1b[K\n\rc\x1b[K\n");
        assert_eq!(
            drawing(3, &["a", "b", "c"], 3),
            "\x1b[2A\rb\x1b[K\n\rc\x1b[K\n"
        );
        assert_eq!(drawing(1, &["a"], 0), "\x1b[1A\ra\x1b[K\n");
        assert_eq!(drawing(2, &["a"], 24), "\x1b[2A\ra\x1b[K\n\x1b[J");
    }

    #[test]
    fn rows_are_cleared_when_all_have_ended() {
        let mut shared = Shared {
            drawn: 2,
            rows: vec![row(1, "a", true), row(2, "b", false)],
        };
        shared.clear_if_all(|row| row.ended);
        assert_eq!(shared.rows.len(), 2);
        shared.clear_if_all(|_| true);
        assert_eq!(shared, Shared::default());
    }

    #[test]
    fn only_existing_processes_have_a_start_time() {
        assert!(start_time(std::process::id() as i32).is_some());
        assert_eq!(start_time(-1), None);
    }
}
