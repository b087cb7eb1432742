//! What waits in tokio's runtime without free descriptors.

use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use crate::common::Directory;
use crate::common::process::in_own_process;
use fastpipe::ring;
use fastpipe::tokio::{Producer, Reader};
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::io::AsyncReadExt;
use tokio::runtime::{Builder, Runtime};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Allows no more descriptors.
fn use_up_descriptors() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(3);
    setrlimit(Resource::Nofile, limit).unwrap();
}

#[test]
fn a_fifo_whose_writers_come_and_go_keeps_no_processor_busy() {
    in_own_process(|| {
        runtime().block_on(async {
            let directory = Directory::new();
            let (reader, writer) = directory.fifo("f");
            rustix::io::ioctl_fionbio(&reader, true).unwrap();
            let mut input = Reader::new(reader).unwrap();
            drop(writer);
            // The runtime notices that.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            let _next = open(directory.path("f"), OFlags::WRONLY, Mode::empty()).unwrap();
            // Its removal takes descriptors.
            drop(directory);
            use_up_descriptors();
            let mut polls = 0;
            let mut buffer = [0];
            let mut reading = std::pin::pin!(input.read(&mut buffer));
            let counted = std::future::poll_fn(|context| {
                polls += 1;
                reading.as_mut().poll(context)
            });
            let limit = Duration::from_millis(300);
            assert!(tokio::time::timeout(limit, counted).await.is_err());
            assert!(polls < 20, "{polls} polls");
        });
    });
}

#[test]
fn an_end_for_which_there_is_no_descriptor_is_no_proper_end() {
    in_own_process(|| {
        let offered = || {
            let (here, there) = UnixStream::pair().unwrap();
            let accepting = thread::spawn(move || ring::Consumer::accept(&there).unwrap());
            let producer = ring::Producer::offer(&here, 1).unwrap();
            (producer, accepting.join().unwrap())
        };
        let rings = [offered(), offered()];
        let runtime = runtime();
        use_up_descriptors();
        let [(one, mut of_one), (other, mut of_other)] = rings;
        runtime.block_on(async { Producer::new(one).unwrap_err() });
        other.into_fd().unwrap_err();
        for consumer in [&mut of_one, &mut of_other] {
            let error = consumer.read(&mut [0]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
    });
}
