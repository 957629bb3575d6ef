//! The folders for downloads, the same as in `scripts/setup`.

use std::path::PathBuf;

/// The user's cache, not the clone's, so that a second clone downloads nothing.
pub fn cache_folder() -> PathBuf {
    let cache = match std::env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache"),
    };
    cache.join("postrider")
}

/// For files that a server's user must be able to read: Postgres does not run as root, and the user
/// that it runs as instead can't read root's home.
pub fn readable_cache_folder() -> PathBuf {
    if rustix::process::getuid().is_root() {
        PathBuf::from("/var/cache/postrider")
    } else {
        cache_folder()
    }
}
