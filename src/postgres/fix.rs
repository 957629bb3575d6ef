//! What an operator has to do about a server that does not accept us.

use tokio_postgres::error::SqlState;

const PASSWORD: &str = "set the right user and password in postgres.url, PGUSER and PGPASSWORD";
const CLIENT_CERTIFICATE: &str = "name a certificate that the server trusts, and its key, in \
    sslcert and sslkey (PGSSLCERT, PGSSLKEY)";

/// The wording of tokio-postgres, and ours.
pub(super) const NO_TLS: &str = "does not support TLS";

pub(crate) const CHANNEL_BINDING: &str = "set sslmode=require or better, and require scram-sha-256 \
    for this role in the server's pg_hba.conf; or set channel_binding=prefer";

/// What to do; `None` if the error may be temporary. Unknown errors may be.
pub(super) fn connect_fix(error: &tokio_postgres::Error, reason: &str) -> Option<&'static str> {
    let code = error.code();
    if code == Some(&SqlState::INVALID_CATALOG_NAME) {
        return Some("create the database, or name an existing one in postgres.url");
    }
    if code == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
        return Some("grant the role CONNECT on the database");
    }
    if code == Some(&SqlState::UNDEFINED_OBJECT) && reason.contains("configuration parameter") {
        return Some(
            "use a server that postrider supports (Postgres 14 or newer), and only settings that \
             it has in options (PGOPTIONS)",
        );
    }
    if reason.contains("startup parameter") {
        return Some("name the server itself in postgres.url, not a pooler in front of it");
    }
    let about_certificate = ["valid client certificate", "certificate authentication failed"];
    if about_certificate.iter().any(|words| reason.contains(words)) {
        return Some(CLIENT_CERTIFICATE);
    }
    if reason.contains("pg_hba.conf") && reason.contains("no encryption") {
        return Some(
            "set sslmode=require or better in postgres.url, or allow this host, role and database \
             without TLS in the server's pg_hba.conf",
        );
    }
    if reason.contains("pg_hba.conf") {
        return Some("allow this host, role and database in the server's pg_hba.conf");
    }
    if code.is_some_and(|code| code.code().starts_with("28")) {
        return Some(PASSWORD);
    }
    if code.is_some() {
        return None;
    }
    if reason.contains("channel binding") {
        return Some(CHANNEL_BINDING);
    }
    // The rest has no code, only text: see tokio_postgres::Error's Display.
    let local = reason.starts_with("invalid configuration");
    let authentication = reason.starts_with("authentication error");
    if local || authentication {
        return Some(PASSWORD);
    }
    tls_fix(reason)
}

/// By OpenSSL's wording, which is that of X509_verify_cert_error_string(3) and of TLS alerts.
pub(crate) fn tls_fix(reason: &str) -> Option<&'static str> {
    let has = |words: &[&str]| words.iter().any(|word| reason.contains(word));
    if has(&[NO_TLS]) {
        return Some(
            "turn TLS on at the server (ssl = on), or set sslmode=prefer in postgres.url if you \
             trust the network",
        );
    }
    if has(&["has expired", "not yet valid"]) {
        return Some("renew the server's certificate, or correct this machine's clock");
    }
    if has(&["hostname mismatch", "IP address mismatch"]) {
        return Some(
            "connect to a host name listed in the server's certificate, or add this one to it",
        );
    }
    if has(&["certificate verify failed", "certificate is refused"]) {
        return Some(
            "name the authority that signed the server's certificate in sslrootcert (PGSSLROOTCERT)",
        );
    }
    // The server's alerts about our certificate, or about the lack of one.
    if has(&["alert unknown ca", "alert bad certificate", "alert certificate", "decrypt error"]) {
        return Some(CLIENT_CERTIFICATE);
    }
    None
}
