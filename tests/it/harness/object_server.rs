//! A store of objects on loopback that speaks what S3 speaks, and fails as networks do.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// A server of objects by their paths, `/bucket/key`. It lives as long as the process.
#[derive(Clone, Default)]
pub struct ObjectServer {
    objects: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    /// Parts of uploads, by path and number.
    parts: Arc<Mutex<Parts>>,
    n_reads: Arc<AtomicUsize>,
    /// Each read of a number that this divides fails: by turns with an error, or in the middle of its bytes. 0: none.
    fails_every: Arc<AtomicUsize>,
    port: u16,
}

type Parts = BTreeMap<(String, u32), Vec<u8>>;

struct Request {
    method: String,
    path: String,
    query: BTreeMap<String, String>,
    range: Option<(usize, usize)>,
    if_match: Option<String>,
    body: Vec<u8>,
}

impl ObjectServer {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let server =
            ObjectServer { port: listener.local_addr().expect("an address").port(), ..ObjectServer::default() };
        let answering = server.clone();
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let server = answering.clone();
                // A connection that breaks off is the client's business.
                std::thread::spawn(move || server.converse(&connection));
            }
        });
        server
    }

    /// The server's own URL.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn put(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.objects.lock().expect("no panic").insert(path.into(), bytes.into());
    }

    pub fn get(&self, path: &str) -> Option<Vec<u8>> {
        self.objects.lock().expect("no panic").get(path).cloned()
    }

    pub fn fail_every(&self, n: usize) {
        self.fails_every.store(n, Relaxed);
    }

    /// How many reads of bytes were asked for.
    pub fn n_reads(&self) -> usize {
        self.n_reads.load(Relaxed)
    }

    fn converse(&self, connection: &TcpStream) -> Option<()> {
        let mut reader = BufReader::new(connection);
        loop {
            let request = read_request(&mut reader)?;
            let (mut head, body) = self.answer(&request);
            let _ = write!(head, "Content-Length: {}\r\nConnection: keep-alive\r\n\r\n", body.len());
            let mut connection = connection;
            connection.write_all(head.as_bytes()).ok()?;
            if request.method == "HEAD" {
                continue;
            }
            let n = self.n_reads.load(Relaxed);
            let every = self.fails_every.load(Relaxed);
            if request.method == "GET" && body.len() > 1000 && every > 0 && n.is_multiple_of(2 * every) {
                connection.write_all(&body[..body.len() / 2]).ok()?;
                return None;
            }
            connection.write_all(&body).ok()?;
        }
    }

    /// The status line and headers, and the body.
    fn answer(&self, request: &Request) -> (String, Vec<u8>) {
        let status = |status: &str| (format!("HTTP/1.1 {status}\r\n"), Vec::new());
        let xml =
            |text: String| ("HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\n".to_string(), text.into_bytes());
        let part = request.query.get("partNumber").and_then(|number| number.parse().ok());
        match request.method.as_str() {
            "GET" if request.query.contains_key("list-type") => xml(self.list(request)),
            "GET" | "HEAD" => self.read(request),
            "PUT" => {
                match part {
                    Some(number) => {
                        let key = (request.path.clone(), number);
                        self.parts.lock().expect("no panic").insert(key, request.body.clone());
                    }
                    None => self.put(&request.path, request.body.clone()),
                }
                ("HTTP/1.1 200 OK\r\nETag: \"part\"\r\n".into(), Vec::new())
            }
            "POST" if request.query.contains_key("uploads") => {
                xml("<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>".into())
            }
            "POST" => {
                let mut parts = self.parts.lock().expect("no panic");
                let of_object = std::mem::take(&mut *parts).into_iter().filter(|((path, _), _)| *path == request.path);
                self.put(&request.path, of_object.flat_map(|(_, bytes)| bytes).collect::<Vec<u8>>());
                xml("<CompleteMultipartUploadResult><ETag>\"whole\"</ETag></CompleteMultipartUploadResult>".into())
            }
            _ => status("405 Method Not Allowed"),
        }
    }

    fn read(&self, request: &Request) -> (String, Vec<u8>) {
        let Some(bytes) = self.get(&request.path) else { return ("HTTP/1.1 404 Not Found\r\n".into(), Vec::new()) };
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let tag = format!("\"{:x}\"", hasher.finish());
        if request.if_match.as_ref().is_some_and(|wanted| *wanted != tag) {
            return ("HTTP/1.1 412 Precondition Failed\r\n".into(), Vec::new());
        }
        if request.method == "GET" {
            let (n, every) = (self.n_reads.fetch_add(1, Relaxed) + 1, self.fails_every.load(Relaxed));
            if every > 0 && n.is_multiple_of(every) && !n.is_multiple_of(2 * every) {
                return ("HTTP/1.1 503 Service Unavailable\r\n".into(), Vec::new());
            }
        }
        let facts = format!("ETag: {tag}\r\nLast-Modified: Mon, 23 Nov 2026 08:00:00 GMT\r\n");
        match request.range {
            None => (format!("HTTP/1.1 200 OK\r\n{facts}"), bytes),
            Some((from, to)) => {
                let part = bytes[from..to.min(bytes.len())].to_vec();
                let range = format!("Content-Range: bytes {from}-{}/{}\r\n", from + part.len() - 1, bytes.len());
                (format!("HTTP/1.1 206 Partial Content\r\n{facts}{range}"), part)
            }
        }
    }

    /// All objects of a bucket below a prefix, a page of two at a time.
    fn list(&self, request: &Request) -> String {
        let bucket = format!("{}/", request.path.trim_end_matches('/'));
        let prefix = request.query.get("prefix").cloned().unwrap_or_default();
        let after = request.query.get("continuation-token").cloned().unwrap_or_default();
        let objects = self.objects.lock().expect("no panic");
        let keys = objects.iter().filter_map(|(path, bytes)| Some((path.strip_prefix(&bucket)?, bytes.len())));
        let found: Vec<_> = keys.filter(|(key, _)| key.starts_with(&prefix) && **key > *after).collect();
        let mut text = "<ListBucketResult>".to_string();
        for (key, size) in found.iter().take(2) {
            let _ = write!(
                text,
                "<Contents><Key>{key}</Key><LastModified>2026-11-23T08:00:00.000Z</LastModified><Size>{size}</Size>\
                 </Contents>"
            );
        }
        if found.len() > 2 {
            let _ = write!(text, "<NextContinuationToken>{}</NextContinuationToken>", found[1].0);
        }
        text + "</ListBucketResult>"
    }
}

/// Reads a request; none at the end of the connection.
fn read_request(reader: &mut BufReader<&TcpStream>) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_string(), words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let query = pairs.map(|(name, value)| (name.to_string(), unescaped(value))).collect();
    let mut request = Request { method, path: unescaped(path), query, range: None, if_match: None, body: Vec::new() };
    let mut n_bytes = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => n_bytes = value.parse().ok()?,
            "if-match" => request.if_match = Some(value.to_string()),
            "range" => {
                let (from, to) = value.strip_prefix("bytes=")?.split_once('-')?;
                request.range = Some((from.parse().ok()?, to.parse::<usize>().ok()? + 1));
            }
            _ => {}
        }
    }
    request.body.resize(n_bytes, 0);
    reader.read_exact(&mut request.body).ok()?;
    Some(request)
}

/// A text without percent signs.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let code = after.get(..2).and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        match (first, code) {
            (b'%', Some(code)) => {
                bytes.push(code);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).expect("UTF-8")
}
