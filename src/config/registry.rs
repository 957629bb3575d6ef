//! `format.registry`: the schema registry.

use std::fmt;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;

use super::checked::Values;
use super::keys;

/// A schema registry.
#[derive(Clone, PartialEq, Eq)]
pub struct RegistryConfig {
    /// `http` or `https`.
    pub is_tls: bool,
    /// The host, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// What comes before `/subjects`, without a slash at the end.
    pub base_path: String,
    /// User and password.
    pub credentials: Option<(String, String)>,
    /// A file with certificate authorities; none: the system's.
    pub ca: Option<PathBuf>,
}

impl RegistryConfig {
    /// For people: without the password.
    pub fn shown(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        format!("{scheme}://{host}:{}{}", self.port, self.base_path)
    }
}

impl fmt::Debug for RegistryConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RegistryConfig({}, {:?})", self.shown(), self.ca)
    }
}

/// `None` if something is wrong, which is then among the problems.
pub(super) fn check(values: &mut Values<'_>) -> Option<Option<RegistryConfig>> {
    let registry = values.read_if_set(&keys::FORMAT_REGISTRY, url);
    let ca = values.read_if_set(&keys::FORMAT_REGISTRY_CA, |text| Ok(PathBuf::from(text)));
    let (registry, ca) = (registry?, ca?);
    if registry.is_none() && ca.is_some() {
        let [ca, url] = [&keys::FORMAT_REGISTRY_CA, &keys::FORMAT_REGISTRY];
        let message = format!("{} is set, but {} is not: set both", ca.path(), url.path());
        values.contradict([ca, url], message);
    }
    Some(registry.map(|registry| RegistryConfig { ca, ..registry }))
}

/// `https://user:password@host:8081/path`. Its errors never repeat it, because it may contain a
/// password.
fn url(text: &str) -> Result<RegistryConfig, String> {
    let wrong = || "write it as http://host:8081 or https://user:password@host/path".to_owned();
    let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
    let is_tls = match scheme {
        "http" => false,
        "https" => true,
        _ => return Err(wrong()),
    };
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at_checked(at).ok_or_else(wrong)?,
        None => (rest, ""),
    };
    let (credentials, address) = match authority.rsplit_once('@') {
        Some((credentials, address)) => (Some(credentials), address),
        None => (None, authority),
    };
    let decode = |text: &str| {
        percent_decode_str(text).decode_utf8().map(|it| it.into_owned()).map_err(|_| wrong())
    };
    let credentials = match credentials.map(|it| it.split_once(':')) {
        None => None,
        Some(Some((user, password))) => Some((decode(user)?, decode(password)?)),
        Some(None) => return Err(wrong()),
    };
    let default_port = if is_tls { 443 } else { 80 };
    let (host, port) = match address.strip_prefix('[').and_then(|it| it.split_once(']')) {
        Some((host, "")) => (host, default_port),
        Some((host, port)) => {
            let port = port.strip_prefix(':').and_then(|port| port.parse().ok());
            (host, port.ok_or_else(wrong)?)
        }
        None => match address.split_once(':') {
            Some((host, port)) => (host, port.parse().map_err(|_| wrong())?),
            None => (address, default_port),
        },
    };
    let is_plain = |text: &str| !text.contains(|c: char| c.is_whitespace() || c.is_control());
    if host.is_empty() || !is_plain(host) || !is_plain(path) || path.contains(['?', '#']) {
        return Err(wrong());
    }
    Ok(RegistryConfig {
        is_tls,
        host: host.to_owned(),
        port,
        base_path: path.trim_end_matches('/').to_owned(),
        credentials,
        ca: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_registries() {
        let check = |text: &str, shown: &str, credentials: Option<(&str, &str)>| {
            let registry = url(text).unwrap();
            assert_eq!(registry.shown(), shown);
            let owned = credentials.map(|(user, word)| (user.to_owned(), word.to_owned()));
            assert_eq!(registry.credentials, owned, "{text}");
        };
        check("http://r", "http://r:80", None);
        check("https://r/apis/v7/", "https://r:443/apis/v7", None);
        check("http://u:p%40ss@r:8081", "http://r:8081", Some(("u", "p@ss")));
        check("https://[::1]:8081/x", "https://[::1]:8081/x", None);
        for wrong in [
            "",
            "r:8081",
            "ftp://r",
            "http://",
            "http://r:x",
            "http://u@r",
            "http://r/?a",
            "http://[::1",
        ] {
            assert!(url(wrong).is_err(), "{wrong}");
        }
    }
}
