//! The connection to Postgres.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::import::connector::Connector;
use crate::import::draft::Draft;
use crate::import::finding::Kind;
use crate::import::setting::{Setting, Value};

/// What needs no escape anywhere in a URL.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The default of both sides.
const SSLMODE: &str = "prefer";

/// The parts of a URL that are known, and where they were written.
#[derive(Default)]
struct Parts {
    places: Vec<String>,
}

impl Parts {
    /// A part as it stands in a URL; nothing if it is elsewhere, or not set.
    fn take(
        &mut self,
        connector: &mut Connector,
        option: &str,
        variable: &str,
        draft: &mut Draft,
    ) -> String {
        let Some(setting) = connector.take(option) else { return String::new() };
        match &setting.value {
            Value::Text(text) => {
                self.places.push(setting.place());
                escaped(text.trim())
            }
            Value::Elsewhere(reference) => {
                let meaning = format!(
                    "the file has only a reference, {reference}: set {variable}, or write the value \
                     into postgres.url"
                );
                draft.find(Kind::FillIn, &setting.place(), &meaning);
                String::new()
            }
        }
    }
}

pub(super) fn write(connector: &mut Connector, draft: &mut Draft) {
    let has_host = connector.options.contains_key("database.hostname");
    let mut parts = Parts::default();
    let user = parts.take(connector, "database.user", "PGUSER", draft);
    let host = parts.take(connector, "database.hostname", "PGHOST", draft);
    let port = parts.take(connector, "database.port", "PGPORT", draft);
    let database = parts.take(connector, "database.dbname", "PGDATABASE", draft);
    let query = tls(connector, &mut parts, draft);
    if !has_host {
        let meaning = "it is not set: set PGHOST, or write the host into postgres.url";
        draft.find(Kind::FillIn, "database.hostname", meaning);
    }
    password(connector, draft);
    let mut url = "postgres://".to_owned();
    if !user.is_empty() {
        url.extend([user.as_str(), "@"]);
    }
    url.push_str(&of_host(&host));
    if !port.is_empty() {
        url.extend([":", &port]);
    }
    url.extend(["/", &database]);
    if !query.is_empty() {
        url.extend(["?", &query.join("&")]);
    }
    let why = match parts.places.as_slice() {
        [] => "libpq's variables fill it in".to_owned(),
        places => format!("from {}", places.join("; ")),
    };
    draft.set("url", url, &why);
}

fn escaped(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

/// An IPv6 address is in brackets.
fn of_host(host: &str) -> String {
    let plain = host.replace("%3A", ":").replace("%5B", "").replace("%5D", "");
    if plain.contains(':') { format!("[{plain}]") } else { host.to_owned() }
}

fn password(connector: &mut Connector, draft: &mut Draft) {
    let Some(password) = connector.take("database.password") else { return };
    let place = password.place();
    draft.comment(&format!(
        "The password ({place}) is not copied: set PGPASSWORD, or name a file that has this URL with \
         the password in POSTRIDER_DATABASE_URL_FILE."
    ));
    let meaning = "passwords are not copied: set PGPASSWORD, or use POSTRIDER_DATABASE_URL_FILE";
    draft.find(Kind::FillIn, &place, meaning);
}

/// The URL's options for TLS.
fn tls(connector: &mut Connector, parts: &mut Parts, draft: &mut Draft) -> Vec<String> {
    let mut query = Vec::new();
    let mode = connector.options.get("database.sslmode").and_then(Setting::text);
    let is_allow = mode.is_some_and(|mode| mode.trim() == "allow");
    if is_allow && let Some(mode) = connector.take("database.sslmode") {
        let meaning = "postrider has no such mode; it prefers TLS (sslmode=prefer)";
        draft.find(Kind::Operators, &mode.place(), meaning);
    }
    if connector.options.get("database.sslmode").is_some_and(|mode| mode.is(SSLMODE)) {
        connector.take("database.sslmode");
    }
    key(connector, draft);
    for (option, name, variable) in [
        ("database.sslmode", "sslmode", "PGSSLMODE"),
        ("database.sslrootcert", "sslrootcert", "PGSSLROOTCERT"),
        ("database.sslcert", "sslcert", "PGSSLCERT"),
        ("database.sslkey", "sslkey", "PGSSLKEY"),
    ] {
        let value = parts.take(connector, option, variable, draft);
        if !value.is_empty() {
            query.push(format!("{name}={}", value.replace("%2F", "/")));
        }
    }
    let has = |part: &str| query.iter().any(|it| it.starts_with(part));
    if has("sslmode=require") && has("sslrootcert=") {
        let meaning = "with sslrootcert, require verifies the server as verify-ca does";
        draft.find(Kind::Operators, "database.sslmode", meaning);
    }
    if let Some(password) = connector.take("database.sslpassword") {
        let meaning = "passwords are not copied: add sslpassword=… to the URL in the file that \
                       POSTRIDER_DATABASE_URL_FILE names";
        draft.find(Kind::FillIn, &password.place(), meaning);
    }
    query
}

/// The Java driver reads keys that are not PEM.
fn key(connector: &mut Connector, draft: &mut Draft) {
    let is_pem = |key: &Setting| {
        let path = key.text().unwrap_or_default().to_lowercase();
        ![".pk8", ".der", ".p12", ".pfx"].iter().any(|ending| path.ends_with(ending))
    };
    if connector.options.get("database.sslkey").is_none_or(is_pem) {
        return;
    }
    let Some(key) = connector.take("database.sslkey") else { return };
    connector.take("database.sslcert");
    let meaning = "postrider reads PEM: convert the key (`openssl pkcs8 -inform DER -nocrypt`, or \
                   `openssl pkcs12 -nodes`), and add sslcert=… and sslkey=… to postgres.url";
    draft.find(Kind::FillIn, &key.place(), meaning);
}
