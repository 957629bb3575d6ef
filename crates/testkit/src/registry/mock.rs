//! A registry inside this process. It has what Apicurio lacks: GUIDs, protobuf schemas in serialized
//! form, a login, and trouble when a test asks for it.

mod routes;
mod store;

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use tokio::sync::{oneshot, watch};

use self::store::Store;
use super::{Login, Registry};

/// What requests meet.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Mode {
    Serve,
    Hold,
    Answer(u16, String),
}

struct Shared {
    store: Mutex<Store>,
    login: Option<Login>,
    mode: watch::Sender<Mode>,
    requests: Mutex<Vec<String>>,
}

impl Shared {
    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap()
    }
}

pub struct MockRegistry {
    registry: Registry,
    shared: Arc<Shared>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MockRegistry {
    pub fn start() -> MockRegistry {
        MockRegistry::start_with(None)
    }

    /// It refuses everybody else.
    pub fn start_for(login: Login) -> MockRegistry {
        MockRegistry::start_with(Some(login))
    }

    fn start_with(login: Option<Login>) -> MockRegistry {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)));
        let listener = listener.expect("the mock registry cannot listen");
        listener.set_nonblocking(true).expect("cannot listen without blocking");
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            store: Mutex::default(),
            login: login.clone(),
            mode: watch::Sender::new(Mode::Serve),
            requests: Mutex::default(),
        });
        let (end, ended) = oneshot::channel();
        let routes = routes::routes(Arc::clone(&shared));
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
            runtime.expect("cannot create a runtime").block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                // The runtime ends connections that are still open.
                tokio::select! {
                    _ = ended => {}
                    served = axum::serve(listener, routes) => served.unwrap(),
                }
            });
        });
        let registry = Registry { address, root: "", login };
        MockRegistry { registry, shared, end: Some(end), thread: Some(thread) }
    }

    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Answers every request with this from now on.
    pub fn answer(&self, status: u16, body: &str) {
        self.shared.mode.send_replace(Mode::Answer(status, body.to_owned()));
    }

    /// Takes requests, and answers none until it is changed again.
    pub fn hold(&self) {
        self.shared.mode.send_replace(Mode::Hold);
    }

    /// Works again, also on requests that it has held.
    pub fn recover(&self) {
        self.shared.mode.send_replace(Mode::Serve);
    }

    /// All requests so far, in the form `GET /schemas/ids/1?format=serialized`.
    pub fn requests(&self) -> Vec<String> {
        self.shared.requests.lock().unwrap().clone()
    }
}

impl Drop for MockRegistry {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            let _ = end.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
