//! A value that was typed in the wrong place may be a secret, and is not repeated then.

/// A connection string contains one of these, wherever it was typed.
const CONNECTION_STRING_MARKS: [&str; 3] = ["://", "@", "password="];

/// Whether a text may contain a secret. If in doubt, it does.
pub(crate) fn looks_secret(text: &str) -> bool {
    looks_like_connection_string(text) || text.to_lowercase().contains("password")
}

/// The weaker rule is for paths: many harmless ones contain the word "password".
fn looks_like_connection_string(text: &str) -> bool {
    CONNECTION_STRING_MARKS.iter().any(|mark| text.contains(mark))
}

/// A setting with its value, for a message.
pub(super) fn setting(path: &str, value: &str) -> String {
    if looks_secret(value) {
        format!("{path} (value withheld: it looks like it contains a secret)")
    } else {
        format!("{path} = {value:?}")
    }
}

/// A part of a value, for a message. No part of a secret must be shown, even if the part alone does
/// not look like a secret.
pub(super) fn part(shown: String, whole: &str) -> String {
    if looks_secret(whole) { "a part of it".to_owned() } else { shown }
}

/// What is wrong with a value, where the sentence may repeat a part of it.
pub(super) fn reason(reason: String, value: &str) -> String {
    if looks_secret(value) { "this is not what it takes".to_owned() } else { reason }
}

/// A path, for a message.
pub(super) fn path(path: &str) -> &str {
    if looks_like_connection_string(path) {
        "a file (name withheld: it looks like it contains a secret)"
    } else {
        path
    }
}
