//! Passes each TCP connection on to another address, on tokio: for thousands of connections.
//!
//! `cargo run --release --features tokio --example async_proxy 127.0.0.1:8080 127.0.0.1:80`

use std::io::{self, Write};
use std::time::Duration;

use fastpipe::tokio::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

#[tokio::main]
async fn main() -> io::Result<()> {
    let mut args = std::env::args().skip(1);
    let (Some(here), Some(there)) = (args.next(), args.next()) else {
        return Err(io::Error::other("usage: async_proxy HERE THERE"));
    };
    let listener = TcpListener::bind(here).await?;
    // With port 0 the system chooses one.
    eprintln!("listening on {}", listener.local_addr()?);
    loop {
        let client = match listener.accept().await {
            Ok((client, _)) => client,
            Err(error) => {
                // As at the limit of descriptors: four for each connection.
                let _ = writeln!(io::stderr(), "{error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let there = there.clone();
        tokio::spawn(async move {
            if let Err(error) = pass(client, &there).await {
                let _ = writeln!(io::stderr(), "{error}");
            }
        });
    }
}

async fn pass(client: TcpStream, there: &str) -> io::Result<()> {
    let server = TcpStream::connect(there).await?;
    copy_bidirectional(&client, &server).await?;
    Ok(())
}
