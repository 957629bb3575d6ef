//! The connection to the database: a URL or key=value text; libpq's variables and password file
//! fill in what it leaves out
//! (<https://www.postgresql.org/docs/current/libpq-connect.html>).

mod addresses;
mod options;
mod passfile;
mod permissions;
mod session;
mod tls;

use tokio_postgres::config::SslMode;

use self::addresses::{Address, addresses};
use self::options::Options;
use self::passfile::Passfile;
use self::session::session;
use super::Inputs;
use super::keys::POSTGRES_URL;
use super::problem::{Origin, Problem};
use super::raw::Typed;
use crate::postgres::{Connection, TlsMode};

/// libpq's options that postrider knows, with their variables.
const OPTIONS: [(&str, Option<&str>); 23] = [
    ("host", Some("PGHOST")),
    ("hostaddr", Some("PGHOSTADDR")),
    ("port", Some("PGPORT")),
    ("dbname", Some("PGDATABASE")),
    ("user", Some("PGUSER")),
    ("password", Some("PGPASSWORD")),
    ("passfile", Some("PGPASSFILE")),
    ("options", Some("PGOPTIONS")),
    ("application_name", Some("PGAPPNAME")),
    ("sslmode", Some("PGSSLMODE")),
    ("sslrootcert", Some("PGSSLROOTCERT")),
    ("sslcert", Some("PGSSLCERT")),
    ("sslkey", Some("PGSSLKEY")),
    ("sslpassword", None),
    ("gssencmode", Some("PGGSSENCMODE")),
    ("channel_binding", Some("PGCHANNELBINDING")),
    ("target_session_attrs", Some("PGTARGETSESSIONATTRS")),
    ("connect_timeout", Some("PGCONNECT_TIMEOUT")),
    ("keepalives", None),
    ("keepalives_idle", None),
    ("keepalives_interval", None),
    ("keepalives_count", None),
    ("tcp_user_timeout", None),
];

/// libpq's variables for something that postrider does not do, most of them for more security: if
/// they were ignored, the security that they demand would silently be missing. Each with the value
/// that demands no more than what is done anyway, and with the fix.
const REFUSED_VARIABLES: [(&str, Option<&str>, &str); 10] = [
    (
        "PGSERVICE",
        None,
        "postrider does not read service files; unset it, and write the service's settings into \
         postgres.url",
    ),
    ("PGSSLCRL", None, NO_REVOCATION),
    ("PGSSLCRLDIR", None, NO_REVOCATION),
    (
        "PGREQUIREAUTH",
        None,
        "postrider can't require an authentication method; unset it, and set \
         channel_binding=require and sslmode=verify-full instead",
    ),
    ("PGREQUIREPEER", None, "postrider does not check who owns a Unix socket; unset it"),
    ("PGREQUIRESSL", Some("0"), "libpq has deprecated it; unset it, and set PGSSLMODE=require"),
    ("PGSSLMINPROTOCOLVERSION", Some("TLSv1.2"), ANY_TLS),
    ("PGSSLMAXPROTOCOLVERSION", None, ANY_TLS),
    (
        "PGSSLNEGOTIATION",
        Some("postgres"),
        "postrider requests TLS only in the way that all servers support; unset it",
    ),
    (
        "PGSSLCERTMODE",
        Some("allow"),
        "postrider sends its certificate, if it has one, to a server that asks; unset it",
    ),
];
const NO_REVOCATION: &str =
    "postrider does not read certificate revocation lists; unset it if you can do without them";
const ANY_TLS: &str =
    "postrider accepts TLS 1.2 and newer; unset it, and set the limit on the server";

/// The connection to use, or `None` with the reasons among the problems.
pub(super) fn check(
    url: Option<&Typed>,
    inputs: &Inputs<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Connection> {
    let known = problems.len();
    let cautions = Vec::new();
    let mut given = ConnectionInput { options: Options::new(), url, inputs, problems, cautions };
    given.split_url()?;
    given.refuse_unknown();
    let tls = tls::check(&mut given);
    let session = session(&mut given);
    let addresses = addresses(&mut given)?;
    let user = user(&mut given)?;
    let password = given.get("password").map(|given| given.text);
    let passfile = Passfile::find(&mut given);
    let dbname = given.get("dbname").map_or_else(|| user.clone(), |given| given.text);
    if given.problems.len() > known {
        return None;
    }
    let (tls, cautions) = (tls?, given.cautions);
    let hosts = addresses.into_iter().map(|address| {
        let mut config = session.clone();
        config.user(&user).dbname(&dbname).port(address.port);
        // TLS needs a server name: for an address without a host, it is the address.
        let of_address = || address.hostaddr.map(|ip| ip.to_string());
        if let Some(host) = address.host.clone().or_else(of_address) {
            config.host(host);
        }
        if let Some(hostaddr) = address.hostaddr {
            config.hostaddr(hostaddr);
        }
        let found = || passfile.as_ref()?.password(&address, &dbname, &user);
        if let Some(password) = password.clone().or_else(found) {
            config.password(password);
        }
        // A Unix socket never uses TLS, whatever the mode, as in libpq.
        let mode = if address.is_unix() { TlsMode::Disable } else { tls.mode };
        config.ssl_mode(match mode {
            TlsMode::Disable => SslMode::Disable,
            TlsMode::Prefer => SslMode::Prefer,
            TlsMode::Require | TlsMode::VerifyCa | TlsMode::VerifyFull => SslMode::Require,
        });
        config
    });
    Some(Connection { hosts: hosts.collect(), tls, cautions })
}

/// What was typed for the database, in the URL or in libpq's variables.
struct ConnectionInput<'a> {
    options: Options,
    url: Option<&'a Typed>,
    inputs: &'a Inputs<'a>,
    problems: &'a mut Vec<Problem>,
    /// Warnings about what is allowed.
    cautions: Vec<String>,
}

