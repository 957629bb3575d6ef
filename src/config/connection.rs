//! The database's address: a URL or key=value text, and libpq's variables and password file for
//! what it leaves out (<https://www.postgresql.org/docs/current/libpq-connect.html>).

mod options;
mod passfile;
mod tls;

use std::time::Duration;

use tokio_postgres::config::{ChannelBinding, SslMode, TargetSessionAttrs};

use self::options::Options;
use self::passfile::Passfile;
use super::Inputs;
use super::keys::POSTGRES_URL;
use super::problem::{Origin, Problem};
use super::raw::Typed;
use crate::postgres::{Connection, TlsMode};

const APPLICATION_NAME: &str = "postrider";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A link that is cut silently is noticed after about a minute; the systems' defaults are hours.
const KEEPALIVES_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVES_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVES_COUNT: u32 = 3;
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(60);

/// libpq's options that postrider knows, with the variables that fill them.
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

/// The connection to use, or `None` with the reasons among the problems.
pub(super) fn check(
    url: Option<&Typed>,
    inputs: &Inputs<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Connection> {
    let known = problems.len();
    let mut given = Given { options: Options::new(), url, inputs, problems };
    given.take_apart()?;
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
    let tls = tls?;
    let hosts = addresses.into_iter().map(|address| {
        let mut config = session.clone();
        config.user(&user).dbname(&dbname).port(address.port);
        if let Some(host) = &address.host {
            config.host(host);
        }
        if let Some(hostaddr) = address.hostaddr {
            config.hostaddr(hostaddr);
        }
        let found = || passfile.as_ref()?.password(&address, &dbname, &user);
        if let Some(password) = password.clone().or_else(found) {
            config.password(password);
        }
        // There is no TLS on a Unix socket, whatever the mode, as in libpq.
        let mode = if address.is_unix() { TlsMode::Disable } else { tls.mode };
        config.ssl_mode(match mode {
            TlsMode::Disable => SslMode::Disable,
            TlsMode::Prefer => SslMode::Prefer,
            TlsMode::Require | TlsMode::VerifyCa | TlsMode::VerifyFull => SslMode::Require,
        });
        config
    });
    Some(Connection { hosts: hosts.collect(), tls })
}

/// What was typed for the database, in the URL or in libpq's variables.
struct Given<'a> {
    options: Options,
    url: Option<&'a Typed>,
    inputs: &'a Inputs<'a>,
    problems: &'a mut Vec<Problem>,
}

/// An option's value and where it was typed.
struct Value {
    name: &'static str,
    text: String,
    origin: Origin,
}

