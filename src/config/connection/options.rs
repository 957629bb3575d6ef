//! Splits a connection string into options by name, as libpq does
//! (<https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING>). What they mean
//! is not decided here.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;

/// Options by libpq's names. Several hosts, and their ports, are in one value, separated by commas.
pub(super) type Options = BTreeMap<String, String>;

/// What is wrong with a text that can't be split. No message repeats the text: a password may be in
/// any part of it, also in one that looks like an option's name.
const MALFORMED_URL: &str = "can't be read; write postgres://user@host:5432/database, and \
    percent-encode special characters in a password (@ is %40, / is %2F, : is %3A, ? is %3F, # is %23, \
    % is %25)";
const MALFORMED_PAIRS: &str = "can't be read; write postgres://user@host:5432/database or \
    host=… user=… dbname=…, with values that contain spaces in single quotes";

/// Splits a URL or `key=value` text.
pub(super) fn split(text: &str) -> Result<Options, &'static str> {
    match text.split_once("://") {
        Some(("postgres" | "postgresql", rest)) => url(rest),
        Some((scheme, _)) if scheme.chars().all(|c| c.is_ascii_alphanumeric()) => {
            Err("must begin with postgres:// or postgresql://")
        }
        _ => pairs(text),
    }
}

/// `user:password@host:port,host:port/database?option=value&…`
fn url(rest: &str) -> Result<Options, &'static str> {
    let mut options = Options::new();
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    // If a password contains a slash, what follows it looks like a database, and what precedes it
    // like a host: neither must be shown or connected to.
    if database.contains('@') {
        return Err(MALFORMED_URL);
    }
    let (credentials, hosts) = match authority.split_once('@') {
        Some((_, hosts)) if hosts.contains('@') => {
            return Err("has more than one @; percent-encode an @ in a password as %40");
        }
        Some((credentials, hosts)) => (credentials, hosts),
        None => ("", authority),
    };
    let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
    let (hosts, ports) = addresses(hosts)?;
    // The beginning of a password that was cut off looks like the port of a host with the user's
    // name.
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    if credentials.is_empty() && !ports.split(',').all(is_port) {
        return Err(MALFORMED_URL);
    }
    for (name, value) in [("user", user), ("password", password), ("dbname", database)] {
        set(&mut options, name, &decoded(value)?);
    }
    set(&mut options, "host", &hosts);
    set(&mut options, "port", &ports);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or(MALFORMED_URL)?;
        let (name, value) = (decoded(name)?, decoded(value)?);
        match name.as_str() {
            // JDBC's spelling, which libpq accepts too.
            "ssl" if value == "true" => set(&mut options, "sslmode", "require"),
            _ => set(&mut options, &name, &value),
        }
    }
    Ok(options)
}

/// Hosts and ports, each separated by commas. The port is empty for a host without one.
fn addresses(text: &str) -> Result<(String, String), &'static str> {
    let mut hosts = Vec::new();
    let mut ports = Vec::new();
    for address in text.split(',') {
        // An IPv6 address contains colons and is in brackets.
        let (host, port) = match address.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']').ok_or(MALFORMED_URL)?;
                (host, rest.strip_prefix(':').unwrap_or(rest))
            }
            None => address.split_once(':').unwrap_or((address, "")),
        };
        hosts.push(decoded(host)?);
        ports.push(decoded(port)?);
    }
    let ports = if ports.iter().all(String::is_empty) { String::new() } else { ports.join(",") };
    Ok((hosts.join(","), ports))
}

fn decoded(text: &str) -> Result<String, &'static str> {
    // A lone % is an error, as in libpq: if it was meant literally, the rest is not encoded either.
    let is_escape = |rest: &str| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !text.split('%').skip(1).all(is_escape) {
        return Err(MALFORMED_URL);
    }
    percent_decode_str(text).decode_utf8().map(Into::into).map_err(|_| MALFORMED_URL)
}

/// An empty value is the same as none, as in libpq.
fn set(options: &mut Options, name: &str, value: &str) {
    if !value.is_empty() {
        options.insert(name.to_owned(), value.to_owned());
    }
}

/// `key = value`, with quotes around values that contain spaces, and `\` before `'` and `\`.
fn pairs(text: &str) -> Result<Options, &'static str> {
    let mut options = Options::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=').ok_or(MALFORMED_PAIRS)?;
        let name = name.trim_end();
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(MALFORMED_PAIRS);
        }
        let (value, after) = value(after.trim_start())?;
        set(&mut options, name, &value);
        rest = after.trim_start();
    }
    Ok(options)
}

/// The value at the beginning of a text, and what follows it.
fn value(text: &str) -> Result<(String, &str), &'static str> {
    let (quoted, body) = match text.strip_prefix('\'') {
        Some(body) => (true, body),
        None => (false, text),
    };
    let mut value = String::new();
    let mut characters = body.char_indices();
    while let Some((index, character)) = characters.next() {
        let ends = if quoted { character == '\'' } else { character.is_whitespace() };
        match character {
            _ if ends => return Ok((value, body.get(index + 1..).unwrap_or_default())),
            '\\' => value.push(characters.next().ok_or(MALFORMED_PAIRS)?.1),
            character => value.push(character),
        }
    }
    if quoted { Err(MALFORMED_PAIRS) } else { Ok((value, "")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &str) {
        let options = split(text).unwrap();
        let pairs: Vec<String> = options.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(pairs.join("|"), expect, "{text}");
    }

    #[test]
    fn urls() {
        check("postgres://", "");
        check("postgresql://u@h", "host=h|user=u");
        check("postgres://u:p@h:1/d", "dbname=d|host=h|password=p|port=1|user=u");
        check("postgres://h1:1,[::1],h3:3/d", "dbname=d|host=h1,::1,h3|port=1,,3");
        check("postgres://u:p%40%2Fq%3A@h/d%20e", "dbname=d e|host=h|password=p@/q:|user=u");
        check("postgres://%2Frun%2Fpg:5499/d", "dbname=d|host=/run/pg|port=5499");
        check(
            "postgres:///d?host=/run/pg&sslmode=require",
            "dbname=d|host=/run/pg|sslmode=require",
        );
        check("postgres://h/d?ssl=true", "dbname=d|host=h|sslmode=require");
    }

    #[test]
    fn key_value_pairs() {
        check("", "");
        check("host=h dbname = d", "dbname=d|host=h");
        check(r"password='a b\'c\\' host=''", r"password=a b'c\");
        check(r"password=a\ b host=h", "host=h|password=a b");
        check("host=a,b port=1,2\tuser=ü", "host=a,b|port=1,2|user=ü");
    }

    #[test]
    fn what_cant_be_read() {
        #[track_caller]
        fn check(text: &str, expect: &str) {
            assert!(split(text).unwrap_err().contains(expect), "{text}");
        }
        check("mysql://u@h/x", "must begin with postgres://");
        check("postgres://u:p@q@h/x", "percent-encode");
        check("postgres://u:p@q/r@h/x", "percent-encode");
        check("postgres://u:p/q@h/x", "percent-encode");
        check("postgres://u:p?q@h/x", "percent-encode");
        check("postgres://u:p#q/r@h/x", "percent-encode");
        check("postgres://u:p%@h/x", "percent-encode");
        check("postgres://u:p%zz@h/x", "percent-encode");
        check("postgres://[::1/x", "can't be read");
        check("postgres://h/x?a", "can't be read");
        check("postgres://%ff@h/x", "can't be read");
        check("just-a-host", "can't be read");
        check("host=h pass word=x", "can't be read");
        check("password='abc", "can't be read");
        check("=x", "can't be read");
    }
}
