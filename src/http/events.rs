//! `/v1/events`: the events that the store keeps, as they come (Server-Sent Events), or a page of them as JSON.
//!
//! A stream holds no more than two parts of the store's outbox, whatever its client does: the next part is read once the
//! client took the last one. It has the place of one connection, and of none of the other requests.

use super::answer::{Answer, JSON};
use super::error::{HttpError, shortened};
use super::request::{QueryRequest, ROWS};
use super::service::{Route, Service, count, protect};
use crate::document::{ClusterId, DocumentId};
use crate::ports::{KeptEvents, Outgoing, Snapshot, Snapshots, StoreError};
use crate::wire::{Event, EventFilter, EventType, check_host};
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::Frame;
use serde::Deserialize;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::{Instant, sleep};

/// The media type of a stream.
pub(super) const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

/// The number of the last event that a client has.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Asks nginx to pass on what comes at once.
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Bytes of events that are read at once, about. One event may be larger.
const PART_BYTES: usize = 64 << 10;

/// Parts that are read for one page. A page of a filter that lets little through may end before it is full.
const PARTS_MAX: usize = 64;

/// How often a stream that has all events looks for more.
const POLL: Duration = Duration::from_millis(50);

/// How long a stream may be silent. Proxies close connections that are silent for longer, and only a write finds out that a
/// client is gone.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// Which events a request asks for.
struct Wanted {
    /// The first one; none: the next that comes.
    from: Option<u64>,
    filter: EventFilter,
    /// Only those of a document that is in the same cluster as this one now.
    cluster: Option<DocumentId>,
}

/// The field of an event that names its type.
#[derive(Deserialize)]
struct EventHead<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
}

/// Answers with a stream, or with a page where the client asks for one.
pub(super) async fn answer<V: Snapshots>(service: Arc<Service<V>>, route: Route<V>, request: Request) -> Response {
    if wants_page(request.headers()) {
        return service.answer(route, request).await;
    }
    let begin = Instant::now();
    let (head, _) = request.into_parts();
    let parsed = QueryRequest::parse(route.path, route.parameters, &head.uri, &head.headers);
    let answered = match parsed {
        Ok(mut request) => {
            request.headers = head.headers;
            service.stream(request).await
        }
        Err(error) => Err(error),
    };
    let mut response = answered.unwrap_or_else(route.error);
    protect(response.headers_mut());
    count(route.path, &response, begin.into_std());
    response
}

fn wants_page(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.contains(JSON)
}

impl Wanted {
    fn parse(request: &QueryRequest) -> Result<Self, HttpError> {
        let bad = |message: String| HttpError::bad_request("bad-parameter", message);
        let number = |name: &str, text: &str| {
            text.parse::<u64>()
                .map_err(|_| bad(format!("{name} must be the number of an event, not {:?}", shortened(text))))
        };
        // A browser that connects again repeats the URL, and says in the header how far it came.
        let last = request.headers.get(LAST_EVENT_ID).filter(|last| !last.is_empty());
        let from = match last {
            Some(last) => Some(number("last-event-id", last.to_str().unwrap_or_default())?.saturating_add(1)),
            None => request.given("from").map(|from| number("from", from)).transpose()?,
        };
        let named = |name: &str| request.given(name).into_iter().flat_map(|names| names.split(','));
        let types = named("type").map(|name| {
            EventType::parse(name).ok_or_else(|| bad(format!("type: there is no event {:?}", shortened(name))))
        });
        if let Some(why) = named("host").find_map(|host| check_host(host).err()) {
            return Err(bad(format!("host: {why}")));
        }
        let filter = EventFilter {
            types: types.collect::<Result<_, _>>()?,
            hosts: named("host").map(String::from).collect(),
            ..EventFilter::default()
        };
        let cluster = request.given("cluster").map(|cluster| {
            let number = cluster.parse().ok().filter(|number| *number > 0);
            number.map(DocumentId).ok_or_else(|| bad("cluster must be the number of a cluster, 1 or more".into()))
        });
        Ok(Wanted { from, filter, cluster: cluster.transpose()? })
    }

    /// The number of the first event to send.
    fn first(&self, events: &dyn KeptEvents) -> Result<u64, HttpError> {
        let Some(kept) = events.range()? else {
            let message = "this store keeps no events; set store.keep_events to how many of the newest it is to keep, and \
                           start `lookalike run` again";
            return Err(HttpError::new(StatusCode::NOT_FOUND, "no-events", message));
        };
        match self.from {
            None => Ok(kept.end),
            Some(from) if from < kept.start => Err(not_kept(from, kept.start)),
            Some(from) if from > kept.end => {
                let message = format!(
                    "there is no event {from} yet, the next one is {}: this is another store, or an older copy of it; begin \
                     anew, without from and last-event-id",
                    kept.end
                );
                Err(HttpError::new(StatusCode::CONFLICT, "ahead", message))
            }
            Some(from) => Ok(from),
        }
    }

