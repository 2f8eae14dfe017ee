//! The tokens that a request must show: one to read, where one is configured, and one to change the store.

use super::error::{HttpError, READ_TOKEN};
use crate::ports::{SecretReference, SweepCloser};
use axum::http::{HeaderMap, StatusCode, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The fewest bytes of a token: a shorter one can be guessed.
const TOKEN_BYTES_MIN: usize = 16;

/// What anybody may ask who reaches the server, however often: whether it works, and what holds nothing of the store.
const OPEN_PATHS: &[&str] = &["/healthz", "/readyz", "/style.css", "/favicon.svg"];

/// Whether anybody may ask for a path.
pub(super) fn is_open_path(path: &str) -> bool {
    OPEN_PATHS.contains(&path)
}

/// Why there is no token. A message never holds what was read.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The setting names no place.
    #[error("{0} must be file:PATH or env:NAME; a secret does not belong in the configuration itself")]
    Bare(&'static str),
    /// The place cannot be read.
    #[error("cannot read {setting} from {from}: {why}")]
    Unreadable {
        /// The setting.
        setting: &'static str,
        /// The place.
        from: String,
        /// The system's reason.
        why: String,
    },
    /// The place holds no token.
    #[error("{setting}: {from} must hold {TOKEN_BYTES_MIN} or more letters, digits and signs, without blanks")]
    Weak {
        /// The setting.
        setting: &'static str,
        /// The place.
        from: String,
    },
    /// Who may read could change the store, too.
    #[error("http.read_token and http.token hold the same secret; make another one for those who only read")]
    Same,
}

/// A secret that a request must show.
#[derive(PartialEq, Eq)]
pub struct Token(Vec<u8>);

impl Token {
    /// Reads a token from the place that a setting, such as `http.token`, names; none where the setting is empty.
    ///
    /// # Errors
    /// [`TokenError`]
    pub fn read(setting: &'static str, from: &str) -> Result<Option<Self>, TokenError> {
        if from.is_empty() {
            return Ok(None);
        }
        let reference = Self::place(setting, from)?;
        let text = reference.read().map_err(|why| TokenError::Unreadable { setting, from: from.into(), why })?;
        let token = text.as_bytes();
        if token.len() < TOKEN_BYTES_MIN || !token.iter().all(u8::is_ascii_graphic) {
            return Err(TokenError::Weak { setting, from: from.into() });
        }
        Ok(Some(Token(token.to_vec())))
    }

    /// The place that a setting names. Reads nothing.
    ///
    /// # Errors
    /// [`TokenError::Bare`]
    pub fn place(setting: &'static str, from: &str) -> Result<SecretReference, TokenError> {
        SecretReference::parse(from).ok_or(TokenError::Bare(setting))
    }

    /// Whether a request shows the token as `Bearer`.
    fn is_shown(&self, headers: &HeaderMap) -> bool {
        shown(headers, BEARER).is_some_and(|shown| self.equals(shown))
    }

    /// Whether a request shows the token as the password of any user, as browsers do.
    fn is_password(&self, headers: &HeaderMap) -> bool {
        let pair = shown(headers, BASIC).and_then(|shown| STANDARD.decode(shown).ok());
        pair.is_some_and(|pair| {
            let password = pair.iter().position(|byte| *byte == b':').map(|at| &pair[at + 1..]);
            password.is_some_and(|password| self.equals(password))
        })
    }

    /// Compares in constant time.
    fn equals(&self, shown: &[u8]) -> bool {
        let differences = self.0.iter().zip(shown).fold(0, |all, (a, b)| all | (a ^ b));
        shown.len() == self.0.len() && std::hint::black_box(differences) == 0
    }
}

const BEARER: &[u8] = b"bearer ";
const BASIC: &[u8] = b"basic ";

/// What a request shows by a scheme.
fn shown<'a>(headers: &'a HeaderMap, scheme: &[u8]) -> Option<&'a [u8]> {
    let (found, shown) = headers.get(header::AUTHORIZATION)?.as_bytes().split_at_checked(scheme.len())?;
    found.eq_ignore_ascii_case(scheme).then_some(shown)
}

