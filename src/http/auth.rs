//! What changes the store is asked of the one who writes it, and only by whoever has the token.

use super::error::HttpError;
use super::request::QueryRequest;
use super::service::{Answer, Service, ms};
use super::v1::json_of;
use crate::ports::{CloseFailure, SecretReference, Snapshots, SweepCloser};
use axum::http::{HeaderMap, StatusCode, header};

/// The fewest bytes of a token: what is shorter can be guessed.
const TOKEN_BYTES_MIN: usize = 16;

/// Why there is no token. Never tells what was read.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It says nowhere to look.
    #[error("http.token must be file:PATH or env:NAME: a secret does not belong in the configuration itself")]
    Bare,
    /// Nothing can be read there.
    #[error("http.token is to be read from {from}: {why}")]
    Unreadable {
        /// Where.
        from: String,
        /// Why not.
        why: String,
    },
    /// It cannot be a token.
    #[error("what http.token names, {0}, must be {TOKEN_BYTES_MIN} or more letters, digits and signs without blanks")]
    Weak(String),
}

/// What those must show who change something.
pub struct Token(Vec<u8>);

impl Token {
    /// Reads it from where the configuration says; none where it says nothing.
    ///
    /// # Errors
    /// [`TokenError`]
    pub fn read(from: &str) -> Result<Option<Self>, TokenError> {
        if from.is_empty() {
            return Ok(None);
        }
        let reference = SecretReference::parse(from).ok_or(TokenError::Bare)?;
        let text = reference.read().map_err(|why| TokenError::Unreadable { from: from.into(), why })?;
        let token = text.as_bytes();
        if token.len() < TOKEN_BYTES_MIN || !token.iter().all(u8::is_ascii_graphic) {
            return Err(TokenError::Weak(from.into()));
        }
        Ok(Some(Token(token.to_vec())))
    }

    /// Whether a request shows it. How long that takes does not tell how much of a wrong one is right.
    fn is_shown(&self, headers: &HeaderMap) -> bool {
        let shown = headers.get(header::AUTHORIZATION).map_or(&[][..], |value| value.as_bytes());
        let Some((scheme, shown)) = shown.split_at_checked(BEARER.len()) else { return false };
        let differences = self.0.iter().zip(shown).fold(0, |all, (a, b)| all | (a ^ b));
        scheme.eq_ignore_ascii_case(BEARER) && shown.len() == self.0.len() && std::hint::black_box(differences) == 0
    }
}

const BEARER: &[u8] = b"bearer ";

/// Who may change the store through this door.
pub enum WriteAccess {
    /// Nobody: this process only reads.
    Elsewhere,
    /// Nobody: there is no token.
    Nobody,
    /// Whoever has the token; this closes sweeps.
    Trusted(Token, Box<dyn SweepCloser>),
}

impl WriteAccess {
    /// The way to the writer, for a request that may take it.
    ///
    /// # Errors
    /// [`HttpError`], with what to do.
    pub(super) fn admit(&self, headers: &HeaderMap) -> Result<&dyn SweepCloser, HttpError> {
        let forbidden = |error, message| Err(HttpError::new(StatusCode::FORBIDDEN, error, message));
        match self {
            WriteAccess::Elsewhere => forbidden(
                "read-only",
                "this process only reads the store; ask the `lookalike run --http` that writes it, or, while none does, \
                 run `lookalike sweep close NAME`",
            ),
            WriteAccess::Nobody => forbidden(
                "no-token",
                "nobody may change the store through HTTP: set http.token to file:PATH or env:NAME and start again, or, \
                 while nothing writes, run `lookalike sweep close NAME`",
            ),
            WriteAccess::Trusted(token, _) if !token.is_shown(headers) => {
                let message = "show the token that http.token names: `authorization: Bearer TOKEN`";
                Err(HttpError::new(StatusCode::UNAUTHORIZED, "token", message))
            }
            WriteAccess::Trusted(_, closer) => Ok(&**closer),
        }
    }
}

/// Closes a sweep: the same as `lookalike sweep close`.
pub(super) fn close_sweep<V: Snapshots>(
    house: &Service<V>,
    _: &V::Snapshot,
    asked: &QueryRequest,
) -> Result<Answer, HttpError> {
    let name = asked.in_path()?;
    // A little less than the answer may take, so that it is told what goes on.
    let patience = ms(house.settings.response_ms_max) * 9 / 10;
    let closed = house.changes.admit(&asked.headers)?.close(name, patience);
    let (closed, seq) = closed.map_err(|why| match why {
        CloseFailure::Unknown => {
            let name: String = name.chars().take(256).collect();
            HttpError::unknown(format!("there is no sweep {name:?}; /v1/sweeps tells those there are"))
        }
        CloseFailure::Busy => HttpError::busy("too many sweeps wait to be closed; ask again in a second"),
        CloseFailure::Late => HttpError::new(
            StatusCode::GATEWAY_TIMEOUT,
            "slow-answer",
            "the sweep is being closed, which takes a while; /v1/sweeps tells when it is, and how many URLs are lost",
        ),
        CloseFailure::Ended => HttpError::busy(
            "the stream has ended, and may have closed only a part; `lookalike sweep close NAME`, or this asked of the \
             next `lookalike run --http`, goes on with it",
        ),
    })?;
    json_of(seq, closed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use std::io::Write;

    fn read(text: &str) -> Result<Option<Token>, TokenError> {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(text.as_bytes()).expect("written");
        Token::read(&format!("file:{}", file.path().display()))
    }

    #[test]
    fn where_a_token_comes_from() {
        assert!(matches!(Token::read(""), Ok(None)));
        assert!(matches!(Token::read("secret-secret-secret"), Err(TokenError::Bare)));
        for (from, text) in [("file:/no/such/file", "/no/such/file"), ("env:LOOKALIKE_NO_SUCH", "LOOKALIKE_NO_SUCH")] {
            let error = Token::read(from).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(text), "{error}");
        }
        for weak in ["", "too-short", "has a blank in it, too", "sixteen\n-or-more\n"] {
            let error = read(weak).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains("16 or more") && (weak.is_empty() || !error.contains(weak)), "{error}");
        }
        assert!(read("sixteen-or-more-\r\n").is_ok_and(|token| token.is_some_and(|token| token.0.len() == 16)));
    }

    #[test]
    fn only_the_whole_token_opens() {
        let token = read("0123456789abcdef").expect("read").expect("a token");
        let is_shown = |value: &str| {
            token.is_shown(&HeaderMap::from_iter([(
                header::AUTHORIZATION,
                HeaderValue::from_str(value).expect("a value"),
            )]))
        };
        assert!(is_shown("Bearer 0123456789abcdef") && is_shown("bearer 0123456789abcdef"));
        for wrong in ["", "Bearer", "Bearer ", "0123456789abcdef", "Basic 0123456789abcdef", "Bearer 0123456789abcde"] {
            assert!(!is_shown(wrong), "{wrong}");
        }
        assert!(!is_shown("Bearer 0123456789abcdef0") && !is_shown("Bearer 0123456789abcdeF"));
        assert!(!token.is_shown(&HeaderMap::new()));
    }
}
