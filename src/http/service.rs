//! The way of a request: head, body, its turn, a snapshot of the store, an answer; every step has a limit.

use super::admission::Admission;
use super::answer::{Answer, Caching};
use super::auth::Access;
use super::error::{HttpError, shortened};
use super::etag;
use super::overview::{Counted, OverviewCache};
use super::request::QueryRequest;
use super::settings::Settings;
use super::throughput::{Pace, Throughput};
use crate::document::Page;
use crate::ports::{FoundPage, InputPages, KeptEvents, Snapshot, Snapshots, SoughtPage};
use crate::query;
use crate::sketch::Sketcher;
use crate::sweep::Ranking;
use crate::wire::Limits;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use std::collections::HashMap;
use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;

/// The number of the next event of the store that an answer describes.
const SEQ: HeaderName = HeaderName::from_static("lookalike-seq");
/// How far the snapshot is behind the store, in milliseconds.
const STALENESS_MS: HeaderName = HeaderName::from_static("lookalike-staleness-ms");

/// Answers about the whole store that are kept; one more empties the cache.
const CACHED_MAX: usize = 64;

/// What an answer costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cost {
    /// Nothing that needs a turn.
    Nothing,
    /// A few look-ups, of a bounded number.
    LookUps,
    /// Look-ups for each URL that the request names, each document of a cluster, or each word of a page. They have
    /// turns of their own, so that large requests never keep small ones waiting.
    Many,
    /// A scan of the whole store: one at a time, and its answer is kept for a while.
    WholeStore,
    /// Counts that the store keeps. Where it keeps none, because an older program wrote to it last, a scan as the one above.
    Counts,
    /// Kept events: a stream of them has a place of its own, a page of them costs look-ups.
    Events,
    /// Work for the process that writes: one at a time, and only with the token.
    Change,
}

/// How a route answers from a snapshot.
pub(super) type Handler<V> = fn(&Service<V>, &<V as Snapshots>::Snapshot, &QueryRequest) -> Result<Answer, HttpError>;

/// One route: the router, the limits, the metrics and the test of the OpenAPI document all read this.
pub(super) struct Route<V: Snapshots> {
    pub method: Method,
    pub path: &'static str,
    /// The parameters after `?`.
    pub parameters: &'static [&'static str],
    pub cost: Cost,
    pub caching: Caching,
    pub answer: Handler<V>,
    /// How an error is shown.
    pub error: fn(HttpError) -> Response,
}

impl<V: Snapshots> Clone for Route<V> {
    fn clone(&self) -> Self {
        Route { method: self.method.clone(), ..*self }
    }
}

/// All that the routes share.
pub struct Service<V: Snapshots> {
    pub(super) snapshots: V,
    /// The events that the store keeps.
    pub(super) events: Box<dyn KeptEvents>,
    /// True once the server closes: streams of events end then.
    pub(super) closing: watch::Sender<bool>,
    /// Places for streams of events, and turns to read for them.
    pub(super) streams: Arc<Semaphore>,
    pub(super) turns_for_streams: Arc<Semaphore>,
    pub(super) settings: Settings,
    /// Which requests are answered.
    pub(super) admission: Admission,
    pub(super) limits: Limits,
    /// What makes one place of a lost page better than another.
    pub(super) ranking: Ranking,
    /// Where pages are looked for: one reader at a time.
    inputs: Option<Mutex<Box<dyn InputPages>>>,
    overview: OverviewCache,
    /// Idle sketchers. Each keeps more than a megabyte of tables and buffers.
    sketchers: Mutex<Vec<Sketcher>>,
    metrics: Box<dyn Fn() -> String + Send + Sync>,
    throughput: Throughput,
    turns: Arc<Semaphore>,
    turns_for_many: Arc<Semaphore>,
    turns_for_whole_store: Arc<Semaphore>,
    turns_for_change: Arc<Semaphore>,
    /// Bytes that request bodies may take.
    body_bytes: Arc<Semaphore>,
    cache: Mutex<HashMap<String, CachedAnswer>>,
}

