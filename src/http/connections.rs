//! Connections: taken in up to a number, and cut when they are slow, so that none can hold what others need.

use super::house::{House, ms};
use super::routes::router;
use crate::ports::Views;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, Sleep, sleep, timeout};

/// What one connection too many is told.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// How long to wait where the system has no more connections to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long requests under way may take once the house closes.
const CLOSING: Duration = Duration::from_secs(5);

/// Serves until `shutdown` is done, and then ends what is under way.
pub async fn serve<V: Views>(listener: TcpListener, house: House<V>, shutdown: impl Future<Output = ()>) {
    let house = Arc::new(house);
    let places = Arc::new(Semaphore::new(house.settings.connections_max.min(Semaphore::MAX_PERMITS)));
    let router = router(Arc::clone(&house));
    let (close, closing) = watch::channel(());
    tokio::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut shutdown => break,
        };
        match accepted {
            Ok((stream, _)) => take_in(&house, stream, &places, &router, closing.clone()),
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

fn take_in<V: Views>(
    house: &House<V>,
    stream: TcpStream,
    places: &Arc<Semaphore>,
    router: &Router,
    closing: watch::Receiver<()>,
) {
    let Ok(place) = Arc::clone(places).try_acquire_owned() else {
        metrics::counter!("lookalike_http_connections_refused_total").increment(1);
        let _ = stream.try_write(FULL);
        return;
    };
    let _ = stream.set_nodelay(true);
    let settings = &house.settings;
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(ms(settings.head_ms_max))
        .max_buf_size(settings.head_bytes_max);
    let stream = Patient::new(stream, ms(settings.write_ms_max));
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router.clone()));
    tokio::spawn(converse(connection, place, closing));
}

async fn converse(
    connection: http1::Connection<TokioIo<Patient>, TowerToHyperService<Router>>,
    _place: OwnedSemaphorePermit,
    mut closing: watch::Receiver<()>,
) {
    tokio::pin!(connection);
    metrics::gauge!("lookalike_http_connections").increment(1.0);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        _ = closing.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    metrics::gauge!("lookalike_http_connections").decrement(1.0);
    if let Err(error) = ended {
        tracing::debug!("a connection ended: {error}");
    }
}

/// A stream whose other side must read what it is sent, all of it within a time.
struct Patient {
    stream: TcpStream,
    patience: Duration,
    /// Runs from the first write that had to wait until everything is written.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    fn new(stream: TcpStream, patience: Duration) -> Self {
        Patient { stream, patience, waiting: None }
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

impl AsyncRead for Patient {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.waited(context, polled)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
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
        }
        polled
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
