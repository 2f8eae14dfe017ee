//! A running program that a test stops, kills or waits for.

use super::{terminate, text};
use std::process::{Child, Command, ExitStatus, Output};
use std::time::{Duration, Instant};

/// How long the processes may take for a sample.
pub const LONG: Duration = Duration::from_secs(120);

/// A process that does not outlive its test.
pub struct Process(Option<Child>);

impl Process {
    pub fn start(mut command: Command) -> Self {
        Process(Some(command.spawn().expect("the program starts")))
    }

    fn child(&mut self) -> &mut Child {
        self.0.as_mut().expect("runs")
    }

    pub fn status(&mut self) -> Option<ExitStatus> {
        self.child().try_wait().expect("a status")
    }

    /// Fails with what it said if it has ended.
    pub fn check_alive(&mut self) {
        if let Some(status) = self.status() {
            let output = self.0.take().expect("it").wait_with_output().expect("output");
            panic!("ended with {status}: {}", text(&output.stderr));
        }
    }

    /// Sends a signal, by its name.
    pub fn signal(&mut self, name: &str) {
        let id = self.child().id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().expect("kill").success());
    }

    pub fn kill(mut self) {
        self.child().kill().expect("killed");
        self.child().wait().expect("ended");
        self.0 = None;
    }

    /// Ends it in good order.
    pub fn stop(mut self) {
        terminate(self.child());
        let output = self.end();
        assert!(output.status.success(), "{}: {}", output.status, text(&output.stderr));
    }

    /// Waits until it ends by itself.
    pub fn end(mut self) -> Output {
        let until = Instant::now() + LONG;
        while self.status().is_none() {
            assert!(Instant::now() < until, "the process goes on");
            std::thread::sleep(Duration::from_millis(20));
        }
        self.0.take().expect("it").wait_with_output().expect("output")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
