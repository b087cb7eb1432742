//! A published double-buffering writer that relies on the pipe's size: it reuses one
//! half of its buffer after the other half, a pipeful, was sent.

use std::os::fd::OwnedFd;
use std::thread::JoinHandle;

use fastpipe::buffer::Buffer;
use fastpipe::pipe;
use fastpipe::transfer::Output;
use fastpipe::wait::Wait;

const PIPEFULS: usize = 256;

/// Sends the numbers from 0 on, by vmsplice(2), and closes the pipe. Returns the
/// pipe's capacity in bytes, which is half the buffer.
pub fn send_numbers(writer: OwnedFd) -> (usize, JoinHandle<()>) {
    let half = pipe::capacity(&writer).unwrap();
    let writing = std::thread::spawn(move || {
        let mut buffer = Buffer::builder().len(2 * half).map().unwrap();
        let mut out = Output::new(writer, Wait::Block);
        let mut numbers = 0_u64..;
        for pipeful in 0..PIPEFULS {
            let start = pipeful % 2 * half;
            for (word, number) in buffer[start..start + half].chunks_mut(8).zip(&mut numbers) {
                word.copy_from_slice(&number.to_le_bytes());
            }
            let pages = buffer.slice(start..start + half);
            out.vmsplice(&[pages], Default::default()).unwrap();
        }
    });
    (half, writing)
}

/// Returns how many of the numbers that [`send_numbers`] sent through a pipe of this
/// capacity are wrong.
pub fn wrong_numbers(got: &[u8], capacity: usize) -> usize {
    assert_eq!(got.len(), PIPEFULS * capacity);
    let words = got.chunks(8).zip(0_u64..);
    words
        .filter(|(word, number)| *word != number.to_le_bytes())
        .count()
}