struct CachedAnswer {
    at: Instant,
    seq: u64,
    answer: Answer,
}

/// An answer on its way out.
struct Reply {
    answer: Answer,
    seq: u64,
    etag: Option<String>,
    caching: Caching,
}

impl<V: Snapshots> Service<V> {
    /// A service that answers from `snapshots` and `events` of one store; `metrics` renders the counters of the process in Prometheus' text
    /// format.
    pub fn new(
        (snapshots, events): (V, Box<dyn KeptEvents>),
        settings: Settings,
        limits: Limits,
        ranking: Ranking,
        access: Access,
        metrics: impl Fn() -> String + Send + Sync + 'static,
    ) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let turns = if settings.requests_max == 0 { 2 * cores } else { settings.requests_max };
        Service {
            sketchers: Mutex::default(),
            admission: Admission::new(&settings, access),
            snapshots,
            events,
            closing: watch::Sender::new(false),
            streams: Arc::new(Semaphore::new(settings.streams_max.min(settings.connections_max / 2))),
            turns_for_streams: Arc::new(Semaphore::new(turns.div_ceil(2))),
            limits,
            ranking,
            inputs: None,
            overview: OverviewCache::default(),
            metrics: Box::new(metrics),
            throughput: Throughput::new(),
            turns: Arc::new(Semaphore::new(turns)),
            turns_for_many: Arc::new(Semaphore::new(turns.div_ceil(2))),
            turns_for_whole_store: Arc::new(Semaphore::new(1)),
            turns_for_change: Arc::new(Semaphore::new(1)),
            body_bytes: Arc::new(Semaphore::new((settings.request_bodies_mib_max << 20).min(Semaphore::MAX_PERMITS))),
            cache: Mutex::default(),
            settings,
        }
    }

    /// Lets it look for pages in the inputs that the store was read from.
    pub fn with_inputs(mut self, inputs: impl InputPages + 'static) -> Self {
        self.inputs = Some(Mutex::new(Box::new(inputs)));
        self
    }

    /// How many inputs of the store can be read again; none while one is read, or where they may not be.
    pub(super) fn n_inputs(&self, snapshot: &V::Snapshot) -> Result<usize, HttpError> {
        let Some(inputs) = self.inputs.as_ref().and_then(|inputs| inputs.try_lock().ok()) else { return Ok(0) };
        Ok(inputs.readable(snapshot.sources()?).len())
    }

    /// Reads the inputs for the pages sought, for as long as an answer may take.
    ///
    /// # Errors
    /// [`HttpError`] where another request reads them, where they may not be read, or where the time is up before a page is found.
    pub(super) fn pages_in_inputs(
        &self,
        snapshot: &V::Snapshot,
        sought: &[SoughtPage],
    ) -> Result<Vec<Option<FoundPage>>, HttpError> {
        let Some(inputs) = &self.inputs else {
            let message = "this server does not read inputs: http.read_inputs is false";
            return Err(HttpError::not_found(message));
        };
        let inputs = match inputs.try_lock() {
            Ok(inputs) => inputs,
            Err(TryLockError::Poisoned(inputs)) => inputs.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(HttpError::busy("another request reads the inputs; send this one again in a second"));
            }
        };
        // A little less, so that the answer is on its way in time.
        let until = Instant::now() + ms(self.settings.response_ms_max / 10 * 9);
        let mut is_page_of = |page: &Page, document| {
            self.sketch(snapshot, |sketcher| query::is_page_of(snapshot, sketcher, page, document))
        };
        let found = inputs.find(sought, inputs.readable(snapshot.sources()?), &mut is_page_of, Some(until));
        let found = found.map_err(|error| HttpError::failed(format!("cannot read the inputs: {error}")))?;
        if Instant::now() >= until && found.iter().any(Option::is_none) {
            let message = "the inputs are too large to find a page in time; `lookalike query compare --passages` takes as long as \
                           it needs";
            return Err(HttpError::busy(message));
        }
        Ok(found)
    }

    /// Sketches with the store's rule and seed. There are never more sketchers than requests answered at once.
    pub(super) fn sketch<T>(&self, snapshot: &V::Snapshot, with: impl FnOnce(&mut Sketcher) -> T) -> T {
        let idle = self.sketchers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut sketcher = idle.unwrap_or_else(|| snapshot.rule().sketcher(snapshot.seed()));
        let sketched = with(&mut sketcher);
        self.sketchers.lock().unwrap_or_else(PoisonError::into_inner).push(sketcher);
        sketched
    }

    /// The newest count of the whole store; none before the first is done.
    pub(super) fn counted(&self) -> Option<Arc<Counted>> {
        self.overview.newest(&self.snapshots, &self.ranking, self.settings.stats_cache_ms)
    }

    /// The counters of the process, as text.
    pub(super) fn metrics(&self) -> String {
        (self.metrics)()
    }

    /// How fast this process takes pages in; none where it takes none.
    pub(super) fn pace(&self) -> Option<Pace> {
        self.throughput.pace(&self.metrics())
    }

    /// Answers a request to a route, whatever happens.
    pub(super) async fn answer(self: Arc<Self>, route: Route<V>, request: Request) -> Response {
        let begin = Instant::now();
        let (path, error) = (route.path, route.error);
        let mut response = Self::try_answer(self, route, request).await.unwrap_or_else(error);
        protect(response.headers_mut());
        count(path, &response, begin);
        response
    }

    async fn try_answer(self: Arc<Self>, route: Route<V>, request: Request) -> Result<Response, HttpError> {
        let (mut head, body) = request.into_parts();
        let mut request = QueryRequest::parse(route.path, route.parameters, &head.uri, &head.headers)?;
        if route.cost == Cost::Change {
            request.read_name(&mut head).await;
        } else if route.method == Method::POST {
            (request.body, request._body_bytes) = self.read_in_time(body, &head.headers).await?;
        }
        let Parts { method, headers, .. } = head;
        request.headers = headers;
        let turn = self.turn(route.cost).await?;
        let (service, path) = (Arc::clone(&self), route.path);
        let answering = tokio::task::spawn_blocking(move || {
            // Held to the end of the work, not of the wait: work that takes too long still takes its turn.
            let _turn = turn;
            let snapshot = service.snapshots.snapshot();
            service.reply(&route, &snapshot, &request)
        });
        let Ok(replied) = timeout(ms(self.settings.response_ms_max), answering).await else {
            return Err(self.slow());
        };
        let reply = replied.map_err(|error| {
            tracing::error!("{method} {path} failed: {error}");
            HttpError::failed("the server failed to answer; its log says why")
        })??;
        Ok(self.respond(reply))
    }

    /// Answers from a snapshot, or says that the client has the answer already.
    fn reply(&self, route: &Route<V>, snapshot: &V::Snapshot, request: &QueryRequest) -> Result<Reply, HttpError> {
        let caching = route.caching;
        let not_modified = |etag: &str, seq: u64| {
            let etag = etag::matching(&request.headers, etag)?;
            let answer = Answer { status: StatusCode::NOT_MODIFIED, ..Answer::new("", Bytes::new()) };
            Some(Reply { answer, seq, etag: Some(etag), caching })
        };
        // Look-ups are a function of the moment and the question, so that a client that has them costs no look-up.
        let is_of_moment = caching == Caching::Revalidate && matches!(route.cost, Cost::LookUps | Cost::Many);
        let seq = snapshot.next_seq();
        let of_moment = is_of_moment.then(|| self.etag(snapshot, request, seq, &[]));
        if let Some(reply) = of_moment.as_deref().and_then(|etag| not_modified(etag, seq)) {
            return Ok(reply);
        }
        let is_scan = match route.cost {
            Cost::WholeStore => true,
            Cost::Counts => snapshot.kept_counts()?.is_none(),
            _ => false,
        };
        let (seq, answer) = if is_scan {
            self.cached(route, snapshot, request)?
        } else {
            let answer = (route.answer)(self, snapshot, request)?;
            (answer.seq.unwrap_or(seq), answer)
        };
        if caching == Caching::Never {
            return Ok(Reply { answer, seq, etag: None, caching });
        }
        let etag = of_moment.unwrap_or_else(|| self.etag(snapshot, request, seq, &answer.body));
        Ok(not_modified(&etag, seq).unwrap_or(Reply { answer, seq, etag: Some(etag), caching }))
    }

    /// The tag of an answer at a moment of the store, or of the bytes in it.
    fn etag(&self, snapshot: &V::Snapshot, request: &QueryRequest, seq: u64, body: &[u8]) -> String {
        let settings = serde_json::to_string(&(self.settings.rows_max, &self.ranking)).unwrap_or_default();
        let question = request.question();
        let version = env!("CARGO_PKG_VERSION");
        let parts = [version.as_bytes(), settings.as_bytes(), question.as_bytes(), &seq.to_be_bytes(), body];
        etag::tag(snapshot.seed().fingerprint("http-etag", &parts).0)
    }

    /// The error for an answer that takes too long.
    pub(super) fn slow(&self) -> HttpError {
        let limit = self.settings.response_ms_max;
        let message =
            format!("the answer takes more than http.response_ms_max = {limit} ms; ask for less, or again later");
        HttpError::new(StatusCode::GATEWAY_TIMEOUT, "slow-answer", message)
    }

    /// Waits for a turn to work, as long as the settings allow.
    async fn turn(&self, cost: Cost) -> Result<Option<OwnedSemaphorePermit>, HttpError> {
        let (turns, wait) = match cost {
            Cost::Nothing => return Ok(None),
            Cost::LookUps | Cost::Events => (&self.turns, self.settings.queue_ms_max),
            Cost::Change => (&self.turns_for_change, self.settings.queue_ms_max),
            Cost::Many | Cost::Counts => (&self.turns_for_many, self.settings.queue_ms_max),
            // The scan under way will be this request's answer, too.
            Cost::WholeStore => (&self.turns_for_whole_store, self.settings.response_ms_max),
        };
        let turn = timeout(ms(wait), Arc::clone(turns).acquire_owned()).await;
        turn.ok().and_then(Result::ok).map(Some).ok_or_else(|| {
            let message = format!("no turn within {wait} ms: http.requests_max requests run; ask again in a second");
            HttpError::busy(message)
        })
    }

    async fn read_in_time(
        &self,
        body: Body,
        headers: &HeaderMap,
    ) -> Result<(Bytes, Option<OwnedSemaphorePermit>), HttpError> {
        let limit = self.settings.request_body_ms_max;
        timeout(ms(limit), self.read(body, headers)).await.map_err(|_| {
            let message = format!("the body took more than http.request_body_ms_max = {limit} ms; send it faster");
            HttpError::new(StatusCode::REQUEST_TIMEOUT, "slow-body", message)
        })?
    }

    /// Reads a body. It takes memory as its bytes come, so that a slow sender holds no more than it has sent.
    async fn read(
        &self,
        mut body: Body,
        headers: &HeaderMap,
    ) -> Result<(Bytes, Option<OwnedSemaphorePermit>), HttpError> {
        check_encoding(headers)?;
        let limit = self.limits.body_bytes_max;
        let too_large = || {
            let message = format!("the body is larger than limits.body_bytes_max = {limit} bytes; send less");
            HttpError::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", message)
        };
        let announced = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if announced.is_some_and(|announced| announced > limit as u64) {
            return Err(too_large());
        }
        let (mut bytes, mut taken) = (Vec::new(), None::<OwnedSemaphorePermit>);
        while let Some(frame) = body.frame().await {
            let frame =
                frame.map_err(|error| HttpError::bad_request("cut-body", format!("the body was cut off: {error}")))?;
            let Ok(part) = frame.into_data() else { continue };
            if bytes.len() + part.len() > limit {
                return Err(too_large());
            }
            let more = self.acquire_body_bytes(part.len()).await?;
            match &mut taken {
                Some(taken) => taken.merge(more),
                None => taken = Some(more),
            }
            bytes.extend_from_slice(&part);
        }
        Ok((bytes.into(), taken))
    }

    async fn acquire_body_bytes(&self, n_bytes: usize) -> Result<OwnedSemaphorePermit, HttpError> {
        let n_bytes = u32::try_from(n_bytes).unwrap_or(u32::MAX);
        let acquired = Arc::clone(&self.body_bytes).acquire_many_owned(n_bytes);
        let acquired = timeout(ms(self.settings.queue_ms_max), acquired).await;
        acquired.ok().and_then(Result::ok).ok_or_else(|| {
            HttpError::busy("other bodies fill http.request_bodies_mib_max; send this one again in a second")
        })
    }

    /// An answer about the whole store and its sequence number: the last one while that is new enough.
    fn cached(
        &self,
        route: &Route<V>,
        snapshot: &V::Snapshot,
        request: &QueryRequest,
    ) -> Result<(u64, Answer), HttpError> {
        let question = request.question();
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = cache.get(&question)
            && (old.seq == snapshot.next_seq() || old.at.elapsed() < ms(self.settings.stats_cache_ms))
        {
            return Ok((old.seq, old.answer.clone()));
        }
        let answer = (route.answer)(self, snapshot, request)?;
        if cache.len() >= CACHED_MAX {
            cache.clear();
        }
        let seq = snapshot.next_seq();
        cache.insert(question, CachedAnswer { at: Instant::now(), seq, answer: answer.clone() });
        Ok((seq, answer))
    }

    fn respond(&self, reply: Reply) -> Response {
        let Reply { answer, seq, etag, caching } = reply;
        let mut response = (answer.status, Body::from(answer.body)).into_response();
        let headers = response.headers_mut();
        if answer.status != StatusCode::NOT_MODIFIED {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
        }
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching.header()));
        if let Some(etag) = etag.and_then(|etag| HeaderValue::from_str(&etag).ok()) {
            headers.insert(header::ETAG, etag);
        }
        headers.insert(SEQ, seq.into());
        headers.insert(STALENESS_MS, self.snapshots.staleness().staleness_ms.into());
        response
    }
}

