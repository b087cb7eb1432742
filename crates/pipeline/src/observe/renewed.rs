//! Connections that a client makes anew for each request, and those that one has at the end.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::graph::{LinkSide, Process};
use crate::proc::LinkId;
use crate::proc::sockets::{SocketPeer, Sockets};
use crate::sample::{Observed, OnLink};

/// Of more ends all are forgotten, and those that are there are remembered anew.
const MAX_ENDS: usize = 4096;

/// The addresses to which the ends of connections were connected: a server has one for all of them.
#[derive(Debug, Default)]
pub(crate) struct FormerConnections(BTreeMap<(LinkId, LinkSide), SocketAddr>);

impl FormerConnections {
    /// Remembers the connections that a process has.
    pub(super) fn remember(&mut self, process: &Process, sockets: &Sockets) {
        for (_, inode) in &process.sockets {
            let Some(socket) = sockets.get(inode) else {
                continue;
            };
            if let (SocketPeer::Local(peer), Some(address)) = (socket.peer, socket.connected_to) {
                if self.0.len() >= MAX_ENDS {
                    self.0.clear();
                }
                let [input, room] = [*inode, peer].map(LinkId::socket);
                self.0.insert((input, LinkSide::Input), address);
                self.0.insert((room, LinkSide::Room), address);
            }
        }
    }

    /// Counts what a process waited for on connections that it has no more as waits on one that it has
    /// to the same address.
    pub(super) fn join(&self, process: &mut Observed) {
        let ends = &process.process.ends;
        let kept = |on: &OnLink| !on.pipe.is_socket() || ends.of_link(on.pipe).next().is_some();
        let (mut now, gone): (Vec<OnLink>, Vec<OnLink>) =
            process.on.iter().partition(|on| kept(on));
        for former in gone {
            let Some(link) = self.successor(process, &former) else {
                now.push(former);
                continue;
            };
            let most = match former.side {
                LinkSide::Input => process.shares.starved,
                LinkSide::Room => process.shares.blocked,
            };
            if process.polled.contains(&(former.pipe, former.side)) {
                process.polled.insert((link, former.side));
            }
            let known = now
                .iter_mut()
                .find(|on| (on.pipe, on.side) == (link, former.side));
            // Its threads may have waited at once, each on a connection of its own.
            match known {
                Some(on) => {
                    on.share = (on.share + former.share).min(most.max(on.share));
                    on.thread_share = (on.thread_share + former.thread_share).min(1.0);
                }
                None => now.push(OnLink {
                    pipe: link,
                    ..former
                }),
            }
        }
        process.on = now;
    }

    /// The connection that a process has to the same address.
    fn successor(&self, process: &Observed, former: &OnLink) -> Option<LinkId> {
        let address = self.0.get(&(former.pipe, former.side))?;
        let is_side = |reads: bool, writes: bool| match former.side {
            LinkSide::Input => reads,
            LinkSide::Room => writes,
        };
        let mut ends = process.process.ends.iter();
        let found = ends.find(|end| {
            is_side(end.reads, end.writes) && self.0.get(&(end.pipe, former.side)) == Some(address)
        });
        found.map(|end| end.pipe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{frozen, on_input, process};
    use crate::proc::LinkFd;
    use crate::proc::sockets::SocketState;

    /// An end of a connection that a process has under this descriptor.
    fn input(fd: i32, inode: u64) -> LinkFd {
        LinkFd {
            fd,
            pipe: LinkId::socket(inode),
            reads: true,
            writes: false,
            path: None,
        }
    }

    #[test]
    fn waits_on_former_connections_count_for_the_one_to_the_same_server() {
        let of_port = |peer: u64, port: u16| SocketState {
            peer: SocketPeer::Local(peer),
            connected_to: Some(([127, 0, 0, 1], port).into()),
            unread: 0,
            has_datagrams: false,
        };
        let sockets: Sockets = [
            (1, of_port(11, 80)),
            (2, of_port(12, 80)),
            (3, of_port(13, 5432)),
        ]
        .into();
        let mut connections = FormerConnections::default();
        // One after the other.
        for inode in [1, 2, 3] {
            let mut client = process(7, "curl", vec![input(5, inode)]);
            client.sockets = vec![(5, inode)];
            connections.remember(&client, &sockets);
        }
        let waits = |has: u64, shares: [(u64, f64); 2]| {
            let mut client = frozen(process(7, "curl", vec![input(5, has)]), on_input(9));
            client.on = shares
                .iter()
                .map(|(inode, share)| OnLink {
                    pipe: LinkId::socket(*inode),
                    side: LinkSide::Input,
                    share: *share,
                    thread_share: *share,
                })
                .collect();
            connections.join(&mut client);
            let on = client.on.iter().map(|on| (on.pipe.inode(), on.share));
            on.collect::<Vec<(u64, f64)>>()
        };
        assert_eq!(waits(2, [(2, 0.25), (1, 0.5)]), [(2, 0.75)]);
        // Threads wait at once.
        assert_eq!(waits(2, [(2, 0.75), (1, 0.75)]), [(2, 1.0)]);
        assert_eq!(waits(2, [(1, 0.5), (3, 0.25)]), [(2, 0.5), (3, 0.25)]);
        // That to another server has gone.
        assert_eq!(waits(2, [(2, 0.5), (3, 0.5)]), [(2, 0.5), (3, 0.5)]);
    }
}
