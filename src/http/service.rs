//! The way of a request: head, body, its turn, a view of the store, an answer; every step with a limit.

use super::auth::WriteAccess;
use super::error::HttpError;
use super::hosts::Hosts;
use super::request::QueryRequest;
use super::settings::Settings;
use crate::ports::{Snapshot, Snapshots};
use crate::sketch::Sketcher;
use crate::sweep::Ranking;
use crate::wire::Limits;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use std::collections::HashMap;
use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// The number of the next event of the store that an answer is of.
const SEQ: HeaderName = HeaderName::from_static("lookalike-seq");
/// How far that store's view is behind, in milliseconds.
const STALENESS_MS: HeaderName = HeaderName::from_static("lookalike-staleness-ms");

/// Answers to whole-store questions that are kept to be told again.
const KEPT_MAX: usize = 64;

/// What a route answers with.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub status: StatusCode,
    pub content_type: &'static str,
    pub body: Bytes,
    /// The number of the next event of the store that it is of; none: of the view.
    pub seq: Option<u64>,
}

/// What it costs to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cost {
    /// Nothing that needs a turn.
    Nothing,
    /// A few look-ups, of a number that has a bound.
    LookUps,
    /// Look-ups as many as the question names URLs or a cluster has documents. They have turns of their own, so that
    /// whoever asks for much keeps nobody from asking for little.
    Many,
    /// A walk through the whole store: one at a time, and its answer is kept for a while.
    WholeStore,
    /// Somebody else's work, who writes: for those who may, one at a time.
    Change,
}

/// How a route answers: from a view, which can only be read.
pub(super) type Handler<V> = fn(&Service<V>, &<V as Snapshots>::Snapshot, &QueryRequest) -> Result<Answer, HttpError>;

/// One route: the router, the limits, the metrics and the test of the OpenAPI document all read this.
pub(super) struct Route<V: Snapshots> {
    pub method: Method,
    pub path: &'static str,
    /// The parameters after `?`.
    pub parameters: &'static [&'static str],
    pub cost: Cost,
    pub answer: Handler<V>,
    /// How it tells what it does not answer.
    pub refuse: fn(HttpError) -> Response,
}

impl<V: Snapshots> Clone for Route<V> {
    fn clone(&self) -> Self {
        Route { method: self.method.clone(), ..*self }
    }
}

/// All that the routes share.
pub struct Service<V: Snapshots> {
    pub(super) snapshots: V,
    pub(super) settings: Settings,
    /// The names that it answers to.
    pub(super) hosts: Hosts,
    pub(super) limits: Limits,
    /// What makes one place of a lost page better than another.
    pub(super) ranking: Ranking,
    /// Who may change something.
    pub(super) changes: WriteAccess,
    /// Those that no question has in hand. Each keeps its tables and buffers, of more than a megabyte.
    sketchers: Mutex<Vec<Sketcher>>,
    metrics: Box<dyn Fn() -> String + Send + Sync>,
    turns: Arc<Semaphore>,
    turns_for_many: Arc<Semaphore>,
    walks: Arc<Semaphore>,
    turns_to_change: Arc<Semaphore>,
    /// Bytes that bodies may take.
    room: Arc<Semaphore>,
    kept: Mutex<HashMap<String, CachedAnswer>>,
}

struct CachedAnswer {
    at: Instant,
    seq: u64,
    answer: Answer,
}

