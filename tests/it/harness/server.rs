//! The HTTP server as its tests meet it: the real program, and a client that sends exactly the bytes it is given.

use super::World;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdin, Stdio};
use std::time::{Duration, Instant};

/// No wait here takes as long unless something hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running `lookalike serve`, killed when this value is dropped.
pub struct Server {
    pub address: SocketAddr,
    pub process: Child,
    /// The lines of standard error before the one with the address.
    pub said: Vec<String>,
}

/// A response.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

impl Server {
    /// Serves a world's store.
    pub fn open(world: &World) -> Self {
        Self::from_process(world.command("serve --listen 127.0.0.1:0").stderr(Stdio::piped()).spawn().expect("starts"))
    }

    /// A `run` that serves, and the pipe that it reads as `crawl`.
    pub fn of_run(world: &World) -> (Self, ChildStdin) {
        let mut command = world.run_command(&[]);
        command.args(["--http-listen", "127.0.0.1:0", "--stdin-name", "crawl"]);
        let mut process = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        let pipe = process.stdin.take().expect("a pipe");
        (Self::from_process(process), pipe)
    }

    /// The server of a process that prints its address on standard error.
    pub fn from_process(mut process: Child) -> Self {
        let mut lines = BufReader::new(process.stderr.take().expect("piped")).lines();
        let mut said = Vec::new();
        let address = loop {
            let line = lines.next().unwrap_or_else(|| panic!("it ended: {said:?}")).expect("text");
            if let Some((_, address)) = line.split_once(" at http://") {
                break address.trim_end_matches('/').parse().expect("an address");
            }
            said.push(line);
        };
        // A full pipe would stop the process.
        std::thread::spawn(move || lines.for_each(drop));
        Server { address, process, said }
    }

    pub fn connect(&self) -> TcpStream {
        connect(self.address)
    }

    pub fn get(&self, path: &str) -> Response {
        ask(self.address, "GET", path, &[], b"")
    }

    pub fn post(&self, path: &str, content_type: &str, body: &[u8]) -> Response {
        ask(self.address, "POST", path, &[("content-type", content_type)], body)
    }

    /// Asks until the answer is as wanted.
    pub fn wait(&self, path: &str, is_wanted: impl Fn(&Response) -> bool) -> Response {
        until(|| Some(self.get(path)).filter(|response| is_wanted(response)))
    }

    /// The peak memory of the process, in bytes.
    pub fn memory_peak(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("Linux");
        let line = status.lines().find(|line| line.starts_with("VmHWM")).expect("a peak");
        line.split_whitespace().nth(1).expect("a number").parse::<u64>().expect("a number") * 1024
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Tries until an attempt gives a value.
pub fn until<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "it did not come about");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream.set_write_timeout(Some(PATIENCE)).expect("set");
    stream
}

/// The same from another address of this machine.
pub fn connect_from(source: [u8; 4], address: SocketAddr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind((source, 0).into()).expect("an address");
        socket.connect(address).await.expect("connected").into_std().expect("a stream")
    });
    stream.set_nonblocking(false).expect("set");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream.set_write_timeout(Some(PATIENCE)).expect("set");
    stream
}

/// One request, one answer.
pub fn ask(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
    let mut stream = connect(address);
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("sent");
    // The server may answer and close before it has read the body: the answer counts.
    let _ = stream.write_all(body);
    response(stream)
}

/// Reads an answer to its length, or to the end of the connection.
pub fn response(stream: TcpStream) -> Response {
    try_response(stream).expect("an answer")
}

/// The same; none where the connection ends without one.
pub fn try_response(stream: TcpStream) -> Option<Response> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let status = line.split(' ').nth(1)?.parse().ok()?;
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().split_once(':') {
            None => break,
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.trim().to_string())),
        }
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.and_then(|(_, length)| length.parse().ok()).unwrap_or(u64::MAX);
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body).ok()?;
    Some(Response { status, headers, body: String::from_utf8_lossy(&body).into_owned() })
}

/// A text, percent-encoded.
pub fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
