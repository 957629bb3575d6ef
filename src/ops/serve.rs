//! HTTP connections: few, and none for long.
//!
//! axum's own `serve` accepts every connection and waits without a limit for its requests: idle
//! ones would use up the file descriptors that the relay needs to connect again.

use std::collections::VecDeque;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Connections at the same time. One more closes the oldest: a new probe is answered, however many
/// idle connections there are.
const CONNECTIONS_MAX: usize = 64;
/// How long a request may take to arrive, and how long a connection may stay idle.
const REQUEST_WITHIN: Duration = Duration::from_secs(10);
/// How long to wait when the system has no more file descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(500);

/// Serves until it is dropped.
pub(super) async fn serve(listener: std::net::TcpListener, router: Router) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the HTTP server can't listen"),
    };
    let mut open: VecDeque<JoinHandle<()>> = VecDeque::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "can't accept an HTTP connection");
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        open.retain(|connection| !connection.is_finished());
        if open.len() >= CONNECTIONS_MAX
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
            // Only once this has returned is it closed.
            let _ = oldest.await;
        }
        open.push_back(tokio::spawn(connection(stream, router.clone())));
    }
}

async fn connection(stream: TcpStream, router: Router) {
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_WITHIN)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    if let Err(error) = serving.await {
        tracing::trace!(%error, "an HTTP connection ended");
    }
}