impl<V: Snapshots> Service<V> {
    /// A house that answers from `snapshots`; `metrics` renders what the process has counted, in Prometheus' text form.
    pub fn new(
        snapshots: V,
        settings: Settings,
        limits: Limits,
        ranking: Ranking,
        changes: WriteAccess,
        metrics: impl Fn() -> String + Send + Sync + 'static,
    ) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let turns = if settings.requests_max == 0 { 2 * cores } else { settings.requests_max };
        Service {
            sketchers: Mutex::default(),
            hosts: Hosts::new(&settings.hosts),
            snapshots,
            limits,
            ranking,
            changes,
            metrics: Box::new(metrics),
            turns: Arc::new(Semaphore::new(turns)),
            turns_for_many: Arc::new(Semaphore::new(turns.div_ceil(2))),
            walks: Arc::new(Semaphore::new(1)),
            turns_to_change: Arc::new(Semaphore::new(1)),
            room: Arc::new(Semaphore::new((settings.request_bodies_mib_max << 20).min(Semaphore::MAX_PERMITS))),
            kept: Mutex::default(),
            settings,
        }
    }

    /// Sketches with the store's rule and seed. No more sketchers are made than questions are answered at once.
    pub(super) fn sketch<T>(&self, view: &V::Snapshot, with: impl FnOnce(&mut Sketcher) -> T) -> T {
        let free = self.sketchers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut sketcher = free.unwrap_or_else(|| Sketcher::new(&view.rule().sketch, view.seed()));
        let sketched = with(&mut sketcher);
        self.sketchers.lock().unwrap_or_else(PoisonError::into_inner).push(sketcher);
        sketched
    }

    /// What the process has counted.
    pub(super) fn metrics(&self) -> String {
        (self.metrics)()
    }

    /// Answers a request to a route, whatever happens.
    pub(super) async fn answer(self: Arc<Self>, route: Route<V>, request: Request) -> Response {
        let begin = Instant::now();
        let (path, refuse) = (route.path, route.refuse);
        let mut response = Self::try_answer(self, route, request).await.unwrap_or_else(refuse);
        protect(response.headers_mut());
        count(path, &response, begin);
        response
    }

    async fn try_answer(self: Arc<Self>, route: Route<V>, request: Request) -> Result<Response, HttpError> {
        let (mut head, body) = request.into_parts();
        let mut asked = QueryRequest::parse(route.path, route.parameters, &head.uri, &head.headers)?;
        if route.cost == Cost::Change {
            // Before anything is taken in of those who may not.
            self.hosts.admit_origin(&head.headers)?;
            self.changes.admit(&head.headers)?;
            asked.read_name(&mut head).await;
            asked.headers = std::mem::take(&mut head.headers);
        } else if route.method == Method::POST {
            let reading = timeout(ms(self.settings.request_body_ms_max), self.read(body, &head.headers));
            (asked.body, asked._room) = reading.await.map_err(|_| {
                let message = format!(
                    "the body took more than http.request_body_ms_max = {} ms",
                    self.settings.request_body_ms_max
                );
                HttpError::new(StatusCode::REQUEST_TIMEOUT, "slow-body", message)
            })??;
        }
        let turn = self.turn(route.cost).await?;
        let (house, path) = (Arc::clone(&self), route.path);
        let answering = tokio::task::spawn_blocking(move || {
            // OffsetRange to the end of the work, not of the wait for it: what takes too long still takes its turn.
            let _turn = turn;
            let view = house.snapshots.snapshot();
            match route.cost {
                Cost::WholeStore => house.keep(&route, &view, &asked),
                Cost::Nothing | Cost::LookUps | Cost::Many | Cost::Change => {
                    let answer = (route.answer)(&house, &view, &asked)?;
                    Ok((answer.seq.unwrap_or(view.next_seq()), answer))
                }
            }
        });
        let Ok(answered) = timeout(ms(self.settings.response_ms_max), answering).await else {
            return Err(self.slow());
        };
        let (seq, answer) = answered.map_err(|error| {
            tracing::error!("{} {path} failed: {error}", head.method);
            HttpError::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "the question failed here; the log says why")
        })??;
        Ok(self.respond(answer, seq))
    }

    /// What is told of an answer that takes too long.
    pub(super) fn slow(&self) -> HttpError {
        let most = self.settings.response_ms_max;
        let message =
            format!("the answer takes more than http.response_ms_max = {most} ms; ask for less, or again later");
        HttpError::new(StatusCode::GATEWAY_TIMEOUT, "slow-answer", message)
    }

    /// A turn to work, waited for no longer than is allowed.
    async fn turn(&self, cost: Cost) -> Result<Option<OwnedSemaphorePermit>, HttpError> {
        let (turns, wait) = match cost {
            Cost::Nothing => return Ok(None),
            Cost::LookUps => (&self.turns, self.settings.queue_ms_max),
            Cost::Change => (&self.turns_to_change, self.settings.queue_ms_max),
            Cost::Many => (&self.turns_for_many, self.settings.queue_ms_max),
            // Another one is counting already, and its answer will be ours, too.
            Cost::WholeStore => (&self.walks, self.settings.response_ms_max),
        };
        let turn = timeout(ms(wait), Arc::clone(turns).acquire_owned()).await;
        turn.ok().and_then(Result::ok).map(Some).ok_or_else(|| {
            HttpError::busy(format!("no turn within {wait} ms: all http.requests_max are taken; ask again in a second"))
        })
    }

    /// Reads a body. Its bytes take their room as they come, so that a slow sender holds no more than it has sent.
    async fn read(
        &self,
        mut body: Body,
        headers: &HeaderMap,
    ) -> Result<(Bytes, Option<OwnedSemaphorePermit>), HttpError> {
        let most = self.limits.body_bytes_max;
        let too_large = || {
            let message = format!("the body is over limits.body_bytes_max = {most} bytes; send less");
            HttpError::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", message)
        };
        let told = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if told.is_some_and(|told| told > most as u64) {
            return Err(too_large());
        }
        let (mut bytes, mut room) = (Vec::new(), None::<OwnedSemaphorePermit>);
        while let Some(frame) = body.frame().await {
            let frame =
                frame.map_err(|error| HttpError::wrong("cut-body", format!("the body was cut off: {error}")))?;
            let Ok(part) = frame.into_data() else { continue };
            if bytes.len() + part.len() > most {
                return Err(too_large());
            }
            let more = self.more_room(part.len()).await?;
            match &mut room {
                Some(room) => room.merge(more),
                None => room = Some(more),
            }
            bytes.extend_from_slice(&part);
        }
        Ok((bytes.into(), room))
    }

    async fn more_room(&self, n_bytes: usize) -> Result<OwnedSemaphorePermit, HttpError> {
        let n_bytes = u32::try_from(n_bytes).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).acquire_many_owned(n_bytes);
        let room = timeout(ms(self.settings.queue_ms_max), room).await;
        room.ok().and_then(Result::ok).ok_or_else(|| {
            HttpError::busy("other bodies take all of http.request_bodies_mib_max; send this one again in a second")
        })
    }

    /// The answer of a whole-store question and its sequence: what was last given while that is new enough, else anew.
    fn keep(&self, route: &Route<V>, view: &V::Snapshot, asked: &QueryRequest) -> Result<(u64, Answer), HttpError> {
        let question = asked.question();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = kept.get(&question)
            && (old.seq == view.next_seq() || old.at.elapsed() < ms(self.settings.stats_cache_ms))
        {
            return Ok((old.seq, old.answer.clone()));
        }
        let answer = (route.answer)(self, view, asked)?;
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        let seq = view.next_seq();
        kept.insert(question, CachedAnswer { at: Instant::now(), seq, answer: answer.clone() });
        Ok((seq, answer))
    }

    fn respond(&self, answer: Answer, seq: u64) -> Response {
        let mut response = (answer.status, Body::from(answer.body)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(SEQ, seq.into());
        headers.insert(STALENESS_MS, self.snapshots.staleness().staleness_ms.into());
        response
    }
}

/// What a browser may do with any answer: the pages load their own style sheet and send their own forms, nothing else.
pub(super) fn protect(headers: &mut HeaderMap) {
    for (name, value) in [
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// Counts a response, under its route and not its path: whoever asks must not decide how many counters there are.
pub(super) fn count(route: &'static str, response: &Response, begin: Instant) {
    let status = response.status().as_str().to_string();
    metrics::counter!("lookalike_http_requests_total", "route" => route, "status" => status).increment(1);
    metrics::histogram!("lookalike_http_seconds", "route" => route).record(begin.elapsed().as_secs_f64());
}

pub(super) fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}
