//! The configuration of a case as it took effect.

use serde::{Deserialize, Serialize};

use crate::spec::{
    Access, Act, Case, ChannelKind, PageKind, Reuse, SinkSpec, SinkTechnique, SourceTechnique,
    Subject, Transport, Waiting,
};
use pipespeed_base::Named;

/// The configuration that took effect, as the ends of the case reported it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Configuration {
    /// How the writer hands data to the channel: `write`, `vmsplice`; null
    /// where no writer runs.
    pub writer: Option<Access<SinkTechnique>>,
    /// How the reader takes it: `read`, `splice`; null where no reader runs.
    pub reader: Option<Access<SourceTechnique>>,
    /// What connects the ends: `pipe`, `fifo`, `tcp` and so on; null where
    /// there is only one end.
    pub channel: Option<ChannelKind>,
    /// When vmspliced pages are written again; null where the writer does not
    /// use vmsplice itself.
    pub reuse: Option<Reuse>,
    /// The operation on a block of memory; null without one.
    pub act: Option<Act>,
    /// The size of the messages; null if the case is not about messages.
    pub message_bytes: Option<usize>,
    /// The volume that ends a trial's timed part; null if time ends it.
    pub volume_bytes: Option<u64>,
    /// How the writer's memory differs from the default: `untouched`, `locked`, `gift`,
    /// `same buffer`, `16 bytes off`.
    #[serde(default)]
    pub options: Vec<String>,
    /// How the ends wait for each other: `block`, `poll`, `spin`, `adaptive`;
    /// `none` where there is no channel.
    #[serde(with = "WaitingOrNone")]
    pub wait: Option<Waiting>,
    /// The writer's processor, if the case has one of its own; else see the run's
    /// settings.
    pub writer_cpu: Option<usize>,
    /// The same of the reader.
    pub reader_cpu: Option<usize>,
    /// Bytes handed over in one piece.
    pub buffer_bytes: usize,
    /// The maximum size of one read, in bytes.
    pub reader_buffer_bytes: Option<usize>,
    /// The number of buffers that the writer uses in turn.
    pub buffers: Option<usize>,
    /// Pages asked for: `base`, `huge` (transparent) or `hugetlb`.
    pub pages: PageKind,
    /// Bytes of the writer's buffers shown to be in huge pages.
    pub huge_bytes: Option<u64>,
    /// Where the kernel showed that: `smaps` or `pagemap`.
    pub huge_shown_by: Option<String>,
    /// The alignment of the writer's buffer in bytes (a power of two).
    pub alignment: Option<usize>,
    /// The pipe size asked for.
    pub pipe_bytes_asked: Option<usize>,
    /// The pipe size granted.
    pub pipe_bytes: Option<usize>,
    /// The slots of the pipe.
    pub slots: Option<usize>,
    /// SO_SNDBUF of the writer's socket, as it was at the start.
    pub send_buffer_bytes: Option<usize>,
    /// SO_RCVBUF of the reader's socket, as it was at the start.
    pub receive_buffer_bytes: Option<usize>,
    /// Whether TCP_NODELAY is set.
    pub nodelay: Option<bool>,
    /// The capacity of a message queue, in messages.
    pub queue_messages: Option<usize>,
    /// The capacity of a ring in shared memory.
    pub ring_bytes: Option<usize>,
    /// Mean number of bytes per moving system call of the writer, over all samples; for
    /// a ring in shared memory, per call of the library.
    pub writer_bytes_per_call: Option<f64>,
    /// The same of the reader.
    pub reader_bytes_per_call: Option<f64>,
}

impl Configuration {
    /// How the ends wait, as a word of records.
    pub fn wait_word(&self) -> &'static str {
        self.wait.map_or("none", Waiting::name)
    }
}

