//! The token that a request must show to change the store.

use super::error::HttpError;
use crate::ports::{SecretReference, SweepCloser};
use axum::http::{HeaderMap, StatusCode, header};

/// The fewest bytes of a token: a shorter one can be guessed.
const TOKEN_BYTES_MIN: usize = 16;

/// Why there is no token. A message never holds what was read.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The setting names no place.
    #[error("http.token must be file:PATH or env:NAME; a secret does not belong in the configuration itself")]
    Bare,
    /// The place cannot be read.
    #[error("cannot read http.token from {from}: {why}")]
    Unreadable {
        /// The place.
        from: String,
        /// The system's reason.
        why: String,
    },
    /// The place holds no token.
    #[error("http.token: {0} must hold {TOKEN_BYTES_MIN} or more letters, digits and signs, without blanks")]
    Weak(String),
}

/// The secret that a request must show to change the store.
pub struct Token(Vec<u8>);

impl Token {
    /// Reads the token from the place that `http.token` names; none where the setting is empty.
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

    /// Whether a request shows the token, in constant time.
    fn is_shown(&self, headers: &HeaderMap) -> bool {
        let shown = headers.get(header::AUTHORIZATION).map_or(&[][..], |value| value.as_bytes());
        let Some((scheme, shown)) = shown.split_at_checked(BEARER.len()) else { return false };
        let differences = self.0.iter().zip(shown).fold(0, |all, (a, b)| all | (a ^ b));
        scheme.eq_ignore_ascii_case(BEARER) && shown.len() == self.0.len() && std::hint::black_box(differences) == 0
    }
}

const BEARER: &[u8] = b"bearer ";

/// Which requests may change the store through this server.
pub enum WriteAccess {
    /// None: this process only reads.
    Elsewhere,
    /// None: no token is configured.
    Disabled,
    /// Those that show the token; the closer closes sweeps.
    Trusted(Token, Box<dyn SweepCloser>),
}

impl WriteAccess {
    /// The closer of sweeps, for a request that may use it.
    ///
    /// # Errors
    /// [`HttpError`]: 401 where the request shows no token, or not the right one; 403 where no token would help.
    pub(super) fn authorize(&self, headers: &HeaderMap) -> Result<&dyn SweepCloser, HttpError> {
        let unauthorized = |message| Err(HttpError::new(StatusCode::UNAUTHORIZED, "token", message));
        let forbidden = |error, message| Err(HttpError::new(StatusCode::FORBIDDEN, error, message));
        match self {
            _ if !headers.contains_key(header::AUTHORIZATION) => {
                unauthorized("closing a sweep needs the token that http.token names: `authorization: Bearer TOKEN`")
            }
            WriteAccess::Elsewhere => forbidden(
                "read-only",
                "this process only reads the store; send the request to the `lookalike run --http-listen` that writes \
                 it, or run `lookalike sweep close NAME` while none does",
            ),
            WriteAccess::Disabled => forbidden(
                "no-token",
                "no token is configured; set http.token to file:PATH or env:NAME and restart, or run \
                 `lookalike sweep close NAME` while nothing writes the store",
            ),
            WriteAccess::Trusted(token, _) if !token.is_shown(headers) => {
                unauthorized("the token is wrong; send the one that http.token names: `authorization: Bearer TOKEN`")
            }
            WriteAccess::Trusted(_, closer) => Ok(&**closer),
        }
    }
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
