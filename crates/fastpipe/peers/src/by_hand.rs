//! Slots in a memfd, as a program would write them by hand: two counters, and a futex for each.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use anyhow::Result;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::thread::futex;

use crate::channel::{Consumer, Producer, Shape, sum};

/// A counter on a cache line of its own, and whether the other side sleeps until it grows.
#[repr(C, align(128))]
struct Counter {
    count: AtomicU64,
    /// Grows with the count while somebody sleeps.
    word: AtomicU32,
    sleeps: AtomicU32,
}

impl Counter {
    fn set(&self, count: u64, spins: bool) {
        self.count.store(count, Ordering::Release);
        if spins {
            return;
        }
        fence(Ordering::SeqCst);
        if self.sleeps.load(Ordering::Relaxed) != 0 {
            self.sleeps.store(0, Ordering::Relaxed);
            self.word.fetch_add(1, Ordering::Release);
            let _ = futex::wake(&self.word, futex::Flags::empty(), 1);
        }
    }

    /// Waits until the count satisfies this.
    fn wait_until(&self, spins: bool, is_enough: impl Fn(u64) -> bool) {
        loop {
            for _ in 0..if spins { u32::MAX } else { 64 } {
                if is_enough(self.count.load(Ordering::Acquire)) {
                    return;
                }
                std::hint::spin_loop();
            }
            let word = self.word.load(Ordering::Acquire);
            self.sleeps.store(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if !is_enough(self.count.load(Ordering::Acquire)) {
                let _ = futex::wait(&self.word, futex::Flags::empty(), word, None);
            }
        }
    }
}

#[repr(C)]
struct Header {
    sent: Counter,
    taken: Counter,
}

/// Set in `sent` after the last message.
const END: u64 = 1 << 63;
const DATA: usize = 4096;

struct Slots {
    header: &'static Header,
    data: *mut u8,
    shape: Shape,
    spins: bool,
    at: u64,
}

impl Slots {
    fn map(memory: impl AsFd, shape: Shape, spins: bool) -> Result<Self> {
        let len = DATA + shape.size * shape.messages;
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: a new mapping, which stays for the life of the process.
        let start = unsafe { mmap(ptr::null_mut(), len, access, flags, memory, 0)? };
        Ok(Slots {
            // SAFETY: the mapping is large enough, aligned to pages, and zero is a valid header.
            header: unsafe { &*start.cast::<Header>() },
            // SAFETY: within the mapping.
            data: unsafe { start.cast::<u8>().add(DATA) },
            shape,
            spins,
            at: 0,
        })
    }

    fn slot(&self) -> *mut u8 {
        let nth = (self.at % self.shape.messages as u64) as usize;
        // SAFETY: within the mapping.
        unsafe { self.data.add(nth * self.shape.size) }
    }
}

pub struct Sender(Slots);

pub fn producer(shape: Shape, spins: bool) -> Result<(Sender, OwnedFd)> {
    let memory = memfd_create("slots", MemfdFlags::CLOEXEC)?;
    ftruncate(&memory, (DATA + shape.size * shape.messages) as u64)?;
    Ok((Sender(Slots::map(&memory, shape, spins)?), memory))
}

impl Producer for Sender {
    fn send(&mut self, value: u8) -> Result<()> {
        let slots = &mut self.0;
        let room = slots.shape.messages as u64;
        let at = slots.at;
        slots.header.taken.wait_until(slots.spins, |taken| at - taken < room);
        // SAFETY: the consumer has taken what the slot contained.
        unsafe { slots.slot().write_bytes(value, slots.shape.size) };
        slots.at += 1;
        slots.header.sent.set(slots.at, slots.spins);
        Ok(())
    }

    fn end(self: Box<Self>) -> Result<()> {
        let slots = &self.0;
        slots.header.sent.set(slots.at | END, slots.spins);
        Ok(())
    }
}

pub struct Receiver(Slots);

pub fn consumer(shape: Shape, spins: bool) -> Result<Receiver> {
    Ok(Receiver(Slots::map(io::stdin(), shape, spins)?))
}

impl Consumer for Receiver {
    fn receive(&mut self) -> Result<Option<u64>> {
        let slots = &mut self.0;
        let at = slots.at;
        let is_there = |sent: u64| sent & !END > at || sent & END != 0;
        slots.header.sent.wait_until(slots.spins, is_there);
        if slots.header.sent.count.load(Ordering::Acquire) & !END <= at {
            return Ok(None);
        }
        // SAFETY: the producer writes to the slot again once it was taken.
        let sum = sum(unsafe { std::slice::from_raw_parts(slots.slot(), slots.shape.size) });
        slots.at += 1;
        slots.header.taken.set(slots.at, slots.spins);
        Ok(Some(sum))
    }
}
