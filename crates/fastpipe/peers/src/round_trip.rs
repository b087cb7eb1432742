//! How long a word takes to another thread and back: by two rings, and by two words in a memfd.

use std::hint::spin_loop;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use fastpipe::Wait;
use fastpipe::ring::{self, Consumer, Producer};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::pin;

const TIMES: u64 = 200_000;

/// The mean, of our rings whose ends spin.
pub fn of_rings() -> Result<Duration> {
    let ((mut there, mut taken), (mut back, mut answers)) = (ring::pair(1)?, ring::pair(1)?);
    there.set_wait(Wait::Spin);
    answers.set_wait(Wait::Spin);
    let echoing = thread::spawn(move || -> Result<()> {
        pin(1)?;
        taken.set_wait(Wait::Spin);
        back.set_wait(Wait::Spin);
        while let Some(word) = take(&mut taken)? {
            put(&mut back, word)?;
        }
        Ok(())
    });
    pin(0)?;
    let mean = time(|number| {
        put(&mut there, number)?;
        Ok(take(&mut answers)?)
    })?;
    drop(there);
    match echoing.join() {
        Ok(echoed) => echoed?,
        Err(_) => bail!("the other thread panicked"),
    }
    Ok(mean)
}

fn put(producer: &mut Producer, word: u64) -> Result<()> {
    let mut slot = producer.lend(8)?;
    slot.write_at(0, &word.to_ne_bytes());
    slot.commit(8);
    Ok(())
}

fn take(consumer: &mut Consumer) -> Result<Option<u64>> {
    let mut view = consumer.peek(8)?;
    if view.is_empty() {
        return Ok(None);
    }
    let mut word = [0; 8];
    view.read_at(0, &mut word);
    view.release(8);
    Ok(Some(u64::from_ne_bytes(word)))
}

/// The mean, of two words on cache lines of their own.
pub fn by_hand() -> Result<Duration> {
    const LEN: usize = 4096;
    let memory = memfd_create("words", MemfdFlags::CLOEXEC)?;
    ftruncate(&memory, LEN as u64)?;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping.
    let start = unsafe { mmap(ptr::null_mut(), LEN, access, MapFlags::SHARED, &memory, 0)? };
    // SAFETY: within the mapping, aligned, and it stays until the thread has ended.
    let [there, back]: [&'static AtomicU64; 2] =
        [0, 256].map(|at| unsafe { &*start.cast::<u8>().add(at).cast::<AtomicU64>() });
    let echoing = thread::spawn(move || -> Result<()> {
        pin(1)?;
        for number in 1..=TIMES {
            while there.load(Ordering::Acquire) != number {
                spin_loop();
            }
            back.store(number, Ordering::Release);
        }
        Ok(())
    });
    pin(0)?;
    let mean = time(|number| {
        there.store(number, Ordering::Release);
        while back.load(Ordering::Acquire) != number {
            spin_loop();
        }
        Ok(Some(number))
    })?;
    match echoing.join() {
        Ok(echoed) => echoed?,
        Err(_) => bail!("the other thread panicked"),
    }
    // SAFETY: nobody uses it any more.
    unsafe { munmap(start, LEN)? };
    Ok(mean)
}

/// The mean of round trips, each of which must return its number.
fn time(mut round_trip: impl FnMut(u64) -> Result<Option<u64>>) -> Result<Duration> {
    let started = Instant::now();
    for number in 1..=TIMES {
        if round_trip(number)? != Some(number) {
            bail!("a wrong answer");
        }
    }
    Ok(started.elapsed() / TIMES as u32)
}
