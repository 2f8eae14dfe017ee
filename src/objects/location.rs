//! URLs, and the stores that they lead to.

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::path::Path as Key;
use object_store::{ClientOptions, Error as StoreError, ObjectStore, RetryConfig};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How often a request is repeated, and for how long, before it has failed.
const RETRIES_MAX: usize = 8;
const RETRY_TIME_MAX: Duration = Duration::from_secs(60);

/// A URL, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Location {
    scheme: String,
    /// `scheme://bucket` or `scheme://host:port`.
    pub root: String,
    /// What follows, without its first slash.
    rest: String,
}

impl Location {
    pub fn of(url: &str) -> io::Result<Self> {
        let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what.to_string());
        let (scheme, after) = url.split_once("://").ok_or_else(|| wrong("it is no URL"))?;
        let (host, rest) = after.split_once('/').unwrap_or((after, ""));
        if host.is_empty() {
            return Err(wrong("the URL names no bucket or host"));
        }
        Ok(Location { scheme: scheme.to_ascii_lowercase(), root: format!("{scheme}://{host}"), rest: rest.into() })
    }

    pub fn is_web(&self) -> bool {
        matches!(self.scheme.as_str(), "http" | "https")
    }

    /// The key of the object. On the web it is written with percent signs, in a store as it is.
    pub fn key(&self) -> io::Result<Key> {
        let wrong = |error: object_store::path::Error| io::Error::new(io::ErrorKind::InvalidInput, error);
        if !self.is_web() {
            return Key::parse(&self.rest).map_err(wrong);
        }
        if self.rest.contains(['?', '#']) {
            let what = "a URL with a query cannot be read in parts; fetch the file, and give its path";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        Key::from_url_path(&self.rest).map_err(wrong)
    }

    pub fn connect(&self) -> io::Result<Arc<dyn ObjectStore>> {
        let retry = RetryConfig { max_retries: RETRIES_MAX, retry_timeout: RETRY_TIME_MAX, ..RetryConfig::default() };
        let root = &self.root;
        let store: Result<Arc<dyn ObjectStore>, StoreError> = match self.scheme.as_str() {
            "s3" | "s3a" => AmazonS3Builder::from_env().with_url(root).with_retry(retry).build().map(shared),
            "gs" => GoogleCloudStorageBuilder::from_env().with_url(root).with_retry(retry).build().map(shared),
            "az" | "abfs" | "abfss" => {
                MicrosoftAzureBuilder::from_env().with_url(root).with_retry(retry).build().map(shared)
            }
            "http" | "https" => {
                // A page is slow to come from a far archive; the retries have their own limit.
                let client = ClientOptions::new().with_allow_http(true).with_timeout(Duration::from_secs(120));
                HttpBuilder::new().with_url(root).with_client_options(client).with_retry(retry).build().map(shared)
            }
            other => {
                let what = format!("{other}:// is not known; there are s3, gs, az, https, http and file");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
            }
        };
        store.map_err(|error| io_error_of(&error))
    }
}

fn shared(store: impl ObjectStore) -> Arc<dyn ObjectStore> {
    Arc::new(store)
}

/// The error of a store in one line, with what to do about it.
pub(super) fn io_error_of(error: &StoreError) -> io::Error {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    let (kind, what) = match error {
        StoreError::NotFound { .. } => (io::ErrorKind::NotFound, "no such object".into()),
        StoreError::Precondition { .. } => (io::ErrorKind::Other, "the object has changed since it was opened".into()),
        StoreError::NotSupported { .. } => (
            io::ErrorKind::Unsupported,
            "the server does not hand out parts of files; fetch the file, and give its path".into(),
        ),
        StoreError::Unauthenticated { .. } | StoreError::PermissionDenied { .. } => (
            io::ErrorKind::PermissionDenied,
            "the store refuses access; set its credentials in the environment, or AWS_SKIP_SIGNATURE=true for a public \
             bucket of S3"
                .into(),
        ),
        // Where this machine would have its credentials from, if it were the store's own.
        _ if text.contains("169.254.169.254") => (
            io::ErrorKind::PermissionDenied,
            "there are no credentials for the store; set them in the environment, such as AWS_ACCESS_KEY_ID and \
             AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true for a public bucket"
                .into(),
        ),
        _ => (io::ErrorKind::Other, line.to_string()),
    };
    io::Error::new(kind, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let key = |url: &str| Location::of(url).and_then(|location| location.key()).map(|key| key.to_string());
        assert_eq!(key("s3://bucket/a/b c%20.gz").expect("a key"), "a/b c%20.gz");
        assert_eq!(key("https://host:81/a/b%20c.gz").expect("a key"), "a/b c.gz");
        assert_eq!(Location::of("S3://bucket").expect("a place").scheme, "s3");
        for (url, part) in [
            ("s3:///a", "names no bucket"),
            ("https://host/a?b=c", "with a query"),
            ("s3://bucket/a//b", "empty"),
            ("no url", "no URL"),
        ] {
            let error = key(url).expect_err(url).to_string();
            assert!(error.to_lowercase().contains(&part.to_lowercase()), "{url}: {error}");
        }
        let error =
            Location::of("ftp://host/a").and_then(|location| location.connect()).expect_err("unknown").to_string();
        assert!(error.contains("ftp:// is not known"), "{error}");
    }
}
