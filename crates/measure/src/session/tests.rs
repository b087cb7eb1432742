//! Which process is blamed when one exits and the other reports it gone.

use rustix::process::{Pid, Signal, kill_process};

use super::*;

type Reports = ProcessReport<(), ()>;

/// A live process and its end of the control socket.
fn end(role: ProcessRole) -> (EndProcess, Control) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    // Waits forever: nothing is written to it.
    let child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let end = EndProcess {
        role,
        child,
        control: Control::new(ours),
        has_reported: false,
    };
    (end, Control::new(theirs))
}

/// The error of a trial whose writer found the reader gone, after the reader
/// reported this and was killed by `signal`.
fn error_after(reports: &[Reports], signal: Signal) -> TrialError {
    let (writer, mut from_writer) = end(ProcessRole::Writer);
    let (mut reader, mut from_reader) = end(ProcessRole::Reader);
    for report in reports {
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

fn failure_after(reports: &[Reports]) -> String {
    match error_after(reports, Signal::PIPE) {
        TrialError::Failed(error) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_end_that_was_killed_is_blamed_whatever_it_reported() {
    let killed = "the reader was killed by SIGPIPE";
    assert!(failure_after(&[]).starts_with(killed));
    assert!(failure_after(&[Reports::Ready(())]).starts_with(killed));
}

#[test]
fn an_end_that_reports_a_failure_is_blamed() {
    let wrong = Reports::Failed("out of memory".to_owned());
    let words = [Reports::Ready(()), wrong];
    assert_eq!(failure_after(&words), "the reader: out of memory");
}

#[test]
fn if_both_report_peer_gone_first_report_is_the_error() {
    let left = Reports::PeerGone("the data ended early".to_owned());
    assert_eq!(failure_after(&[left]), "the writer: the other end is gone");
}

#[test]
fn an_end_killed_by_an_interrupting_signal_interrupts_the_run() {
    // A shell's background job ignores SIGINT.
    let error = error_after(&[], Signal::TERM);
    assert!(
        matches!(error, TrialError::Interrupted(Interrupted(15))),
        "{error:?}"
    );
}
