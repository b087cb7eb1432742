//! Writers leave no mappings and descriptors behind. The test counts those of the whole
//! process, so it has its own.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;

use crate::common::Directory;
use crate::common::process::{in_own_process, mappings_and_descriptors};
use crate::common::writers::{fresh, settings};
use fastpipe::wait::Wait;
use fastpipe::writer::Frozen;

/// Reads and discards the available bytes.
fn drain(reader: &mut File, chunk: &mut [u8]) {
    while fastpipe::pipe::unread(&*reader).unwrap() > 0 {
        let _ = reader.read(chunk).unwrap();
    }
}

/// Makes `loans` loans, and opens, uses and drops `writers` writers.
fn use_up(loans: usize, writers: usize) {
    let mut chunk = vec![0; 1 << 20];
    let all = settings();
    for setting in &all {
        let (reader, writer) = fastpipe::pipe::create().unwrap();
        let mut reader = File::from(reader);
        let mut out = setting.builder.wait(Wait::Never).open(writer).unwrap();
        for n in 0..loans / all.len() {
            let size = if n % 64 == 0 { 4096 } else { 1 };
            let mut loan = out.lend(size).unwrap();
            loan[0] = b'x';
            loan.commit(size).unwrap();
            if n % 8 == 7 {
                drain(&mut reader, &mut chunk);
            }
        }
    }
    let frozen = Frozen::new(b"some bytes\n").unwrap();
    let (reader, writer) = fastpipe::pipe::create().unwrap();
    let mut reader = File::from(reader);
    for n in 0..writers {
        let setting = all[n % all.len()];
        let builder = setting.builder.wait(Wait::Never);
        let builder = if n % 16 == 0 {
            builder.at_once()
        } else {
            builder
        };
        let mut out = builder.open(&writer).unwrap();
        let mut loan = out.lend(6000).unwrap();
        loan[..6000].fill(b'x');
        loan.commit(6000).unwrap();
        out.write_all(b"and more").unwrap();
        out.flush().unwrap();
        out.repeat(&frozen, 3).unwrap();
        match n % 3 {
            0 => drop(out),
            1 => drop(out.into_inner().unwrap()),
            _ => drop(out.lend(100_000).unwrap()),
        }
        drain(&mut reader, &mut chunk);
    }
}

/// As `use_up`, with a FIFO: a writer that never waits opens it a second time.
fn use_up_fifos(fifo: &(File, OwnedFd), writers: usize) {
    let mut reader = fifo.0.try_clone().unwrap();
    let mut chunk = vec![0; 1 << 16];
    for _ in 0..writers {
        let builder = fresh().wait(Wait::Never);
        let mut out = builder.open(&fifo.1).unwrap();
        out.write_all(&[b'x'; 5000]).unwrap();
        drop(out);
        drain(&mut reader, &mut chunk);
    }
}

#[test]
fn writers_leave_no_mapping_and_no_descriptor_behind() {
    in_own_process(|| {
        let directory = Directory::new();
        let (reader, writer) = directory.fifo("fifo");
        let fifo = (reader, OwnedFd::from(writer));
        // One-time probes, and allocations of the harness.
        use_up(10_000, 200);
        use_up_fifos(&fifo, 10);
        let before = mappings_and_descriptors();
        use_up(1_000_000, 10_000);
        use_up_fifos(&fifo, 1000);
        let after = mappings_and_descriptors();
        assert!(
            after.0 <= before.0 && after.1 <= before.1,
            "{after:?} mappings and descriptors, {before:?} before"
        );
    });
}
