//! What may break a rule, and why. One that is no longer needed fails its test.

pub(crate) struct Exception {
    /// A file, or a folder with everything in it.
    pub(crate) path: &'static str,
    /// What the rule found there.
    pub(crate) what: &'static str,
    pub(crate) reason: &'static str,
}

const fn exception(path: &'static str, what: &'static str, reason: &'static str) -> Exception {
    Exception { path, what, reason }
}

/// A file that is too long, or a function.
pub(crate) const SIZES: &[Exception] = &[];

/// A word in a sentence where it is right.
pub(crate) const WORDS: &[Exception] = &[exception(
    "crates/core/src/delivery.rs",
    "\"behind\"",
    "the label of a reason, which is stored in databases",
)];

/// Code that names Kafka or its client.
pub(crate) const KAFKA: &[Exception] = &[
    exception("src/sink/kafka", "", "the sink itself"),
    exception("src/config", "", "its options"),
    exception("src/cli", "", "the program publishes to Kafka"),
];

/// Removes what is excepted from the findings of a rule, and fails if any is left, or an exception unused.
pub(crate) fn check(rule: &str, findings: Vec<(String, String)>, exceptions: &[Exception]) {
    let covers = |exception: &Exception, (place, what): &(String, String)| {
        let path = place.split(':').next().unwrap();
        let is_there = path == exception.path || path.starts_with(&format!("{}/", exception.path));
        is_there && what.contains(exception.what)
    };
    let unused: Vec<_> = exceptions
        .iter()
        .filter(|exception| !findings.iter().any(|finding| covers(exception, finding)))
        .map(|exception| format!("{}: {}: {}", exception.path, exception.what, exception.reason))
        .collect();
    let left: Vec<_> = findings
        .iter()
        .filter(|finding| !exceptions.iter().any(|exception| covers(exception, finding)))
        .map(|(place, what)| format!("{place}: {what}"))
        .collect();
    assert!(left.is_empty(), "{rule} ({}):\n{}", left.len(), left.join("\n"));
    assert!(unused.is_empty(), "exceptions that nothing needs:\n{}", unused.join("\n"));
}
