//! Pipelines whose stages are joined by sockets.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::programs::quiet;
use crate::{PIPESPEED, Pipeline, is_named, pipelines_with_slow_stage};

/// Long enough for Python and socat to connect the stages.
const STARTUP: Duration = Duration::from_millis(500);

/// What joins the stages.
#[derive(Debug, Clone, Copy)]
enum Join {
    /// A pipe to socat(1), a unix socket to another one, and a pipe.
    Socat,
    /// A pair of unix sockets as standard output and input.
    Unix,
    /// A TCP connection as standard output and input.
    Tcp,
}

impl Join {
    fn command(self, commands: &[&str]) -> Command {
        let way = match self {
            Join::Socat => {
                let mut command = Command::new("sh");
                command.arg("-c").arg(socat_script(commands));
                return command;
            }
            Join::Unix => "unix",
            Join::Tcp => "tcp",
        };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/doctor/joined.py");
        let mut command = Command::new("python3");
        command.arg(script).arg(way).args(commands);
        command
    }
}

fn socat_script(commands: &[&str]) -> String {
    let mut script = String::new();
    for (at, command) in commands.iter().enumerate() {
        if at > 0 {
            script += &format!(
                " | socat -u - UNIX-LISTEN:s{at} & \
                 socat -u UNIX-CONNECT:s{at},retry=100,interval=0.1 - | "
            );
        }
        script += command;
    }
    script
}

/// Examines pipelines of three stages with each join.
pub(crate) fn examine_all() -> anyhow::Result<()> {
    for (join, program, option) in [
        (Join::Socat, "socat", "-V"),
        (Join::Unix, "python3", "-V"),
        (Join::Tcp, "python3", "-V"),
    ] {
        let mut probe = Command::new(program);
        if quiet(probe.arg(option)).status().is_err() {
            println!("slow stage named, {join:?}: skipped, no {program}");
            continue;
        }
        let (mut right, mut all) = (0, 0);
        for (name, commands) in pipelines_with_slow_stage(3) {
            let directory = tempfile::tempdir()?;
            let mut command = join.command(&commands);
            quiet(&mut command)
                .current_dir(directory.path())
                .env("P", PIPESPEED);
            let pipeline = Pipeline::spawn(command)?;
            thread::sleep(STARTUP);
            all += 1;
            right += usize::from(is_named(
                &pipeline,
                name,
                &format!("{join:?}: {commands:?}"),
            )?);
        }
        println!("slow stage named, {join:?}: {right} of {all}");
    }
    Ok(())
}
