//! The configuration of a case as it took effect.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::spec::{Act, Case, Channel, PageKind, PageReuse, PipeReader, Subject, Waiting};

/// The configuration that took effect, as the ends of the case reported it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Configuration {
    /// What runs: saved as `writer` (`write`, `vmsplice`), `reader` (`read`, `splice`),
    /// `channel` (`pipe`, `fifo`, `tcp`) and `reuse`.
    #[serde(flatten)]
    pub ends: Ends,
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

    /// The channel; `None` if there is only one end.
    pub fn channel(&self) -> Option<Channel> {
        match self.ends {
            Ends::Channel(channel) => Some(channel),
            Ends::Writer | Ends::Reader => None,
        }
    }

    /// The words for what runs.
    pub fn words(&self) -> EndWords {
        self.ends.into()
    }

    /// What the reader does with a pipe, if there is one.
    pub fn pipe_reader(&self) -> Option<PipeReader> {
        self.channel().and_then(Channel::pipe_reader)
    }
}

impl Case {
    /// The configuration as asked for.
    pub fn configuration(&self) -> Configuration {
        let subject = &self.subject;
        let ends = match subject {
            Subject::Channel { channel, .. } => Ends::Channel(*channel),
            Subject::Memory(_) | Subject::Produce(_) => Ends::Writer,
            Subject::Consume(_) => Ends::Reader,
        };
        Configuration {
            ends,
            wait: subject.wait(),
            act: subject.memory().map(|memory| memory.act),
            message_bytes: subject.message_bytes(),
            buffer_bytes: subject.buffer_bytes(),
            reader_buffer_bytes: subject.reader().map(|reader| reader.buffer_bytes),
            pages: subject.pages(),
            pipe_bytes_asked: subject.pipe_bytes(),
            writer_cpu: self.cpus.map(|(writer, _)| writer),
            reader_cpu: self.cpus.map(|(_, reader)| reader),
            volume_bytes: self.volume_bytes,
            options: self.options(),
            ..Configuration::default()
        }
    }
}

/// The processes of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "EndWords", into = "EndWords")]
pub enum Ends {
    /// Two, with a channel between them.
    Channel(Channel),
    /// Only the one that writes, to memory.
    #[default]
    Writer,
    /// Only the one that reads, from memory.
    Reader,
}

/// The saved form of [`Ends`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndWords {
    /// What the writer calls, or `memory`; null without a writer.
    pub writer: Option<Cow<'static, str>>,
    /// What the reader calls, or `memory`; null without a reader.
    pub reader: Option<Cow<'static, str>>,
    /// What connects them; null with only one end.
    pub channel: Option<Cow<'static, str>>,
    /// When vmspliced pages are written again; null where the writer does not use vmsplice
    /// itself.
    pub reuse: Option<PageReuse>,
}

impl From<Ends> for EndWords {
    fn from(ends: Ends) -> Self {
        let (words, reuse) = match ends {
            Ends::Channel(channel) => (channel.words().map(Some), channel.own_reuse()),
            Ends::Writer => ([None, Some("memory"), None], None),
            Ends::Reader => ([None, None, Some("memory")], None),
        };
        let [channel, writer, reader] = words.map(|word| word.map(Cow::Borrowed));
        EndWords {
            writer,
            reader,
            channel,
            reuse,
        }
    }
}

impl TryFrom<EndWords> for Ends {
    type Error = String;

    fn try_from(words: EndWords) -> Result<Self, String> {
        let alone = [Ends::Writer, Ends::Reader];
        let mut all = alone.into_iter().chain(Channel::all().map(Ends::Channel));
        all.find(|ends| EndWords::from(*ends) == words)
            .ok_or_else(|| {
                let given =
                    [words.channel, words.writer, words.reader].map(Option::unwrap_or_default);
                format!("unknown value `{}`", given.join(", "))
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
