//! `/livez`, `/readyz`, `/status`, `/metrics`, and a page for people.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse};
use axum::routing::get;
use axum::{Json, Router};
use bytes::Bytes;
use prometheus_client::registry::Registry;
use tokio::sync::oneshot;

use super::Vitals;
use super::encoded::Encoded;
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

/// The server; it ends with this value. It has a thread of its own: whatever its clients do, they don't
/// take the time of the thread that publishes.
pub(crate) struct HttpServer {
    /// Dropped to end the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Clone)]
struct Shared {
    vitals: Arc<Vitals>,
    metrics: Arc<Encoded>,
}

impl HttpServer {
    /// Listens and serves until dropped.
    pub(crate) fn start(
        address: SocketAddr,
        vitals: Arc<Vitals>,
        registry: Registry,
    ) -> Result<Self, HttpError> {
        let failed = |source| HttpError { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let shared = Shared { vitals, metrics: Arc::new(Encoded::new(registry)) };
        let router = Router::new()
            .route("/", get(page))
            .route("/livez", get(|| async { "alive\n" }))
            .route("/readyz", get(readyz))
            .route("/status", get(status))
            .route("/metrics", get(metrics))
            .with_state(shared);
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
        Ok(HttpServer { stop: Some(stop), thread: Some(thread.map_err(failed)?) })
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It ends at once, and a panic there has been told.
            let _ = thread.join();
        }
    }
}

async fn readyz(State(shared): State<Shared>) -> (StatusCode, String) {
    let (ready, text) = shared.vitals.readiness();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, format!("{text}\n"))
}

async fn status(State(shared): State<Shared>) -> Json<serde_json::Value> {
    Json(shared.vitals.to_json())
}

async fn metrics(State(shared): State<Shared>) -> impl IntoResponse {
    match shared.metrics.text() {
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

async fn page(State(shared): State<Shared>) -> Html<String> {
    let rows: String = match shared.vitals.to_json() {
        serde_json::Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                format!("<tr><th>{}</th><td>{}</td></tr>", escape(name), escape(&value))
            })
            .collect(),
        _ => String::new(),
    };
    Html(format!(
        "<!doctype html><meta charset=utf-8><title>postrider</title>\
         <style>body{{font:16px sans-serif;margin:2em}}th{{text-align:left;padding-right:2em}}</style>\
         <h1>postrider</h1><table>{rows}</table>\
         <p><a href=/status>status</a> · <a href=/metrics>metrics</a> · <a href=/readyz>ready?</a>"
    ))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
