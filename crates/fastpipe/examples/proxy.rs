//! Passes each TCP connection on to another address, without looking at the bytes.
//!
//! `cargo run --release --example proxy 127.0.0.1:8080 127.0.0.1:80`

use std::io::{self, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

fn main() -> io::Result<()> {
    let mut args = std::env::args().skip(1);
    let (Some(here), Some(there)) = (args.next(), args.next()) else {
        return Err(io::Error::other("usage: proxy HERE THERE"));
    };
    let listener = TcpListener::bind(here)?;
    // With port 0 the system chooses one.
    eprintln!("listening on {}", listener.local_addr()?);
    for client in listener.incoming() {
        let client = match client {
            Ok(client) => client,
            Err(error) => {
                // As at the limit of descriptors.
                let _ = writeln!(io::stderr(), "{error}");
                thread::sleep(Duration::from_millis(100));
                continue;
            }
        };
        let there = there.clone();
        thread::spawn(move || {
            if let Err(error) = pass(&client, &there) {
                let _ = writeln!(io::stderr(), "{error}");
            }
        });
    }
    Ok(())
}

fn pass(client: &TcpStream, there: &str) -> io::Result<()> {
    let server = &TcpStream::connect(there)?;
    thread::scope(|scope| {
        let back = scope.spawn(|| copy_one_way(server, client));
        copy_one_way(client, server)?;
        back.join()
            .unwrap_or_else(|_| Err(io::Error::other("panicked")))
    })
}

fn copy_one_way(from: &TcpStream, to: &TcpStream) -> io::Result<()> {
    fastpipe::copy(from, to)?;
    // The peer sees the end, and may still answer.
    to.shutdown(Shutdown::Write)
}