/// Whom a request comes from, by the token that it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It shows no token.
    None,
    /// It shows what is no token that this process knows.
    Unknown,
    Reader,
    Operator,
}

impl Role {
    /// The word that stands for it in audit lines. It does not change.
    pub fn word(self) -> &'static str {
        match self {
            Role::None => "none",
            Role::Unknown => "unknown",
            Role::Reader => "reader",
            Role::Operator => "operator",
        }
    }
}

/// Who may ask the server, and who may change the store through it.
pub struct Access {
    /// What a request must show to read; none: anybody who reaches the server may.
    read: Option<Token>,
    write: WriteAccess,
}

impl Access {
    /// Reads the token to read from the place that `http.read_token` names.
    ///
    /// # Errors
    /// [`TokenError`]
    pub fn new(read_token: &str, write: WriteAccess) -> Result<Self, TokenError> {
        let read = Token::read("http.read_token", read_token)?;
        match (&read, &write) {
            (Some(read), WriteAccess::Trusted(token, _) | WriteAccess::Elsewhere(Some(token))) if read == token => {
                Err(TokenError::Same)
            }
            _ => Ok(Access { read, write }),
        }
    }

    /// Whether anybody who reaches the server may read.
    pub fn is_open(&self) -> bool {
        self.read.is_none()
    }

    /// Whom a request comes from.
    pub(super) fn role(&self, headers: &HeaderMap) -> Role {
        let shows = |token: &Token| token.is_shown(headers) || token.is_password(headers);
        match &self.write {
            WriteAccess::Trusted(token, _) | WriteAccess::Elsewhere(Some(token)) if shows(token) => Role::Operator,
            _ if self.read.as_ref().is_some_and(shows) => Role::Reader,
            _ if headers.contains_key(header::AUTHORIZATION) => Role::Unknown,
            _ => Role::None,
        }
    }

    /// Checks that a request may read what is at a path.
    ///
    /// # Errors
    /// [`HttpError`] 401, where it shows neither token.
    pub(super) fn check_read(&self, path: &str, headers: &HeaderMap) -> Result<(), HttpError> {
        if self.is_open() || is_open_path(path) || matches!(self.role(headers), Role::Reader | Role::Operator) {
            return Ok(());
        }
        let message = "reading needs the token that http.read_token names: `authorization: Bearer TOKEN`; a browser asks for it \
                       as the password of any user";
        Err(HttpError::new(StatusCode::UNAUTHORIZED, READ_TOKEN, message))
    }

    /// The closer of sweeps, for a request that may use it. Only `Bearer` counts, which no browser sends by itself.
    ///
    /// # Errors
    /// [`HttpError`]: 401 where the request shows no token, or not the right one; 403 where no token would help, or the
    /// token is that of a reader.
    pub(super) fn authorize(&self, headers: &HeaderMap) -> Result<&dyn SweepCloser, HttpError> {
        let only_reads = matches!(self.write, WriteAccess::Elsewhere(_));
        if !only_reads && self.read.as_ref().is_some_and(|read| read.is_shown(headers)) {
            let message = "this token reads; closing a sweep needs the one that http.token names";
            return Err(HttpError::new(StatusCode::FORBIDDEN, "read-only", message));
        }
        self.write.authorize(headers)
    }
}

/// Which requests may change the store through this server.
pub enum WriteAccess {
    /// None: this process only reads. Who shows the token that closes sweeps elsewhere may read, too.
    Elsewhere(Option<Token>),
    /// None: no token is configured.
    Disabled,
    /// Those that show the token; the closer closes sweeps.
    Trusted(Token, Box<dyn SweepCloser>),
}