impl Case {
    /// The configuration as asked for.
    pub fn configuration(&self) -> Configuration {
        Configuration {
            writer_cpu: self.cpus.map(|(writer, _)| writer),
            reader_cpu: self.cpus.map(|(_, reader)| reader),
            volume_bytes: self.volume_bytes,
            options: self.options(),
            ..self.subject.configuration()
        }
    }
}

impl Subject {
    /// The configuration asked for.
    pub(super) fn configuration(&self) -> Configuration {
        let (writer, reader) = match self {
            Subject::Channel { writer, reader, .. } => (
                Some(Access::Channel(writer.technique)),
                Some(Access::Channel(reader.technique)),
            ),
            Subject::Memory(_) | Subject::Produce(_) => (Some(Access::Memory), None),
            Subject::Consume(_) => (None, Some(Access::Memory)),
        };
        let vmsplices = |writer: &&SinkSpec| writer.technique == SinkTechnique::Vmsplice;
        let reuse = self.writer().filter(vmsplices).map(|writer| writer.reuse);
        Configuration {
            writer,
            reader,
            wait: self.wait(),
            channel: self.channel(),
            reuse,
            act: self.memory().map(|memory| memory.act),
            message_bytes: self.message_bytes(),
            buffer_bytes: self.buffer_bytes(),
            reader_buffer_bytes: self.reader().map(|reader| reader.buffer_bytes),
            pages: self.pages(),
            pipe_bytes_asked: self.pipe_bytes(),
            ..Configuration::default()
        }
    }
}

impl Transport {
    /// The transport with this configuration, if any.
    pub fn of(configuration: &Configuration) -> Option<Transport> {
        let reuse = configuration.reuse.unwrap_or_default();
        Transport::VALUES.iter().copied().find(|transport| {
            let (channel, writer, reader) = transport.parts();
            configuration.channel == Some(channel)
                && configuration.writer == Some(writer.into())
                && configuration.reader == Some(reader.into())
                && reuse == transport.reuse()
        })
    }
}

/// The saved form of a way of waiting: `none` without a channel.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Option<Waiting>", rename_all = "snake_case")]
enum WaitingOrNone {
    None,
    #[serde(untagged)]
    Some(Waiting),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Suite;
    use crate::suite::{Overrides, Selection};
    use pipespeed_base::Named;

    #[test]
    fn the_configuration_of_every_case_survives_saving() {
        let overrides = Overrides {
            selection: Selection {
                all: true,
                ..Selection::default()
            },
            ..Overrides::default()
        };
        let cases = Suite::VALUES
            .iter()
            .flat_map(|suite| suite.cases(&overrides));
        for case in cases {
            let saved = serde_json::to_value(case.configuration()).unwrap();
            let loaded: Configuration = serde_json::from_value(saved).unwrap();
            assert_eq!(loaded, case.configuration(), "{}", case.name);
        }
    }

    #[test]
    fn values_are_saved_as_the_words_that_are_shown() {
        let saved = |case: &str, field: &str| {
            let mut cases = Suite::VALUES.iter().flat_map(|suite| {
                suite.cases(&Overrides {
                    selection: Selection {
                        all: true,
                        ..Selection::default()
                    },
                    ..Overrides::default()
                })
            });
            let case = cases.find(|one| one.name == case).unwrap();
            serde_json::to_value(case.configuration()).unwrap()[field].clone()
        };
        for (case, field, word) in [
            ("mqueue_64", "channel", "message queue"),
            ("seqpacket_64_spin", "channel", "seqpacket"),
            ("seqpacket_64_spin", "wait", "spin"),
            ("mqueue_64", "writer", "mq_send"),
            ("vmsplice_fresh_64", "reuse", "fresh"),
            ("fastpipe_fresh", "writer", "fastpipe, fresh"),
            ("produce_alone", "writer", "memory"),
            ("produce_alone", "wait", "none"),
            ("mem_read_scalar_4k", "act", "read_scalar"),
            ("hugetlb", "pages", "hugetlb"),
        ] {
            assert_eq!(saved(case, field), word, "{field} of {case}");
        }
    }
}
