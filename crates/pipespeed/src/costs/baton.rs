//! Two threads that take turns.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::clock;
use super::through::Turns;

/// What one of the two holds: the first one, or the second.
pub(super) struct Baton {
    is_first: bool,
    way: Way,
    is_through: bool,
}

enum Way {
    /// Counts the turns of both.
    Spinning(Arc<AtomicU32>),
    /// A byte says that it is the other's turn; the end of the data that the
    /// other is gone.
    Sleeping(PipeReader, PipeWriter),
}

/// A pair of them, for turns of two.
///
/// # Errors
/// Those of pipe(2).
pub(super) fn batons(turns: Turns) -> io::Result<[Baton; 2]> {
    let (first, second) = match turns {
        Turns::Alone | Turns::Spinning => {
            let number = Arc::new(AtomicU32::new(0));
            (Way::Spinning(Arc::clone(&number)), Way::Spinning(number))
        }
        Turns::Sleeping => {
            let (from_first, to_second) = io::pipe()?;
            let (from_second, to_first) = io::pipe()?;
            (
                Way::Sleeping(from_second, to_second),
                Way::Sleeping(from_first, to_first),
            )
        }
    };
    Ok(
        [(true, first), (false, second)].map(|(is_first, way)| Baton {
            is_first,
            way,
            is_through: false,
        }),
    )
}

/// Both may stop waiting.
const DROPPED: u32 = u32::MAX;

impl Baton {
    /// Acts whenever it is this thread's turn. What each turn took.
    ///
    /// # Errors
    /// Those of acting; `Interrupted` when the other has failed.
    pub(super) fn run(
        mut self,
        turns: u32,
        mut act: impl FnMut() -> io::Result<()>,
    ) -> io::Result<Vec<Duration>> {
        let mut taken = Vec::new();
        for turn in 0..turns {
            if turn > 0 || !self.is_first {
                self.wait(turn)?;
            }
            let started = Instant::now();
            act()?;
            taken.push(started.elapsed());
            if turn + 1 < turns || self.is_first {
                self.pass(turn)?;
            }
        }
        self.is_through = true;
        Ok(taken)
    }

    fn number(&self, turn: u32) -> u32 {
        2 * turn + u32::from(!self.is_first)
    }

    fn wait(&mut self, turn: u32) -> io::Result<()> {
        let mine = self.number(turn);
        match &mut self.way {
            Way::Spinning(number) => spin_until(number, mine),
            Way::Sleeping(from, _) => match from.read(&mut [0])? {
                0 => Err(io::ErrorKind::Interrupted.into()),
                _ => Ok(()),
            },
        }
    }

    fn pass(&mut self, turn: u32) -> io::Result<()> {
        let next = self.number(turn) + 1;
        match &mut self.way {
            Way::Spinning(number) => {
                number.store(next, Ordering::Release);
                Ok(())
            }
            Way::Sleeping(_, to) => to.write_all(&[0]),
        }
    }
}

/// The other need not wait for one that has failed, or never ran.
impl Drop for Baton {
    fn drop(&mut self) {
        if let Way::Spinning(number) = &self.way
            && !self.is_through
        {
            number.store(DROPPED, Ordering::Release);
        }
    }
}

fn spin_until(number: &AtomicU32, mine: u32) -> io::Result<()> {
    clock::spin_until(|| match number.load(Ordering::Acquire) {
        DROPPED => Err(io::ErrorKind::Interrupted.into()),
        number => Ok(number == mine),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::thread;

    #[test]
    fn the_two_act_in_turns_and_the_first_begins() {
        for turns in [Turns::Spinning, Turns::Sleeping] {
            let [first, second] = batons(turns).unwrap();
            let order = Mutex::new(String::new());
            thread::scope(|scope| {
                let act = |who| {
                    let order = &order;
                    move || {
                        order.lock().unwrap().push(who);
                        Ok(())
                    }
                };
                let other = scope.spawn(move || second.run(4, act('b')).unwrap());
                first.run(4, act('a')).unwrap();
                other.join().unwrap();
            });
            assert_eq!(order.into_inner().unwrap(), "abababab", "{turns:?}");
        }
    }

    #[test]
    fn who_fails_ends_the_other_s_waiting() {
        for turns in [Turns::Spinning, Turns::Sleeping] {
            let [first, second] = batons(turns).unwrap();
            let failing = || Err(io::ErrorKind::Unsupported.into());
            let (first, second) = thread::scope(|scope| {
                let other = scope.spawn(move || second.run(4, failing));
                (first.run(4, || Ok(())), other.join().unwrap())
            });
            // In a pipe it may have been passed on before the other was gone.
            let kind = first.unwrap_err().kind();
            let gone = [io::ErrorKind::Interrupted, io::ErrorKind::BrokenPipe];
            assert!(gone.contains(&kind), "{kind:?}");
            assert_eq!(second.unwrap_err().kind(), io::ErrorKind::Unsupported);
        }
    }
}
