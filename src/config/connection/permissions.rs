//! Whether others can read a file of secrets: libpq's rules
//! (<https://www.postgresql.org/docs/current/libpq-pgpass.html>,
//! <https://www.postgresql.org/docs/current/libpq-ssl.html>).

use std::os::unix::fs::MetadataExt;
use std::path::Path;

const GROUP_OR_OTHERS: u32 = 0o077;
/// The group may read a file that root owns: that is how systems share keys.
const WRITABLE_OR_OTHERS: u32 = 0o037;

/// What is wrong with a password file, if anything.
pub(super) fn password_file_problem(path: &Path) -> Option<&'static str> {
    let mode = std::fs::metadata(path).ok()?.mode();
    (mode & GROUP_OR_OTHERS != 0).then_some("can be read by others; run chmod 0600 on it")
}

/// What is wrong with a private key's file, if anything.
pub(super) fn key_file_problem(path: &Path) -> Option<&'static str> {
    let file = std::fs::metadata(path).ok()?;
    let refused = if file.uid() == 0 { WRITABLE_OR_OTHERS } else { GROUP_OR_OTHERS };
    (file.mode() & refused != 0)
        .then_some("can be read by others; run chmod 0600 on it (or 0640 if root owns it)")
}