impl Given<'_> {
    fn take_apart(&mut self) -> Option<()> {
        let Some(url) = self.url else { return Some(()) };
        match options::take_apart(url.text.trim()) {
            Ok(options) => self.options = options,
            Err(message) => {
                let message = format!("{} {message}", POSTGRES_URL.path());
                self.problems.push(Problem::at(&url.origin, message));
                return None;
            }
        }
        // tokio-postgres's name for it, which earlier configurations may hold.
        if let Some(count) = self.options.remove("keepalives_retries") {
            self.options.entry("keepalives_count".to_owned()).or_insert(count);
        }
        Some(())
    }

    /// Without the option's name: it may be a part of a password.
    fn refuse_unknown(&mut self) {
        let known = |name: &String| OPTIONS.iter().any(|(known, _)| known == name);
        if let Some(url) = self.url
            && !self.options.keys().all(known)
        {
            let names: Vec<&str> = OPTIONS.iter().map(|(name, _)| *name).collect();
            let message = format!(
                "{} has an option that postrider does not know; it knows {}",
                POSTGRES_URL.path(),
                names.join(", ")
            );
            self.problems.push(Problem::at(&url.origin, message));
        }
        if self.inputs.variable("PGSERVICE").is_some() {
            let message = "postrider does not read service files; unset it, and write what the \
                           service holds into postgres.url";
            self.problems.push(Problem::in_variable("PGSERVICE", message));
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

    /// What the option's value means, or `default` if there is none or it is wrong; the second is
    /// among the problems then. `expected` says what it takes; the value is not repeated.
    fn read<T>(
        &mut self,
        name: &'static str,
        default: T,
        expected: &str,
        meaning: impl Fn(&str) -> Option<T>,
    ) -> T {
        let Some(value) = self.get(name) else { return default };
        meaning(value.text.trim()).unwrap_or_else(|| {
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

/// One place where the server may be.
struct Address {
    host: Option<String>,
    hostaddr: Option<std::net::IpAddr>,
    port: u16,
}

impl Address {
    fn is_unix(&self) -> bool {
        self.hostaddr.is_none() && self.host.as_ref().is_some_and(|host| host.starts_with('/'))
    }
}

fn addresses(given: &mut Given<'_>) -> Option<Vec<Address>> {
    let list = |value: &Option<Value>| -> Vec<String> {
        let text = value.as_ref().map_or("", |value| value.text.as_str());
        text.split(',').map(|part| part.trim().to_owned()).collect()
    };
    let (host, hostaddr, port) = (given.get("host"), given.get("hostaddr"), given.get("port"));
    let (hosts, hostaddrs, ports) = (list(&host), list(&hostaddr), list(&port));
    let Some(counted) = hostaddr.as_ref().or(host.as_ref()) else {
        given.problems.push(Problem::missing(format!(
            "{}: no database; set it in the file, in {} or with {} (PGHOST also works)",
            POSTGRES_URL.path(),
            POSTGRES_URL.variables().first().map_or("", String::as_str),
            POSTGRES_URL.flag().unwrap_or_default(),
        )));
        return None;
    };
    let count = if counted.name == "host" { hosts.len() } else { hostaddrs.len() };
    if host.is_some() && hosts.len() != count {
        given.wrong(counted, "must have as many addresses as host has names");
        return None;
    }
    if let Some(port) = port.as_ref().filter(|_| ports.len() != 1 && ports.len() != count) {
        given.wrong(port, "must have one port, or as many as there are hosts");
        return None;
    }
    let default_port = given.inputs.variable("PGPORT").unwrap_or("5432").to_owned();
    let known = given.problems.len();
    let mut addresses = Vec::with_capacity(count);
    for index in 0..count {
        let text = ports.get(index).or(ports.first()).filter(|text| !text.is_empty());
        let parsed = text.unwrap_or(&default_port).parse::<u16>().ok().filter(|port| *port > 0);
        let Some(parsed) = parsed else {
            let fallback = || Value { name: "port", text: String::new(), origin: pgport() };
            let value = given.get("port").filter(|_| text.is_some()).unwrap_or_else(fallback);
            given.wrong(&value, "takes numbers such as 5432");
            return None;
        };
        let ip = hostaddrs.get(index).filter(|text| !text.is_empty());
        let ip = match ip.map(|text| text.parse()) {
            None => None,
            Some(Ok(ip)) => Some(ip),
            Some(Err(_)) => {
                given.wrong(counted, "takes IP addresses; write names into host");
                return None;
            }
        };
        let name = hosts.get(index).filter(|name| !name.is_empty()).cloned();
        if name.is_none() && ip.is_none() {
            given.wrong(counted, "has an empty place between commas; name a host there");
        }
        addresses.push(Address { host: name, hostaddr: ip, port: parsed });
    }
    (given.problems.len() == known).then_some(addresses)
}

fn pgport() -> Origin {
    Origin::Variable("PGPORT".to_owned())
}

/// libpq's rule: the role defaults to the system's user.
fn user(given: &mut Given<'_>) -> Option<String> {
    let user = given.get("user").map(|value| value.text).or(given.inputs.os_user.clone());
    if user.is_none() {
        let message = format!("{}: no user; write postgres://user@host/…", POSTGRES_URL.path());
        given.problems.push(Problem::missing(message));
    }
    user
}

/// What is the same for all hosts.
fn session(given: &mut Given<'_>) -> tokio_postgres::Config {
    let mut config = tokio_postgres::Config::new();
    let name = given.get("application_name").map(|value| value.text);
    config.application_name(name.as_deref().unwrap_or(APPLICATION_NAME));
    if let Some(options) = given.get("options") {
        config.options(options.text);
    }
    let seconds = |text: &str| text.parse().ok().map(Duration::from_secs);
    let some_seconds = "a number of seconds such as 10";
    let limit = given.read("connect_timeout", CONNECT_TIMEOUT, some_seconds, seconds);
    // 0 is libpq's word for "no limit", which no relay should have.
    config.connect_timeout(if limit.is_zero() { CONNECT_TIMEOUT } else { limit });
    let idle = given.read("keepalives_idle", KEEPALIVES_IDLE, some_seconds, seconds);
    let interval = given.read("keepalives_interval", KEEPALIVES_INTERVAL, some_seconds, seconds);
    let number = |text: &str| text.parse().ok();
    let count = given.read("keepalives_count", KEEPALIVES_COUNT, "a number such as 3", number);
    let milliseconds = |text: &str| text.parse().ok().map(Duration::from_millis);
    let some_milliseconds = "a number of milliseconds such as 60000";
    let user_timeout =
        given.read("tcp_user_timeout", TCP_USER_TIMEOUT, some_milliseconds, milliseconds);
    let switch = |text: &str| match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    };
    let keepalives = given.read("keepalives", true, "0 or 1", switch);
    config.keepalives(keepalives).keepalives_idle(idle).keepalives_interval(interval);
    config.keepalives_retries(count).tcp_user_timeout(user_timeout);
    config.target_session_attrs(target(given));
    let binding = |text: &str| match text {
        "disable" => Some(ChannelBinding::Disable),
        "prefer" => Some(ChannelBinding::Prefer),
        "require" => Some(ChannelBinding::Require),
        _ => None,
    };
    let expected = "disable, prefer or require";
    config.channel_binding(given.read(
        "channel_binding",
        ChannelBinding::Prefer,
        expected,
        binding,
    ));
    // GSSAPI encryption is only ever preferred, so that doing without it is what libpq does too.
    let without = |text: &str| matches!(text, "disable" | "prefer").then_some(());
    given.read("gssencmode", (), "disable: postrider has no GSSAPI; use TLS", without);
    config
}

fn target(given: &mut Given<'_>) -> TargetSessionAttrs {
    let expected = "any or read-write: the slot is on the primary, and postrider writes there";
    given.read("target_session_attrs", TargetSessionAttrs::Any, expected, |text| match text {
        "any" => Some(TargetSessionAttrs::Any),
        "read-write" | "primary" => Some(TargetSessionAttrs::ReadWrite),
        _ => None,
    })
}
