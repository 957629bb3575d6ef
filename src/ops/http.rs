//! `/livez`, `/readyz`, `/status`, `/metrics`, and a page for people.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse};
use axum::routing::get;
use axum::{Json, Router};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::Vitals;

/// The address can't be listened on.
#[derive(Debug, thiserror::Error)]
#[error("can't listen on {address}")]
pub struct HttpError {
    /// The address.
    pub address: SocketAddr,
    /// The system's reason.
    #[source]
    pub source: std::io::Error,
}

/// The server; it ends with this value.
pub struct HttpServer {
    task: JoinHandle<()>,
}

#[derive(Clone)]
struct Shared {
    vitals: Arc<Vitals>,
    registry: Arc<Registry>,
}

impl HttpServer {
    /// Listens and serves until dropped.
    pub async fn start(
        address: SocketAddr,
        vitals: Arc<Vitals>,
        registry: Registry,
    ) -> Result<Self, HttpError> {
        let listener =
            TcpListener::bind(address).await.map_err(|source| HttpError { address, source })?;
        let shared = Shared { vitals, registry: Arc::new(registry) };
        let router = Router::new()
            .route("/", get(page))
            .route("/livez", get(|| async { "alive\n" }))
            .route("/readyz", get(readyz))
            .route("/status", get(status))
            .route("/metrics", get(metrics))
            .with_state(shared);
        let task = tokio::spawn(async move {
            // `serve` only ends with the listener; errors of single connections are its own affair.
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!(%error, "the HTTP server ended");
            }
        });
        Ok(HttpServer { task })
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.task.abort();
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
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &shared.registry) {
        Ok(()) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            (StatusCode::OK, [(header::CONTENT_TYPE, kind)], text)
        }
        Err(error) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            [(header::CONTENT_TYPE, "text/plain")],
            format!("can't encode the metrics: {error}\n"),
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