impl WriteAccess {
    fn authorize(&self, headers: &HeaderMap) -> Result<&dyn SweepCloser, HttpError> {
        let unauthorized = |message| Err(HttpError::new(StatusCode::UNAUTHORIZED, "token", message));
        let forbidden = |error, message| Err(HttpError::new(StatusCode::FORBIDDEN, error, message));
        match self {
            WriteAccess::Elsewhere(_) => forbidden(
                "read-only",
                "this process only reads the store; send the request to the `lookalike run --http-listen` that writes \
                 it, or run `lookalike sweep close NAME` while none does",
            ),
            WriteAccess::Disabled => forbidden(
                "no-token",
                "no token is configured; set http.token to file:PATH or env:NAME and restart, or run \
                 `lookalike sweep close NAME` while nothing writes the store",
            ),
            WriteAccess::Trusted(..) if !headers.contains_key(header::AUTHORIZATION) => {
                unauthorized("closing a sweep needs the token that http.token names: `authorization: Bearer TOKEN`")
            }
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
        Token::read("http.token", &format!("file:{}", file.path().display()))
    }

    #[test]
    fn where_a_token_comes_from() {
        assert!(matches!(Token::read("http.token", ""), Ok(None)));
        assert!(matches!(Token::read("http.token", "secret-secret-secret"), Err(TokenError::Bare(_))));
        for (from, text) in [("file:/no/such/file", "/no/such/file"), ("env:LOOKALIKE_NO_SUCH", "LOOKALIKE_NO_SUCH")] {
            let error = Token::read("http.token", from).err().map(|error| error.to_string()).unwrap_or_default();
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

    #[test]
    fn a_browser_shows_the_token_to_read_and_may_change_nothing() {
        let (read_token, token) = ("0123456789abcdef-read", "0123456789abcdef-change");
        let file = |text: &str| {
            let mut file = tempfile::NamedTempFile::new().expect("a file");
            file.write_all(text.as_bytes()).expect("written");
            file
        };
        struct NoSweeps;
        impl SweepCloser for NoSweeps {
            fn close(
                &self,
                _: &str,
                _: crate::ports::ClosingPart,
                _: std::time::Duration,
            ) -> Result<(crate::ports::ClosedSweep, u64), crate::ports::CloseFailure> {
                Err(crate::ports::CloseFailure::Ended)
            }
        }
        let access = |read: &str| {
            let (read, change) = (file(read), read_token_of(token));
            Access::new(&format!("file:{}", read.path().display()), WriteAccess::Trusted(change, Box::new(NoSweeps)))
        };
        fn read_token_of(token: &str) -> Token {
            Token(token.as_bytes().to_vec())
        }
        assert!(matches!(access(token), Err(TokenError::Same)));
        let access = access(read_token).expect("two tokens");
        let headers = |value: String| {
            HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_str(&value).expect("a value"))])
        };
        let basic = |password: &str| headers(format!("Basic {}", STANDARD.encode(format!("anna:{password}"))));
        let bearer = |token: &str| headers(format!("Bearer {token}"));
        // Lost once: what `serve` shows, to operators. Only `run` knew their token.
        let place = file(read_token);
        let elsewhere = |token: &str| {
            Access::new(&format!("file:{}", place.path().display()), WriteAccess::Elsewhere(Some(read_token_of(token))))
        };
        assert!(matches!(elsewhere(read_token), Err(TokenError::Same)));
        let serving = elsewhere(token).expect("two tokens");
        for headers in [token, read_token].map(bearer) {
            assert!(serving.check_read("/", &headers).is_ok() && serving.authorize(&headers).is_err());
        }
        let may = |headers: &HeaderMap| (access.check_read("/", headers).is_ok(), access.authorize(headers).is_ok());
        assert_eq!(may(&HeaderMap::new()), (false, false));
        assert_eq!(may(&bearer("0123456789abcdef-wrong")), (false, false));
        assert_eq!(may(&basic("0123456789abcdef-wrong")), (false, false));
        assert_eq!(may(&bearer(read_token)), (true, false));
        assert_eq!(may(&basic(read_token)), (true, false));
        assert_eq!(may(&basic(token)), (true, false));
        assert_eq!(may(&bearer(token)), (true, true));
        for path in OPEN_PATHS {
            assert!(access.check_read(path, &HeaderMap::new()).is_ok(), "{path}");
        }
    }
}
