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
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_native_tls::{TlsConnector, native_tls};

/// How long a hook may take from the connection to the status of its answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The ports where a URL has none.
const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;

/// Where a hook is.
#[derive(Clone, Debug)]
pub(super) struct Hook {
    is_encrypted: bool,
    authority: Authority,
    path: PathAndQuery,
}

impl Hook {
    /// Takes a URL apart; what is wrong with it, where it cannot be posted to.
    pub fn parse(url: &str) -> Result<Self, String> {
        let form = "it must be http://HOST:PORT/PATH or https://HOST:PORT/PATH, percent-encoded, without a user";
        let uri: Uri = url.parse().map_err(|error| format!("{form} ({error})"))?;
        let uri = uri.into_parts();
        let is_encrypted = uri.scheme == Some(Scheme::HTTPS);
        let authority = uri.authority.filter(|authority| !authority.as_str().contains('@'));
        let authority = authority.filter(|_| is_encrypted || uri.scheme == Some(Scheme::HTTP)).ok_or(form)?;
        Ok(Hook { is_encrypted, authority, path: uri.path_and_query.unwrap_or_else(|| PathAndQuery::from_static("/")) })
    }

    async fn post(&self, tls: &TlsConnector, headers: &Headers<'_>, body: Vec<u8>) -> Result<u16, Box<dyn Error>> {
        let (host, default) = (self.authority.host(), if self.is_encrypted { HTTPS_PORT } else { HTTP_PORT });
        let port = self.authority.port_u16().unwrap_or(default);
        let stream = TcpStream::connect(format!("{host}:{port}")).await?;
        if !self.is_encrypted {
            return self.post_over(stream, headers, body).await;
        }
        let name = host.trim_start_matches('[').trim_end_matches(']');
        self.post_over(tls.connect(name, stream).await?, headers, body).await
    }

    async fn post_over(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        headers: &Headers<'_>,
        body: Vec<u8>,
    ) -> Result<u16, Box<dyn Error>> {
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

/// Names and values.
type Headers<'a> = [(&'a str, String)];

/// Posts, one request after the other.
pub(super) struct Poster {
    runtime: Runtime,
    tls: TlsConnector,
}

impl Poster {
    /// A poster.
    ///
    /// # Errors
    /// Where the system gives no poll, or has no TLS.
    pub fn new() -> io::Result<Self> {
        let tls = native_tls::TlsConnector::new().map_err(io::Error::other)?;
        Ok(Poster { runtime: Builder::new_current_thread().enable_all().build()?, tls: tls.into() })
    }

    /// Posts a body and returns the status of the answer. Redirects are not followed.
    ///
    /// # Errors
    /// Why no answer came in time.
    pub fn post(&self, hook: &Hook, headers: &Headers<'_>, body: Vec<u8>) -> Result<u16, String> {
        let answered = self.runtime.block_on(async { timeout(TIMEOUT, hook.post(&self.tls, headers, body)).await });
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
            ("https://a.example/a", "a.example", "/a"),
        ] {
            let hook = Hook::parse(url).expect(url);
            assert_eq!((hook.authority.as_str(), hook.path.as_str()), (authority, path), "{url}");
            assert_eq!(hook.is_encrypted, url.starts_with("https"));
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
            "https://u@a/",
        ] {
            assert!(Hook::parse(url).is_err(), "{url}");
        }
    }
}