    /// Whether an event is asked for. The snapshot must know it.
    fn matches(&self, event: &Outgoing, snapshot: Option<&impl Snapshot>) -> Result<bool, StoreError> {
        // It was forgotten.
        if event.json.is_empty() {
            return Ok(false);
        }
        if self.filter.is_everything() && self.cluster.is_none() {
            return Ok(true);
        }
        let event: Event = serde_json::from_slice(&event.json).map_err(|error| damaged(event.seq, &error))?;
        match (self.cluster, snapshot) {
            _ if !self.filter.matches(&event) => Ok(false),
            (Some(cluster), Some(snapshot)) => is_in_cluster(&event, cluster, snapshot),
            _ => Ok(true),
        }
    }
}

fn damaged(seq: u64, error: &serde_json::Error) -> StoreError {
    StoreError::Damaged(format!("event {seq}: {error}"))
}

/// Whether an event is about a document, or a cluster, that is in the same cluster as another document now.
fn is_in_cluster(event: &Event, cluster: DocumentId, snapshot: &impl Snapshot) -> Result<bool, StoreError> {
    // A cluster is named by a document.
    let named = |cluster: ClusterId| DocumentId(cluster.0);
    let of_event = event.document().or(event.cluster().map(named));
    let (Some(document), true) = (of_event, (1..=snapshot.n_documents()).contains(&cluster.0)) else {
        return Ok(false);
    };
    Ok(snapshot.cluster_of(document)? == snapshot.cluster_of(cluster)?)
}

fn not_kept(from: u64, first: u64) -> HttpError {
    let message = format!(
        "event {from} is not kept any more, the first one that is there is {first}. Note `seq` of an answer such as \
         /v1/sweeps, read the present state with `lookalike export present`, and then the events from that number on; or go \
         on from {first} without those in between. Raise store.keep_events to be able to stay away for longer"
    );
    HttpError { kept_from: Some(first), ..HttpError::new(StatusCode::GONE, "not-kept", message) }
}

/// Some events, as they are sent.
struct Part {
    bytes: Vec<u8>,
    n_events: u64,
    /// The number of the first event behind them.
    next: u64,
}

impl<V: Snapshots> Service<V> {
    /// Reads what is asked for of the events from `next` on, and gives it to `push`. Returns the number of the first event
    /// that was not looked at: the same where there is none yet, `None` where that one is not kept any more.
    fn read_events(
        &self,
        wanted: &Wanted,
        next: u64,
        push: &mut dyn FnMut(&Outgoing) -> Result<bool, StoreError>,
    ) -> Result<Option<u64>, StoreError> {
        let Some(events) = self.events.read(next, PART_BYTES)? else { return Ok(None) };
        let snapshot = wanted.cluster.map(|_| self.snapshots.snapshot());
        let mut next = next;
        for event in events {
            // Which cluster it is in is known once the snapshot has it.
            if snapshot.as_ref().is_some_and(|snapshot| event.seq >= snapshot.next_seq()) {
                break;
            }
            if wanted.matches(&event, snapshot.as_deref())? && !push(&event)? {
                break;
            }
            next = event.seq + 1;
        }
        Ok(Some(next))
    }

    /// The next messages of a stream.
    fn next_part(&self, wanted: &Wanted, next: u64) -> Result<Option<Part>, StoreError> {
        let (mut bytes, mut n_events) = (Vec::new(), 0);
        let next = self.read_events(wanted, next, &mut |event| {
            n_events += 1;
            put_message(event, &mut bytes).map(|()| true)
        })?;
        Ok(next.map(|next| Part { bytes, n_events, next }))
    }

    /// Whether there may be events that a stream has not seen. Costs nothing.
    fn may_have(&self, wanted: &Wanted, next: u64) -> bool {
        next < self.events.newest() && (wanted.cluster.is_none() || next < self.snapshots.snapshot().next_seq())
    }

    /// Answers with a stream of events.
    async fn stream(self: Arc<Self>, request: QueryRequest) -> Result<Response, HttpError> {
        if request.given("limit").is_some() {
            let message = "limit is for pages of events: ask with `accept: application/json`, or leave it out";
            return Err(HttpError::bad_request("bad-parameter", message));
        }
        let wanted = Wanted::parse(&request)?;
        let Ok(place) = Arc::clone(&self.streams).try_acquire_owned() else {
            return Err(HttpError::busy("http.streams_max streams of events are open; come again later"));
        };
        let service = Arc::clone(&self);
        let first = tokio::task::spawn_blocking(move || wanted.first(&*service.events).map(|first| (wanted, first)));
        let (wanted, next) = first.await.map_err(|error| {
            tracing::error!("a stream of events failed: {error}");
            HttpError::failed("the server failed to answer; its log says why")
        })??;
        let closing = self.closing.subscribe();
        let (out, parts) = mpsc::channel(1);
        let stream = EventStream { service: self, wanted: Arc::new(wanted), next, told: next, closing, _place: place };
        tokio::spawn(stream.run(out));
        let mut response = Body::new(PartBody(parts)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, EVENT_STREAM);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        headers.insert(BUFFERING, HeaderValue::from_static("no"));
        Ok(response)
    }
}

