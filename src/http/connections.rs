//! Connections: taken in while there are places, and cut when they are slow, so that none can hold what others need.

use super::connection_slots::{ConnectionSlots, ConnectionState, Slot};
use super::routes::router;
use super::service::{Service, ms};
use super::settings::Settings;
use crate::ports::Snapshots;
use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout};

/// What one connection too many is told.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// How long to wait where the system has no more connections to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long requests under way may take once the house closes.
const CLOSING: Duration = Duration::from_secs(5);

/// Serves until `shutdown` is done, and then ends what is under way.
pub async fn serve<V: Snapshots>(listener: TcpListener, house: Service<V>, shutdown: impl Future<Output = ()>) {
    let settings = Arc::new(house.settings.clone());
    let places = Arc::new(ConnectionSlots::new(&settings));
    let router = router(Arc::new(house));
    let (close, closing) = watch::channel(());
    tokio::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut shutdown => break,
        };
        match accepted {
            Ok((stream, from)) => match places.take(from.ip()) {
                Some(place) => {
                    let conversation = converse(stream, place, router.clone(), Arc::clone(&settings), closing.clone());
                    tokio::spawn(conversation);
                }
                None => {
                    metrics::counter!("lookalike_http_connections_rejected_total").increment(1);
                    let _ = stream.try_write(FULL);
                }
            },
            Err(error) => {
                tracing::warn!("no connection could be accepted: {error}");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop((listener, closing));
    let _ = close.send(());
    let _ = timeout(CLOSING, close.closed()).await;
}

async fn converse(
    stream: TcpStream,
    place: Slot,
    router: Router,
    settings: Arc<Settings>,
    mut closing: watch::Receiver<()>,
) {
    let _ = stream.set_nodelay(true);
    let (talk, router) = (&place.talk, TowerToHyperService::new(router));
    let answer = service_fn(|request| {
        talk.asked();
        let answering = router.call(request);
        async {
            let answered = answering.await;
            talk.answered();
            answered
        }
    });
    let stream = TimedStream::new(stream, ms(settings.response_write_ms_max), Arc::clone(talk));
    let mut builder = http1::Builder::new();
    let connection =
        builder.max_buf_size(settings.request_head_bytes_max).serve_connection(TokioIo::new(stream), answer);
    tokio::pin!(connection);
    metrics::gauge!("lookalike_http_connections").increment(1.0);
    let mut is_closing = false;
    let ended = loop {
        tokio::select! {
            ended = connection.as_mut() => break ended.map_err(|error| error.to_string()),
            why = overdue(talk, &settings) => {
                metrics::counter!("lookalike_http_connections_closed_total", "why" => why).increment(1);
                break Err(format!("cut: {why}"));
            }
            _ = closing.changed(), if !is_closing => {
                is_closing = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    };
    metrics::gauge!("lookalike_http_connections").decrement(1.0);
    if let Err(error) = ended {
        tracing::debug!("a connection ended: {error}");
    }
}

/// Waits until a connection is to be cut, and says why: it has been idle for too long, or a request's head takes too long,
/// or its place is wanted.
async fn overdue(talk: &ConnectionState, settings: &Settings) -> &'static str {
    let (idle_max, head_max) = (ms(settings.idle_ms_max), ms(settings.request_head_ms_max));
    loop {
        let now = Instant::now();
        let until = match talk.deadline(idle_max, head_max) {
            Some((deadline, why)) if deadline <= now => return why,
            Some((deadline, _)) => deadline,
            // Whatever comes next has at least as much time.
            None => now + idle_max.min(head_max),
        };
        tokio::select! {
            () = sleep_until(until) => {}
            () = talk.gives_way.notified() => return "crowded",
        }
    }
}

/// A stream whose other side must read what it is sent, all of it within a time.
struct TimedStream {
    stream: TcpStream,
    patience: Duration,
    talk: Arc<ConnectionState>,
    /// Runs from the first write that had to wait until everything is written.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl TimedStream {
    fn new(stream: TcpStream, patience: Duration, talk: Arc<ConnectionState>) -> Self {
        TimedStream { stream, patience, talk, waiting: None }
    }

    /// What a write came to, unless the other side has been waited for too long.
    fn waited<T>(&mut self, context: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() && self.waiting.is_none() {
            return polled;
        }
        let deadline = Instant::now() + self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        match waiting.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => polled,
        }
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let (this, n_before) = (self.get_mut(), buffer.filled().len());
        let polled = Pin::new(&mut this.stream).poll_read(context, buffer);
        if buffer.filled().len() > n_before {
            this.talk.heard();
        }
        polled
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.talk.told();
        let polled = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.waited(context, polled)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.talk.told();
        let polled = Pin::new(&mut this.stream).poll_write_vectored(context, parts);
        this.waited(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_flush(context);
        if polled.is_ready() {
            // hyper flushes when it has nothing more to write.
            this.waiting = None;
            this.talk.all_told();
        }
        polled
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