/// An option's value, and where it was typed.
struct Value {
    name: &'static str,
    text: String,
    origin: Origin,
}

impl ConnectionInput<'_> {
    fn split_url(&mut self) -> Option<()> {
        let Some(url) = self.url else { return Some(()) };
        match options::split(url.text.trim()) {
            Ok(options) => self.options = options,
            Err(message) => {
                let message = format!("{} {message}", POSTGRES_URL.path());
                self.problems.push(Problem::at(&url.origin, message));
                return None;
            }
        }
        // tokio-postgres's name for it, which older configurations may contain.
        if let Some(count) = self.options.remove("keepalives_retries") {
            self.options.entry("keepalives_count".to_owned()).or_insert(count);
        }
        Some(())
    }

    /// The option's name is not repeated: it may be part of a password.
    fn refuse_unknown(&mut self) {
        let known = |name: &String| OPTIONS.iter().any(|(known, _)| known == name);
        if let Some(url) = self.url
            && !self.options.keys().all(known)
        {
            let names: Vec<&str> = OPTIONS.iter().map(|(name, _)| *name).collect();
            // A password that contains a ? is cut there, and the rest looks like options.
            let hint = if url.text.contains("://") {
                "; if this is part of the password, percent-encode it: ? is %3F, & is %26"
            } else {
                ""
            };
            let message = format!(
                "{} has an option that postrider does not know{hint}; it knows {}",
                POSTGRES_URL.path(),
                names.join(", ")
            );
            self.problems.push(Problem::at(&url.origin, message));
        }
        for (name, harmless, message) in REFUSED_VARIABLES {
            if self.inputs.variable(name).is_some_and(|value| Some(value) != harmless) {
                self.problems.push(Problem::in_variable(name, message));
            }
        }
    }

    fn get(&self, name: &'static str) -> Option<Value> {
        if let (Some(text), Some(url)) = (self.options.get(name), self.url) {
            return Some(Value { name, text: text.clone(), origin: url.origin.clone() });
        }
        let variable = OPTIONS.iter().find(|(known, _)| *known == name)?.1?;
        let text = self.inputs.variable(variable)?.to_owned();
        Some(Value { name, text, origin: Origin::Variable(variable.to_owned()) })
    }

    /// The option's parsed value, or `default` if it has none or a wrong one, which is then
    /// among the problems. `expected` describes the right values; the wrong one is not repeated.
    fn read<T>(
        &mut self,
        name: &'static str,
        default: T,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> T {
        let Some(value) = self.get(name) else { return default };
        parse(value.text.trim()).unwrap_or_else(|| {
            self.wrong(&value, format!("takes {expected}"));
            default
        })
    }

    fn wrong(&mut self, value: &Value, message: impl AsRef<str>) {
        let message = match &value.origin {
            Origin::Variable(_) => message.as_ref().to_owned(),
            _ => format!("{}: {} {}", POSTGRES_URL.path(), value.name, message.as_ref()),
        };
        self.problems.push(Problem::at(&value.origin, message));
    }
}

/// As in libpq, the role defaults to the system's user.
fn user(given: &mut ConnectionInput<'_>) -> Option<String> {
    let user = given.get("user").map(|value| value.text).or(given.inputs.os_user.clone());
    if user.is_none() {
        let message = format!("{}: no user; write postgres://user@host/…", POSTGRES_URL.path());
        given.problems.push(Problem::missing(message));
    }
    user
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_every_option_and_variable_of_libpq() {
        let page = include_str!("../../docs/configuration.md");
        let section = page.split("\n## ").find(|part| part.starts_with("The database")).unwrap();
        let known = OPTIONS.iter().flat_map(|(option, variable)| [Some(*option), *variable]);
        let refused = REFUSED_VARIABLES.iter().map(|(variable, ..)| *variable);
        for name in known.flatten().chain(refused) {
            assert!(section.contains(&format!("`{name}`")), "{name} is missing");
        }
    }
}
