//! The database's address: a URL or key=value text, and libpq's variables for what it leaves out
//! (<https://www.postgresql.org/docs/current/libpq-envars.html>).

use std::error::Error;
use std::time::Duration;

use tokio_postgres::config::{Host, SslMode};

use super::Inputs;
use super::keys::POSTGRES_URL;
use super::problem::{Origin, Problem};
use super::raw::Typed;

const APPLICATION_NAME: &str = "postrider";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A link that is cut silently is noticed after about a minute; the systems' defaults are hours.
const KEEPALIVES_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVES_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVES_RETRIES: u32 = 3;
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(60);

const NO_TLS: &str = "asks for TLS, which postrider does not support yet; \
    use sslmode=disable or prefer on a network you trust, a Unix socket, or a TLS tunnel";

/// The connection to use, or `None` with the reasons among the problems.
pub(super) fn check(
    url: Option<&Typed>,
    inputs: &Inputs<'_>,
    problems: &mut Vec<Problem>,
) -> Option<tokio_postgres::Config> {
    let known = problems.len();
    let mut config = match url {
        Some(url) if !url.text.trim().is_empty() => parse(url, inputs, problems)?,
        _ => tokio_postgres::Config::new(),
    };
    check_tls(url, &config, inputs, problems);
    fill_address(&mut config, inputs, problems);
    fill_identity(&mut config, inputs, problems);
    fill_session(&mut config, inputs, problems);
    (problems.len() == known).then_some(config)
}

/// No message here repeats the text: a password may be in any part of it, also in one that was
/// taken for an option's name.
fn parse(
    url: &Typed,
    inputs: &Inputs<'_>,
    problems: &mut Vec<Problem>,
) -> Option<tokio_postgres::Config> {
    let text = with_default_port(url.text.trim(), inputs.variable("PGPORT"));
    let message = match text.parse::<tokio_postgres::Config>() {
        Ok(config) => match config.get_hosts().iter().any(names_credentials) {
            true => "has more than one @; write an @ in a password as %40".to_owned(),
            false => return Some(config),
        },
        Err(_) if has_other_scheme(&text) => {
            "must begin with postgres:// or postgresql://".to_owned()
        }
        Err(error) => match error.source().map(ToString::to_string) {
            Some(cause) if cause.contains("`sslmode`") => NO_TLS.to_owned(),
            Some(cause) if cause.starts_with("invalid value") => {
                format!("has an {cause}; see the manual of libpq for what it takes")
            }
            Some(cause) if cause.starts_with("unknown option") => UNKNOWN_OPTION.to_owned(),
            _ => "can't be read; write postgres://user@host:5432/database, with %-escapes for \
                  special characters in a password"
                .to_owned(),
        },
    };
    problems.push(Problem::at(&url.origin, format!("{} {message}", POSTGRES_URL.path())));
    None
}

const UNKNOWN_OPTION: &str = "has an option that postrider does not know; it knows user, password, \
    dbname, host, hostaddr, port, options, application_name, sslmode, connect_timeout, \
    tcp_user_timeout, keepalives, keepalives_idle, keepalives_interval, keepalives_retries, \
    target_session_attrs, channel_binding and load_balance_hosts";

fn has_other_scheme(text: &str) -> bool {
    let is_word = |scheme: &str| scheme.chars().all(|c| c.is_ascii_alphanumeric());
    text.split_once("://")
        .is_some_and(|(scheme, _)| is_word(scheme) && !matches!(scheme, "postgres" | "postgresql"))
}

fn names_credentials(host: &Host) -> bool {
    matches!(host, Host::Tcp(name) if name.contains('@'))
}

