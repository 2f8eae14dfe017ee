//! The connections of this process, kept for the next request.

use super::location::{Location, io_error_of};
use object_store::{Error as StoreError, ObjectMeta, ObjectStore};
use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::runtime::Runtime;

/// Threads that wait for stores.
const N_THREADS: usize = 2;

/// The connections of this process, and what it knows of objects.
pub(super) struct Connections {
    runtime: Runtime,
    stores: Mutex<HashMap<String, Arc<dyn ObjectStore>>>,
    /// What was said of objects when they were listed or first opened. A later read of another state fails.
    pub known: Mutex<HashMap<String, ObjectMeta>>,
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn connections() -> io::Result<&'static Connections> {
    static CONNECTIONS: OnceLock<Result<Connections, String>> = OnceLock::new();
    let connections = CONNECTIONS.get_or_init(|| {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(N_THREADS).thread_name("objects").enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        Ok(Connections { runtime, stores: Mutex::default(), known: Mutex::default() })
    });
    connections.as_ref().map_err(|error| io::Error::other(error.clone()))
}

impl Connections {
    pub fn store(&self, location: &Location) -> io::Result<Arc<dyn ObjectStore>> {
        let mut stores = locked(&self.stores);
        if let Some(store) = stores.get(&location.root) {
            return Ok(Arc::clone(store));
        }
        let store = location.connect()?;
        stores.insert(location.root.clone(), Arc::clone(&store));
        Ok(store)
    }

    /// Begins a request. Its result comes through a channel, so that any thread may wait for it.
    pub fn begin<T: Send + 'static>(
        &self,
        request: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Receiver<io::Result<T>> {
        let (sender, receiver) = sync_channel(1);
        self.runtime.spawn(async move {
            // This fails if the caller has stopped waiting.
            let _ = sender.send(request.await.map_err(|error| io_error_of(&error)));
        });
        receiver
    }

    pub fn wait<T: Send + 'static>(
        &self,
        request: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> io::Result<T> {
        received(&self.begin(request))
    }
}

/// Waits for the result of a request that [`Connections::begin`] has started.
pub(super) fn received<T>(receiver: &Receiver<io::Result<T>>) -> io::Result<T> {
    receiver.recv().unwrap_or_else(|_| Err(io::Error::other("the request has died")))
}