/// One event as a message of a stream. Its JSON is one line.
fn put_message(event: &Outgoing, bytes: &mut Vec<u8>) -> Result<(), StoreError> {
    let head: EventHead<'_> = serde_json::from_slice(&event.json).map_err(|error| damaged(event.seq, &error))?;
    bytes.extend_from_slice(format!("id: {}\nevent: {}\ndata: ", event.seq, head.kind).as_bytes());
    bytes.extend_from_slice(&event.json);
    bytes.extend_from_slice(b"\n\n");
    Ok(())
}

/// A comment; where there is an event before `next`, with its number, so that a client that connects again goes on behind it.
/// Clients make no message of what has no data.
fn comment(next: u64) -> Bytes {
    next.checked_sub(1).map_or(":\n\n".into(), |last| format!(":\nid: {last}\n\n")).into()
}

/// A stream of events to one client.
struct EventStream<V: Snapshots> {
    service: Arc<Service<V>>,
    wanted: Arc<Wanted>,
    /// The number of the next event to look at.
    next: u64,
    /// The client knows that it has all events that it asked for below this number.
    told: u64,
    /// True once the server closes.
    closing: watch::Receiver<bool>,
    _place: OwnedSemaphorePermit,
}

impl<V: Snapshots> EventStream<V> {
    /// Sends until the client is gone or the server closes; then, what is there by then.
    async fn run(mut self, out: mpsc::Sender<Bytes>) {
        metrics::gauge!("lookalike_http_event_streams").increment(1.0);
        let sent = self.send_all(&out).await;
        if let Err(why) = sent {
            tracing::warn!("a stream of events ended: {why}");
        }
        metrics::gauge!("lookalike_http_event_streams").decrement(1.0);
    }

    async fn send_all(&mut self, out: &mpsc::Sender<Bytes>) -> Result<(), String> {
        let mut is_sent = out.send(comment(self.next)).await.is_ok();
        let mut spoken = Instant::now();
        while is_sent {
            if self.service.may_have(&self.wanted, self.next) {
                let Some(part) = self.next_part().await? else {
                    let lost = self.next;
                    let _ = out.send(format!(": event {lost} is not kept any more\n\n").into()).await;
                    return Err(format!("its client was too slow: event {lost} is not kept any more"));
                };
                self.next = part.next;
                if !part.bytes.is_empty() {
                    metrics::counter!("lookalike_http_events_sent_total").increment(part.n_events);
                    is_sent = out.send(part.bytes.into()).await.is_ok();
                    (self.told, spoken) = (self.next, Instant::now());
                }
            } else if *self.closing.borrow() {
                return Ok(());
            } else {
                tokio::select! {
                    () = sleep(POLL) => {}
                    _ = self.closing.changed() => {}
                    () = out.closed() => return Ok(()),
                }
            }
            if is_sent && spoken.elapsed() >= SILENCE_MAX {
                is_sent = out.send(comment(if self.told < self.next { self.next } else { 0 })).await.is_ok();
                (self.told, spoken) = (self.next, Instant::now());
            }
        }
        Ok(())
    }

    /// Reads the next part, as soon as few enough other streams read.
    async fn next_part(&self) -> Result<Option<Part>, String> {
        let turn = Arc::clone(&self.service.turns_for_streams).acquire_owned().await;
        let (service, wanted, next) = (Arc::clone(&self.service), Arc::clone(&self.wanted), self.next);
        let reading = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            service.next_part(&wanted, next)
        });
        reading.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    }
}

/// The body of a stream.
struct PartBody(mpsc::Receiver<Bytes>);

impl HttpBody for PartBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|part| part.map(|part| Ok(Frame::data(part))))
    }
}

/// A page of events as JSON.
pub(super) fn page<V: Snapshots>(
    service: &Service<V>,
    _: &V::Snapshot,
    request: &QueryRequest,
) -> Result<Answer, HttpError> {
    let limit = request.rows("limit", ROWS, &service.settings)?;
    let wanted = Wanted::parse(request)?;
    let mut next = wanted.first(&*service.events)?;
    let mut events: Vec<Vec<u8>> = Vec::new();
    for _ in 0..PARTS_MAX {
        if events.len() == limit {
            break;
        }
        let read = service.read_events(&wanted, next, &mut |event| {
            if events.len() < limit {
                events.push(event.json.clone());
                return Ok(true);
            }
            Ok(false)
        })?;
        match read {
            // It went since the page began.
            None => return Err(not_kept(next, service.events.range()?.map_or(next, |kept| kept.start))),
            Some(same) if same == next => break,
            Some(after) => next = after,
        }
    }
    let seq = service.events.newest().max(next);
    // The events as they are, byte by byte.
    let mut body = format!("{{\"seq\":{seq},\"next_from\":{next},\"events\":[").into_bytes();
    body.extend(events.join(&b","[..]));
    body.extend_from_slice(b"]}");
    Ok(Answer { seq: Some(seq), ..Answer::new(JSON, body) })
}
