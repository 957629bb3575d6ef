//! The log, on stderr: stdout is for a command's output.

use std::io::{IsTerminal, stderr};

use crate::config::{LogConfig, LogFormat};
use tracing_subscriber::EnvFilter;

pub(crate) fn start(config: &LogConfig) {
    let filter = EnvFilter::new(&config.filter);
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr);
    match config.format {
        LogFormat::Text => log.with_ansi(stderr().is_terminal()).init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}
