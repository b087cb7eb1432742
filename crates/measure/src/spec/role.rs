//! The processes of a trial.

/// What a process of a trial does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Writes to a channel, which is its standard output.
    Writer,
    /// Reads from a channel, which is its standard input.
    Reader,
    /// Sends messages, receives them back and measures the time.
    Sender,
    /// Sends back what it receives.
    Echo,
}

pipespeed_base::named!(Role {
    Writer = "writer": "writes to a channel",
    Reader = "reader": "reads from a channel",
    Sender = "sender": "sends messages and receives them back",
    Echo = "echo": "sends back what it receives",
});

impl Role {
    /// Index of the role in its pair: 0 for the one that sends first.
    pub fn index(self) -> usize {
        match self {
            Role::Writer | Role::Sender => 0,
            Role::Reader | Role::Echo => 1,
        }
    }

    /// Whether a trial waits for this process's outcome. An echo runs until the sender
    /// has exited.
    pub(crate) fn has_outcome(self) -> bool {
        self != Role::Echo
    }
}
