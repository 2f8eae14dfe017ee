//! Posts to a hook: one request on a connection of its own, within a time.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper::header::HOST;
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use std::error::Error;
use std::io;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// How long a hook may take from the connection to the status of its answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The port where a URL has none.
const HTTP_PORT: u16 = 80;

/// Where a hook is.
#[derive(Clone, Debug)]
pub(super) struct Hook {
    authority: Authority,
    path: PathAndQuery,
}

impl Hook {
    /// Takes a URL apart; what is wrong with it, where it cannot be posted to.
    pub fn parse(url: &str) -> Result<Self, String> {
        let form = "it must be http://HOST:PORT/PATH, percent-encoded, without a user";
        let uri: Uri = url.parse().map_err(|error| format!("{form} ({error})"))?;
        let uri = uri.into_parts();
        if uri.scheme == Some(Scheme::HTTPS) {
            return Err("https is not supported; post to a proxy on this machine that speaks it".into());
        }
        let authority = uri.authority.filter(|authority| !authority.as_str().contains('@'));
        let authority = authority.filter(|_| uri.scheme == Some(Scheme::HTTP)).ok_or(form)?;
        Ok(Hook { authority, path: uri.path_and_query.unwrap_or_else(|| PathAndQuery::from_static("/")) })
    }

    async fn post(&self, headers: &[(&str, String)], body: Vec<u8>) -> Result<u16, Box<dyn Error>> {
        let port = self.authority.port_u16().unwrap_or(HTTP_PORT);
        let stream = TcpStream::connect(format!("{}:{port}", self.authority.host())).await?;
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let mut request = Request::post(self.path.as_str()).header(HOST, self.authority.as_str());
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let answer = sender.send_request(request.body(Full::new(Bytes::from(body)))?).await;
        // Nobody reads what follows the status.
        connection.abort();
        Ok(answer?.status().as_u16())
    }
}

/// Posts, one request after the other.
pub(super) struct Poster(Runtime);

impl Poster {
    /// A poster.
    ///
    /// # Errors
    /// Where the system gives no poll.
    pub fn new() -> io::Result<Self> {
        Builder::new_current_thread().enable_all().build().map(Poster)
    }

    /// Posts a body and returns the status of the answer. Redirects are not followed.
    ///
    /// # Errors
    /// Why no answer came in time.
    pub fn post(&self, hook: &Hook, headers: &[(&str, String)], body: Vec<u8>) -> Result<u16, String> {
        let answered = self.0.block_on(async { timeout(TIMEOUT, hook.post(headers, body)).await });
        match answered {
            Ok(answered) => answered.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no answer within {} s", TIMEOUT.as_secs())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        for (url, authority, path) in [
            ("http://a.example:9000/hook?x=1#y", "a.example:9000", "/hook?x=1"),
            ("http://a.example", "a.example", "/"),
            ("http://[::1]:81/a", "[::1]:81", "/a"),
        ] {
            let hook = Hook::parse(url).expect(url);
            assert_eq!((hook.authority.as_str(), hook.path.as_str()), (authority, path), "{url}");
        }
        for url in [
            "",
            "a/b",
            "http://",
            "http:///x",
            "ftp://a/",
            "http://u@a/",
            "http://a/ x",
            "http://a/\r\nx",
            "https://a/",
        ] {
            assert!(Hook::parse(url).is_err(), "{url}");
        }
    }
}