/// A URL's host without a port means PGPORT for libpq, but 5432 for tokio-postgres's parser.
fn with_default_port(text: &str, port: Option<&str>) -> String {
    let (Some(port), Some((scheme, rest))) = (port, text.split_once("://")) else {
        return text.to_owned();
    };
    let (user, rest) = match rest.split_once('@') {
        Some((user, rest)) => (format!("{user}@"), rest),
        None => (String::new(), rest),
    };
    let (hosts, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    if hosts.is_empty() {
        return text.to_owned();
    }
    let hosts: Vec<String> = hosts
        .split(',')
        .map(|host| match host.rsplit(']').next().is_some_and(|tail| tail.contains(':')) {
            true => host.to_owned(),
            false => format!("{host}:{port}"),
        })
        .collect();
    format!("{scheme}://{user}{}{path}", hosts.join(","))
}

fn check_tls(
    url: Option<&Typed>,
    config: &tokio_postgres::Config,
    inputs: &Inputs<'_>,
    problems: &mut Vec<Problem>,
) {
    let typed = url.filter(|url| url.text.contains("sslmode"));
    match (typed, inputs.variable("PGSSLMODE")) {
        (Some(url), _) if config.get_ssl_mode() == SslMode::Require => {
            problems.push(Problem::at(&url.origin, format!("{} {NO_TLS}", POSTGRES_URL.path())));
        }
        (None, Some(mode)) if !matches!(mode, "disable" | "allow" | "prefer") => {
            problems.push(Problem::in_variable("PGSSLMODE", format!("{mode} {NO_TLS}")));
        }
        _ => {}
    }
}

fn fill_address(
    config: &mut tokio_postgres::Config,
    inputs: &Inputs<'_>,
    problems: &mut Vec<Problem>,
) {
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        match inputs.variable("PGHOST") {
            Some(hosts) => {
                for host in hosts.split(',') {
                    config.host(host);
                }
            }
            None => problems.push(Problem::missing(format!(
                "{}: no database; set it in the file, in {} or with {} (PGHOST also works)",
                POSTGRES_URL.path(),
                POSTGRES_URL.variables().first().map_or("", String::as_str),
                POSTGRES_URL.flag().unwrap_or_default(),
            ))),
        }
    }
    if config.get_ports().is_empty() {
        for port in inputs.variable("PGPORT").unwrap_or("5432").split(',') {
            match port.parse() {
                Ok(port) => {
                    config.port(port);
                }
                Err(_) => problems.push(Problem::in_variable(
                    "PGPORT",
                    format!("{port:?} is no port; set a number such as 5432"),
                )),
            }
        }
    }
}

/// libpq's rules: the role defaults to the system's user, the database to the role.
fn fill_identity(
    config: &mut tokio_postgres::Config,
    inputs: &Inputs<'_>,
    problems: &mut Vec<Problem>,
) {
    let given = config.get_user().filter(|user| !user.is_empty());
    let user = given.or_else(|| inputs.variable("PGUSER")).or(inputs.os_user.as_deref());
    let Some(user) = user.map(str::to_owned) else {
        let message = format!("{}: no user; write postgres://user@host/…", POSTGRES_URL.path());
        problems.push(Problem::missing(message));
        return;
    };
    if config.get_dbname().is_none() {
        config.dbname(inputs.variable("PGDATABASE").unwrap_or(&user));
    }
    if config.get_password().is_none()
        && let Some(password) = inputs.variable("PGPASSWORD")
    {
        config.password(password);
    }
    config.user(user);
}

fn fill_session(
    config: &mut tokio_postgres::Config,
    inputs: &Inputs<'_>,
    problems: &mut Vec<Problem>,
) {
    if config.get_application_name().is_none() {
        config.application_name(inputs.variable("PGAPPNAME").unwrap_or(APPLICATION_NAME));
    }
    if config.get_options().is_none()
        && let Some(options) = inputs.variable("PGOPTIONS")
    {
        config.options(options);
    }
    if config.get_connect_timeout().is_none() {
        let timeout = match inputs.variable("PGCONNECT_TIMEOUT").map(str::parse) {
            None | Some(Ok(0)) => CONNECT_TIMEOUT,
            Some(Ok(seconds)) => Duration::from_secs(seconds),
            Some(Err(_)) => {
                let origin = Origin::Variable("PGCONNECT_TIMEOUT".to_owned());
                problems.push(Problem::at(&origin, "not a number of seconds; set one such as 10"));
                CONNECT_TIMEOUT
            }
        };
        config.connect_timeout(timeout);
    }
    if config.get_keepalives_idle() == tokio_postgres::Config::new().get_keepalives_idle() {
        config.keepalives_idle(KEEPALIVES_IDLE);
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_interval(KEEPALIVES_INTERVAL);
    }
    if config.get_keepalives_retries().is_none() {
        config.keepalives_retries(KEEPALIVES_RETRIES);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(TCP_USER_TIMEOUT);
    }
}
