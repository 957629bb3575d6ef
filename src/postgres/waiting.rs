//! Work that others can delay.

use std::time::Duration;

/// How long a wait may last before it is logged.
const SILENCE_MAX: Duration = Duration::from_secs(3);

/// Awaits something that others can delay, and logs what is being waited for if they do.
pub(crate) async fn log_while_waiting<T>(work: impl Future<Output = T>, why: &str) -> T {
    tokio::pin!(work);
    tokio::select! {
        done = &mut work => return done,
        () = tokio::time::sleep(SILENCE_MAX) => tracing::warn!("{why}"),
    }
    work.await
}
