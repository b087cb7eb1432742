//! Who is to blame, where one end goes and the other only notices.

use rustix::process::{Pid, Signal, kill_process};

use super::*;

type Reports = Report<(), ()>;

/// A process that is there, and its side of the conversation.
fn end(role: Role) -> (End, Control) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    // Waits for ever: nobody writes to it as long as it lives.
    let child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let end = End {
        role,
        child,
        control: Control::new(ours),
        has_reported: false,
        is_reaped: false,
    };
    (end, Control::new(theirs))
}

/// The error of a trial whose writer found the reader gone, after the reader
/// reported this and was killed by `signal`.
fn error_after(last_words: &[Reports], signal: Signal) -> TrialError {
    let (writer, mut from_writer) = end(Role::Writer);
    let (mut reader, mut from_reader) = end(Role::Reader);
    for report in last_words {
        from_reader.send(report).unwrap();
    }
    kill_process(Pid::from_child(&reader.child), signal).unwrap();
    reader.child.wait().unwrap();
    drop(from_reader);
    let gone = Reports::PeerGone("the other end is gone".to_owned());
    from_writer.send(&gone).unwrap();
    let interrupt = Interrupt::never().unwrap();
    let mut session: Session<'_, (), ()> =
        Session::new(Path::new("unused"), &interrupt, Duration::from_secs(20)).unwrap();
    session.ends.extend([writer, reader]);
    session.wait_ready().unwrap_err()
}

fn told(last_words: &[Reports]) -> String {
    match error_after(last_words, Signal::PIPE) {
        TrialError::Failed(error) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_end_that_was_killed_is_to_blame_whatever_it_said_before() {
    let killed = "the reader was killed by SIGPIPE";
    assert!(told(&[]).starts_with(killed));
    assert!(told(&[Reports::Ready(())]).starts_with(killed));
}

#[test]
fn an_end_that_says_what_went_wrong_is_to_blame() {
    let wrong = Reports::Failed("out of memory".to_owned());
    let words = [Reports::Ready(()), wrong];
    assert_eq!(told(&words), "the reader: out of memory");
}

#[test]
fn where_both_found_the_other_gone_the_first_complaint_stands() {
    let left = Reports::PeerGone("the data ended early".to_owned());
    assert_eq!(told(&[left]), "the writer: the other end is gone");
}

#[test]
fn an_end_killed_by_an_interrupting_signal_interrupts_the_run() {
    let error = error_after(&[], Signal::INT);
    assert!(matches!(error, TrialError::Interrupted(2)), "{error:?}");
}
