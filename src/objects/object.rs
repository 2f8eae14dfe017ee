//! Objects that are there.

use super::connections::{connections, locked};
use super::location::Location;
use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::path::Path as Key;
use object_store::{Error as StoreError, GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// An object that is there.
#[derive(Clone, Debug)]
pub struct Object {
    store: Arc<dyn ObjectStore>,
    meta: ObjectMeta,
}

impl Object {
    /// Finds an object. What was said of it before is said again.
    ///
    /// # Errors
    /// Where there is none, or the store refuses or does not answer.
    pub fn find(url: &str) -> io::Result<Self> {
        let connections = connections()?;
        let location = Location::of(url)?;
        let store = connections.store(&location)?;
        if let Some(meta) = locked(&connections.known).get(url) {
            return Ok(Object { store, meta: meta.clone() });
        }
        let (key, asked) = (location.key()?, Arc::clone(&store));
        if key.as_ref().is_empty() {
            // The bucket itself, which some stores have an answer for.
            return Err(io::Error::new(io::ErrorKind::NotFound, "no such object"));
        }
        let meta = connections.wait(async move { asked.head(&key).await })?;
        locked(&connections.known).insert(url.to_string(), meta.clone());
        Ok(Object { store, meta })
    }

    #[cfg(test)]
    pub(super) fn of(store: Arc<dyn ObjectStore>, meta: ObjectMeta) -> Self {
        Object { store, meta }
    }

    /// Its size.
    pub fn n_bytes(&self) -> u64 {
        self.meta.size
    }

    /// When it was last changed, in microseconds since 1970.
    pub fn changed_at(&self) -> i64 {
        self.meta.last_modified.timestamp_micros()
    }

    /// Begins to read a range. Fails where the object is not the one that was found.
    pub(super) fn begin_read(&self, range: Range<u64>) -> io::Result<Receiver<io::Result<Bytes>>> {
        let (store, meta) = (Arc::clone(&self.store), self.meta.clone());
        let options = GetOptions { if_match: meta.e_tag.clone(), range: Some(range.into()), ..GetOptions::default() };
        let request = async move {
            let got = store.get_opts(&meta.location, options).await?;
            // A list may come without tags.
            let is_other_tag =
                meta.e_tag.as_ref().zip(got.meta.e_tag.as_ref()).is_some_and(|(known, now)| known != now);
            if got.meta.size != meta.size || is_other_tag {
                let (path, source) = (meta.location.to_string(), "another size or tag".into());
                return Err(StoreError::Precondition { path, source });
            }
            got.bytes().await
        };
        Ok(connections()?.begin(request))
    }
}

/// The URLs of the objects below one, as of a folder, without hidden ones, in the order of their names.
///
/// # Errors
/// Where the store refuses or does not answer.
pub fn below(url: &str) -> io::Result<Vec<String>> {
    let connections = connections()?;
    let location = Location::of(url)?;
    if location.is_web() {
        let what = "a web server does not say what a folder holds; name the files";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let (store, prefix) = (connections.store(&location)?, location.key()?);
    let n_prefix = prefix.parts().count();
    let listed: Vec<ObjectMeta> = connections.wait(async move { store.list(Some(&prefix)).try_collect().await })?;
    let is_shown = |key: &Key| key.parts().skip(n_prefix).all(|part| !part.as_ref().starts_with('.'));
    let mut urls = Vec::new();
    for meta in listed {
        // Stores mark folders by empty objects.
        if meta.size > 0 && is_shown(&meta.location) {
            let url = format!("{}/{}", location.root, meta.location);
            locked(&connections.known).insert(url.clone(), meta);
            urls.push(url);
        }
    }
    // As a folder is walked: by the parts of the names.
    urls.sort_by(|one, two| one.split('/').cmp(two.split('/')));
    Ok(urls)
}
