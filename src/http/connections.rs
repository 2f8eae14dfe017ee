//! Connections: accepted while there are slots, and closed when they are slow, so that none holds what others need.

use super::client::Peer;
use super::connection_slots::{ConnectionSlots, ConnectionState, Slot};
use super::events::EVENT_STREAM;
use super::routes::router;
use super::service::{Service, ms};
use super::settings::Settings;
use crate::ports::Snapshots;
use axum::Router;
use axum::http::Request;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout};

/// The answer to one connection too many.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// The pause after the system refuses a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long running requests may take at shutdown.
const SHUTDOWN: Duration = Duration::from_secs(5);

/// Serves until `shutdown` is done, and then lets running requests finish.
pub async fn serve<V: Snapshots>(listener: TcpListener, service: Service<V>, shutdown: impl Future<Output = ()>) {
    let settings = Arc::new(service.settings.clone());
    let slots = Arc::new(ConnectionSlots::new(&settings));
    let service = Arc::new(service);
    let router = router(Arc::clone(&service));
    let (close, closing) = watch::channel(());
    tokio::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut shutdown => break,
        };
        match accepted {
            Ok((stream, from)) => match slots.acquire(from.ip()) {
                Some(slot) => {
                    tokio::spawn(serve_connection(
                        (stream, Peer(from.ip())),
                        slot,
                        router.clone(),
                        Arc::clone(&settings),
                        closing.clone(),
                    ));
                }
                None => {
                    metrics::counter!("lookalike_http_connections_rejected_total").increment(1);
                    let _ = stream.try_write(FULL);
                }
            },
            Err(error) => {
                tracing::warn!("cannot accept a connection: {error}");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop((listener, closing));
    service.closing.send_replace(true);
    let _ = close.send(());
    let _ = timeout(SHUTDOWN, close.closed()).await;
}

async fn serve_connection(
    (stream, peer): (TcpStream, Peer),
    slot: Slot,
    router: Router,
    settings: Arc<Settings>,
    mut closing: watch::Receiver<()>,
) {
    let _ = stream.set_nodelay(true);
    let (state, router) = (&slot.state, TowerToHyperService::new(router));
    let answer = service_fn(|mut request: Request<_>| {
        state.head_read();
        request.extensions_mut().insert(peer);
        let mut answering = Box::pin(router.call(request));
        // Hyper drops an answer that it has not polled yet if the client has gone by then. Polled here, a change begins all the same.
        let begun = answering.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        async {
            let answered: Result<Response, _> = match begun {
                Poll::Ready(answered) => answered,
                Poll::Pending => answering.await,
            };
            let is_stream = |response: &Response| response.headers().get(CONTENT_TYPE) == Some(&EVENT_STREAM);
            if answered.as_ref().is_ok_and(is_stream) {
                state.stream_begins()
            } else {
                state.answer_ready()
            }
            answered
        }
    });
    let stream = TimedStream::new(stream, ms(settings.response_write_ms_max), Arc::clone(state));
    let mut builder = http1::Builder::new();
    let connection =
        builder.max_buf_size(settings.request_head_bytes_max).serve_connection(TokioIo::new(stream), answer);
    tokio::pin!(connection);
    metrics::gauge!("lookalike_http_connections").increment(1.0);
    let mut is_closing = false;
    let ended = loop {
        tokio::select! {
            ended = connection.as_mut() => break ended.map_err(|error| error.to_string()),
            why = overdue(state, &settings) => {
                metrics::counter!("lookalike_http_connections_closed_total", "why" => why).increment(1);
                break Err(format!("closed by the server: {why}"));
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

/// Waits until a connection must be closed, and returns why: it is idle for too long, a request's head takes too
/// long, or a new connection needs its slot.
async fn overdue(state: &ConnectionState, settings: &Settings) -> &'static str {
    let (idle_max, head_max) = (ms(settings.idle_ms_max), ms(settings.request_head_ms_max));
    loop {
        let now = Instant::now();
        let until = match state.deadline(idle_max, head_max) {
            Some((deadline, why)) if deadline <= now => return why,
            Some((deadline, _)) => deadline,
            // The next activity has at least this much time.
            None => now + idle_max.min(head_max),
        };
        tokio::select! {
            () = sleep_until(until) => {}
            () = state.gives_way.notified() => return "crowded",
        }
    }
}

/// A stream whose client must read all that it is sent within a time.
struct TimedStream {
    stream: TcpStream,
    write_ms_max: Duration,
    state: Arc<ConnectionState>,
    /// Runs from the first write that has to wait until all is written.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl TimedStream {
    fn new(stream: TcpStream, write_ms_max: Duration, state: Arc<ConnectionState>) -> Self {
        TimedStream { stream, write_ms_max, state, waiting: None }
    }

    /// The result of a write, unless the client has kept it waiting for too long.
    fn in_time<T>(&mut self, context: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() && self.waiting.is_none() {
            return polled;
        }
        let deadline = Instant::now() + self.write_ms_max;
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
            this.state.bytes_came();
        }
        polled
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.state.bytes_go();
        let polled = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.in_time(context, polled)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.state.bytes_go();
        let polled = Pin::new(&mut this.stream).poll_write_vectored(context, parts);
        this.in_time(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_flush(context);
        if polled.is_ready() {
            // hyper flushes when it has nothing left to write.
            this.waiting = None;
            this.state.all_sent();
        }
        polled
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
