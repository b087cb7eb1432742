//! A reader that passes pages onward and reads them late.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

use super::pipe_of;
use super::writers::{KIB, MIB, check, expect_all};

/// Number of bytes to read on: more than any setting's region and a pipeful.
const ON: usize = 7 * MIB;

/// Moves up to `most` bytes without waiting for room; 0 at the end.
pub fn splice(from: impl AsFd, to: impl AsFd, most: usize) -> usize {
    moving(most, |left| {
        rustix::pipe::splice(&from, None, &to, None, left, SpliceFlags::NONBLOCK)
    })
}

fn moving(most: usize, mut step: impl FnMut(usize) -> Result<usize, Errno>) -> usize {
    let mut moved = 0;
    while moved < most {
        match step(most - moved) {
            Ok(0) => break,
            Ok(n) => moved += n,
            Err(Errno::INTR) => {}
            // No data yet, or no room left.
            Err(Errno::AGAIN) if moved > 0 => break,
            Err(Errno::AGAIN) => {
                rustix::thread::sched_yield();
            }
            Err(error) => panic!("{error}"),
        }
    }
    moved
}

/// Duplicates at most `most` bytes of the pipe by reference, once there are any.
fn tee(from: impl AsFd, to: impl AsFd, most: usize) -> usize {
    loop {
        match rustix::pipe::tee(&from, &to, most, SpliceFlags::empty()) {
            Ok(n) => return n,
            Err(Errno::INTR) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub enum Onward {
    /// Splice to another pipe.
    Spliced,
    /// Keep two copies: one by tee, the other by splice.
    Teed,
    /// Splice to another pipe through a third one.
    Twice,
}

pub const ONWARDS: [Onward; 3] = [Onward::Spliced, Onward::Teed, Onward::Twice];

/// Repeatedly holds some bytes, reads more than a region, and then checks the held bytes.
/// Returns the number of bytes read, and how many of the held pieces were wrong.
pub fn hold_and_read_on(reader: OwnedFd, onward: Onward) -> (u64, usize) {
    let (first_out, first_in) = pipe_of(512 * KIB);
    let (second_out, second_in) = pipe_of(512 * KIB);
    let (mut first_out, mut second_out) = (File::from(first_out), File::from(second_out));
    let mut file = File::from(reader);
    let (mut at, mut wrong) = (0, 0);
    let mut bytes = vec![0; 512 * KIB];
    let mut look = |from: &mut File, at: u64, len: usize| {
        from.read_exact(&mut bytes[..len]).unwrap();
        wrong += usize::from(check(&bytes[..len], at).is_err());
    };
    loop {
        // Varies, so that different parts of a slab are held.
        let most = 200_000 + (at % 77_777) as usize;
        let held = match onward {
            Onward::Spliced => splice(&file, &first_in, most),
            Onward::Twice => {
                let n = splice(&file, &second_in, most);
                let mut on = 0;
                while on < n {
                    on += splice(&second_out, &first_in, n - on);
                }
                n
            }
            Onward::Teed => {
                let n = tee(&file, &first_in, most);
                let mut on = 0;
                while on < n {
                    on += splice(&file, &second_in, n - on);
                }
                n
            }
        };
        if held == 0 {
            return (at, wrong);
        }
        let mut rest = file.by_ref().take(ON as u64);
        let end = expect_all(&mut rest, at + held as u64, &[256 * KIB]);
        look(&mut first_out, at, held);
        if let Onward::Teed = onward {
            look(&mut second_out, at, held);
        }
        at = end;
    }
}
