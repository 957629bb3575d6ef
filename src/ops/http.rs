//! `/livez`, `/readyz`, `/status`, `/metrics`, and a page for people.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse};
use axum::routing::get;
use axum::{Json, Router};
use bytes::Bytes;
use tokio::sync::oneshot;

use super::Overview;
use super::serve::serve;

/// The address can't be listened on.
#[derive(Debug, thiserror::Error)]
#[error("can't listen on {address}")]
pub(crate) struct HttpError {
    /// The address.
    pub address: SocketAddr,
    /// The system's reason.
    #[source]
    pub source: std::io::Error,
}

/// The server; it stops when this is dropped. It has its own thread: whatever its clients do, they
/// take no time from the thread that publishes.
pub(crate) struct HttpServer {
    address: SocketAddr,
    /// Dropped to end the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl HttpServer {
    /// Listens and serves until dropped.
    pub(crate) fn start(address: SocketAddr, overview: Arc<Overview>) -> Result<Self, HttpError> {
        let failed = |source| HttpError { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let router = Router::new()
            .route("/", get(page))
            .route("/livez", get(|| async { "alive\n" }))
            .route("/readyz", get(readyz))
            .route("/status", get(status))
            .route("/metrics", get(metrics))
            .with_state(overview);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let (stop, stopped) = oneshot::channel();
        let serving = move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = serve(listener, router) => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("http".to_owned()).spawn(serving);
        Ok(HttpServer { address, stop: Some(stop), thread: Some(thread.map_err(failed)?) })
    }

    /// Where it listens; the port is the system's choice if 0 was asked for.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It ends immediately, and a panic there has been reported.
            let _ = thread.join();
        }
    }
}

async fn readyz(State(overview): State<Arc<Overview>>) -> (StatusCode, String) {
    let (ready, text) = overview.readiness();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, format!("{text}\n"))
}

async fn status(State(overview): State<Arc<Overview>>) -> Json<serde_json::Value> {
    Json(overview.status())
}

async fn metrics(State(overview): State<Arc<Overview>>) -> impl IntoResponse {
    match overview.metrics() {
        Ok(text) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            (StatusCode::OK, [(header::CONTENT_TYPE, kind)], text)
        }
        Err(error) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            [(header::CONTENT_TYPE, "text/plain")],
            Bytes::from(format!("can't encode the metrics: {error}\n")),
        ),
    }
}

async fn page(State(overview): State<Arc<Overview>>) -> Html<String> {
    Html(overview.page())
}
