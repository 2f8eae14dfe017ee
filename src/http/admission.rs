//! Which requests are answered: by the name that they use for this server, how often their client asks, and the token that
//! they show.

use super::auth::{Access, Role, is_open_path};
use super::client::{Peer, TrustedProxies, network_of};
use super::error::HttpError;
use super::hosts::Hosts;
use super::rate_limit::RateLimit;
use super::settings::Settings;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

/// A client that was idle may ask at once what its rate allows in so many seconds.
const BURST_SECONDS: u32 = 10;

/// Refusals that a client gets before it must wait, and the time between further ones: ten a minute.
const REFUSALS_MAX: u32 = 10;
const REFUSAL_INTERVAL: Duration = Duration::from_secs(6);

/// What admits requests.
pub(super) struct Admission {
    /// The names that the server answers to.
    hosts: Hosts,
    /// Who may read, and who may change the store.
    pub access: Access,
    proxies: TrustedProxies,
    per_second_max: u32,
    /// How often a client may ask; none: as often as it likes.
    requests: Option<RateLimit>,
    /// How often a client may show a wrong token, or ask for a change that it may not have.
    refusals: RateLimit,
}

impl Admission {
    pub fn new(settings: &Settings, access: Access) -> Self {
        let per_second_max = settings.requests_per_second_max;
        let requests = (per_second_max > 0).then(|| {
            RateLimit::new(Duration::from_secs(1) / per_second_max, per_second_max.saturating_mul(BURST_SECONDS))
        });
        Admission {
            hosts: Hosts::new(&settings.hosts),
            access,
            proxies: TrustedProxies::new(&settings.trusted_proxies),
            per_second_max,
            requests,
            refusals: RateLimit::new(REFUSAL_INTERVAL, REFUSALS_MAX),
        }
    }

    /// The address that a request comes from, as trusted proxies tell it.
    pub fn client(&self, request: &Request) -> IpAddr {
        let peer = request.extensions().get().map_or(Ipv4Addr::UNSPECIFIED.into(), |Peer(address)| *address);
        self.proxies.client(peer, request.headers())
    }

    /// Checks that a request may be answered, before any byte of its body is read.
    ///
    /// # Errors
    /// [`HttpError`]: 401, 403, 421 or 429, with what to do.
    pub fn check(&self, request: &Request, is_change: bool) -> Result<(), HttpError> {
        if is_open_path(request.uri().path()) {
            return self.hosts.check(request.uri(), request.headers());
        }
        let (client, now) = (network_of(self.client(request)), Instant::now());
        self.requests.as_ref().map_or(Ok(()), |requests| requests.take(client, now)).map_err(|wait| {
            let n = self.per_second_max;
            limited("rate", wait, &format!("more than http.requests_per_second_max = {n} requests a second"))
        })?;
        let shows_token = request.headers().contains_key(header::AUTHORIZATION);
        // A right token waits, too: otherwise a guess that is refused for being too early would be known to be wrong.
        if is_change || (shows_token && !self.access.is_open()) {
            let too_many = |wait| limited("refusals", wait, "too many requests from this address were refused");
            self.refusals.check(client, now).map_err(too_many)?;
        }
        let checked = self.check_name_and_token(request, is_change);
        if let Err(error) = &checked {
            let is_guess = shows_token
                && error.status == StatusCode::UNAUTHORIZED
                && self.access.role(request.headers()) == Role::Unknown;
            if is_guess {
                metrics::counter!("lookalike_http_tokens_rejected_total").increment(1);
            }
            if is_change || is_guess {
                // One that comes together with others may be refused beyond the limit; the next one waits for it.
                let _ = self.refusals.take(client, now);
            }
        }
        checked
    }

    fn check_name_and_token(&self, request: &Request, is_change: bool) -> Result<(), HttpError> {
        let headers = request.headers();
        self.hosts.check(request.uri(), headers)?;
        self.access.check_read(request.uri().path(), headers)?;
        if is_change {
            self.hosts.check_origin(headers)?;
            self.access.authorize(headers)?;
        }
        Ok(())
    }
}

fn limited(reason: &'static str, wait: Duration, problem: &str) -> HttpError {
    metrics::counter!("lookalike_http_requests_limited_total", "reason" => reason).increment(1);
    let seconds = wait.as_secs() + 1;
    HttpError::limited(seconds, format!("{problem}; ask again in {seconds} s"))
}
