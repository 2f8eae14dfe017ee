//! lexbor in a process of its own, on pages that it received before.

use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;

/// The process; it ends when its input does.
pub(crate) struct Lexbor {
    process: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Lexbor {
    /// Sends the pages to a new process and returns it with their texts; `None` if lexbor is not installed.
    pub(crate) fn start<'p>(pages: impl Iterator<Item = &'p [u8]>) -> Option<(Self, Vec<String>)> {
        let is_there = Command::new("python3").args(["-c", "import selectolax.lexbor"]).stderr(Stdio::null()).status();
        is_there.ok().filter(|status| status.success())?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("bench-data/benches/lexbor/lexbor.py");
        let mut command = Command::new("python3");
        let mut process = command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3");
        let orders = process.stdin.take().expect("a pipe");
        let mut answers = BufReader::new(process.stdout.take().expect("a pipe"));
        // An empty page would mean the end.
        let pages: Vec<&[u8]> = pages.filter(|page| !page.is_empty()).collect();
        let (orders, texts) = thread::scope(|scope| {
            let sent = scope.spawn(|| send(orders, &pages));
            let texts = pages.iter().map(|_| receive(&mut answers)).collect();
            (sent.join().expect("pages sent"), texts)
        });
        Some((Lexbor { process, orders: Some(orders), answers }, texts))
    }

    /// Makes it parse all pages once.
    pub(crate) fn parse(&mut self) {
        let mut orders = self.orders.as_ref().expect("open until dropped");
        orders.write_all(b"\n").expect("an order");
        self.answers.read_line(&mut String::new()).expect("an answer");
    }
}

fn send(orders: ChildStdin, pages: &[&[u8]]) -> ChildStdin {
    let mut out = BufWriter::new(orders);
    for page in pages {
        out.write_all(&(page.len() as u32).to_le_bytes()).expect("a length");
        out.write_all(page).expect("a page");
    }
    out.write_all(&[0; 4]).expect("the end");
    out.into_inner().expect("all written")
}

fn receive(answers: &mut impl Read) -> String {
    let mut len = [0; 4];
    answers.read_exact(&mut len).expect("a length");
    let mut text = vec![0; u32::from_le_bytes(len) as usize];
    answers.read_exact(&mut text).expect("a text");
    String::from_utf8(text).expect("UTF-8")
}

impl Drop for Lexbor {
    fn drop(&mut self) {
        drop(self.orders.take());
        drop(self.process.wait());
    }
}