/// Checks that a body is what its content type says, and not that compressed: compressed bytes would be read as a text.
fn check_encoding(headers: &HeaderMap) -> Result<(), HttpError> {
    let mut encodings = headers.get_all(header::CONTENT_ENCODING).iter().map(HeaderValue::as_bytes);
    let encoding = encodings.find(|encoding| !encoding.is_empty() && !encoding.eq_ignore_ascii_case(b"identity"));
    let Some(encoding) = encoding else { return Ok(()) };
    let encoding = shortened(&String::from_utf8_lossy(encoding));
    let message = format!("the body has content-encoding {encoding}; send it without one, as it is");
    Err(HttpError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content-encoding", message))
}

/// Limits what a browser does with any answer: the pages load their own style sheet and icon and send their own
/// forms, nothing else.
pub(super) fn protect(headers: &mut HeaderMap) {
    for (name, value) in [
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; \
             frame-ancestors 'none'",
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// Counts a response under its route, never its path: clients must not decide how many counters there are.
pub(super) fn count(route: &'static str, response: &Response, begin: Instant) {
    let status = response.status().as_str().to_string();
    metrics::counter!("lookalike_http_requests_total", "route" => route, "status" => status).increment(1);
    metrics::histogram!("lookalike_http_seconds", "route" => route).record(begin.elapsed().as_secs_f64());
}

pub(super) fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}
