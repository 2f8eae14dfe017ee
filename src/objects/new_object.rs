//! Objects that are written.

use super::connections::connections;
use super::location::Location;
use object_store::{ObjectStoreExt, PutPayload};
use std::fs::File;
use std::io::{self, Read, Seek, Write};

/// Bytes that are uploaded at once.
const PART_BYTES: usize = 8 << 20;

/// An object on its way out. It is there once it is whole, and replaces what was there.
#[derive(Debug)]
pub struct NewObject {
    url: String,
    /// Without a name: gone when the process ends, however it ends.
    file: File,
}

impl NewObject {
    /// Begins an object. Its bytes are kept in a temporary file.
    ///
    /// # Errors
    /// Where the URL is none that can be written, or the file cannot be created.
    pub fn create(url: &str) -> io::Result<Self> {
        let location = Location::of(url)?;
        location.key()?;
        connections()?.store(&location)?;
        let path = std::env::temp_dir().join(format!("lookalike-{}.upload", std::process::id()));
        let file = File::options().read(true).write(true).create_new(true).open(&path)?;
        std::fs::remove_file(&path)?;
        Ok(NewObject { url: url.into(), file })
    }

    /// Uploads the bytes.
    ///
    /// # Errors
    /// Where the store refuses, or does not answer.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.rewind()?;
        let connections = connections()?;
        let location = Location::of(&self.url)?;
        let (store, key) = (connections.store(&location)?, location.key()?);
        let mut part = self.next_part()?;
        if part.len() < PART_BYTES {
            return connections.wait(async move { store.put(&key, part.into()).await.map(drop) });
        }
        let mut upload = connections.wait(async move { store.put_multipart(&key).await })?;
        while !part.is_empty() {
            let sent = upload.put_part(PutPayload::from(part));
            connections.wait(sent)?;
            part = self.next_part()?;
        }
        connections.wait(async move { upload.complete().await.map(drop) })
    }

    fn next_part(&mut self) -> io::Result<Vec<u8>> {
        let mut part = Vec::with_capacity(PART_BYTES);
        (&mut self.file).take(PART_BYTES as u64).read_to_end(&mut part)?;
        Ok(part)
    }
}

impl Write for NewObject {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
