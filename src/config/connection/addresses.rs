//! Hosts and ports, paired as libpq pairs them.

use std::net::IpAddr;

use super::{ConnectionInput, Value};
use crate::config::keys::POSTGRES_URL;
use crate::config::problem::{Origin, Problem};

/// One possible address of the server.
pub(super) struct Address {
    pub(super) host: Option<String>,
    pub(super) hostaddr: Option<IpAddr>,
    pub(super) port: u16,
}

impl Address {
    pub(super) fn is_unix(&self) -> bool {
        self.hostaddr.is_none() && self.host.as_ref().is_some_and(|host| host.starts_with('/'))
    }
}

pub(super) fn addresses(given: &mut ConnectionInput<'_>) -> Option<Vec<Address>> {
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
            given.wrong(counted, "has nothing between two commas; name a host there");
        }
        addresses.push(Address { host: name, hostaddr: ip, port: parsed });
    }
    (given.problems.len() == known).then_some(addresses)
}

fn pgport() -> Origin {
    Origin::Variable("PGPORT".to_owned())
}
