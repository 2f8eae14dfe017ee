//! Posts to a hook: one request on a connection of its own, within a time.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// How long a hook may take from the connection to the status of its answer.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of an answer that may precede the end of its first line.
const STATUS_BYTES_MAX: usize = 1024;

/// Where a hook is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Host and port, to connect to.
    address: String,
    /// The same as the URL has it.
    authority: String,
    path: String,
}

impl Target {
    /// Takes a URL apart.
    pub fn parse(url: &str) -> Result<Self, String> {
        if url.starts_with("https:") {
            return Err("https is not supported; post to a proxy on this machine that speaks it".into());
        }
        let rest = url.strip_prefix("http://").ok_or("it must be http://HOST:PORT/PATH")?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let path = path.split('#').next().unwrap_or_default();
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if authority.is_empty() || authority.contains('@') || !is_plain(rest) {
            return Err("it must be http://HOST:PORT/PATH, percent-encoded, without a user".into());
        }
        // A colon within brackets belongs to an IPv6 address.
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        let address = if has_port { authority.to_string() } else { format!("{authority}:80") };
        let path = if path.starts_with('/') { path.to_string() } else { format!("/{path}") };
        Ok(Target { address, authority: authority.to_string(), path })
    }

    /// Posts a body and returns the status of the answer. Redirects are not followed, and what follows the status is not read.
    ///
    /// # Errors
    /// Where no answer came in time.
    pub fn post(&self, headers: &[(&str, String)], body: &[u8]) -> io::Result<u16> {
        let deadline = Instant::now() + TIMEOUT;
        let mut stream = self.connect(deadline)?;
        let mut request = format!(
            "POST {} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: {}\r\n",
            self.path,
            self.authority,
            body.len()
        );
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.set_write_timeout(Some(left(deadline)?))?;
        stream.write_all(&[request.as_bytes(), b"\r\n", body].concat())?;
        let mut answer = Vec::new();
        loop {
            if let Some(end) = answer.iter().position(|byte| *byte == b'\n') {
                return status(&answer[..end]).ok_or_else(|| io::Error::other("the answer is not HTTP"));
            }
            stream.set_read_timeout(Some(left(deadline)?))?;
            let mut bytes = [0; STATUS_BYTES_MAX];
            let n_read = stream.read(&mut bytes)?;
            answer.extend_from_slice(&bytes[..n_read]);
            if n_read == 0 || answer.len() > 2 * STATUS_BYTES_MAX {
                return Err(io::Error::other("the answer is not HTTP"));
            }
        }
    }

    fn connect(&self, deadline: Instant) -> io::Result<TcpStream> {
        let mut last = io::Error::other("the host has no address");
        for address in self.address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, left(deadline)?) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// The time that is left.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// The status in the first line of an answer.
fn status(line: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(line).ok()?;
    line.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let parsed = |url: &str| Target::parse(url).map(|target| (target.address, target.authority, target.path));
        for (url, address, authority, path) in [
            ("http://a.example:9000/hook?x=1#y", "a.example:9000", "a.example:9000", "/hook?x=1"),
            ("http://a.example", "a.example:80", "a.example", "/"),
            ("http://[::1]/", "[::1]:80", "[::1]", "/"),
            ("http://[::1]:81?a", "[::1]:81", "[::1]:81", "/?a"),
        ] {
            assert_eq!(parsed(url), Ok((address.into(), authority.into(), path.into())), "{url}");
        }
        for url in
            ["", "http://", "http:///x", "ftp://a/", "http://u@a/", "http://a/ x", "http://a/\r\nx", "https://a/"]
        {
            assert!(parsed(url).is_err(), "{url}");
        }
        assert_eq!((status(b"HTTP/1.1 204 No Content\r"), status(b"HTTP/1.0 500")), (Some(204), Some(500)));
        assert_eq!((status(b"SSH-2.0-x"), status(b"HTTP/1.1")), (None, None));
    }
}
