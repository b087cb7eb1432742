//! Who is to blame, where one end goes and the other only notices.

use rustix::process::{Pid, Signal, kill_process};

use super::*;

/// An end that is there, and our side of what it says.
fn end(role: Role) -> (End, Control) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    // Waits for ever: nobody writes to it as long as it lives.
    let child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let end = End {
        role,
        child,
        control: Control::new(ours),
        reported: false,
        reaped: false,
    };
    (end, Control::new(theirs))
}

/// What is told of a trial whose writer found the reader gone, after the reader
/// said this and was killed.
fn told(last_words: &[Report]) -> String {
    let (mut writer, mut from_writer) = end(Role::Writer);
    let (mut reader, mut from_reader) = end(Role::Reader);
    for report in last_words {
        from_reader.send(report).unwrap();
    }
    kill_process(Pid::from_child(&reader.child), Signal::PIPE).unwrap();
    reader.child.wait().unwrap();
    drop(from_reader);
    let left = Report::Left("the other end is gone".to_owned());
    from_writer.send(&left).unwrap();
    let interrupt = Interrupt::never().unwrap();
    let mut ends = Ends {
        writer: Some(&mut writer),
        reader: Some(&mut reader),
        interrupt: &interrupt,
        deadline: Instant::now() + PATIENCE,
    };
    let (role, report) = ends.next_report().unwrap();
    assert_eq!((role, &report), (Role::Writer, &left));
    match ends.blame(role, report) {
        TrialError::Failed(error) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_end_that_was_killed_is_to_blame_whatever_it_said_before() {
    let killed = "the reader was killed by SIGPIPE";
    assert!(told(&[]).starts_with(killed));
    assert!(told(&[Report::Ready(Setup::default())]).starts_with(killed));
}

#[test]
fn an_end_that_says_what_went_wrong_is_to_blame() {
    let wrong = Report::Failed("out of memory".to_owned());
    let words = [Report::Ready(Setup::default()), wrong];
    assert_eq!(told(&words), "the reader: out of memory");
}

#[test]
fn where_both_found_the_other_gone_the_first_complaint_stands() {
    let left = Report::Left("the data ended early".to_owned());
    assert_eq!(told(&[left]), "the writer: the other end is gone");
}
