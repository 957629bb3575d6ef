//! One name, several addresses: each is a server of its own.
//!
//! Behind one name there may be a primary and its standbys, or servers that come and go. Both
//! connections must go to the same one, so the name is looked up once, and later connections go to
//! the address that accepted us, not to the name.

use std::io;
use std::net::SocketAddr;

use tokio_postgres::Config;
use tokio_postgres::config::Host;

use super::host_limit;

/// The host once for each address of its name, in the order of the resolver. A host that is
/// already an address or a socket is left as it is.
pub(super) async fn of(host: &Config) -> io::Result<Vec<Config>> {
    let named = match (host.get_hostaddrs(), host.get_hosts()) {
        ([], [Host::Tcp(name)]) => name,
        _ => return Ok(vec![host.clone()]),
    };
    // The port is already set; only the addresses matter here.
    let looking = tokio::net::lookup_host((named.as_str(), 0));
    let limit = host_limit(host);
    let found = tokio::time::timeout(limit, looking).await.map_err(|_| {
        let limit = humantime::format_duration(limit);
        io::Error::new(io::ErrorKind::TimedOut, format!("its name was not resolved within {limit}"))
    })??;
    Ok(places(host, found))
}

fn places(host: &Config, found: impl Iterator<Item = SocketAddr>) -> Vec<Config> {
    let place = |address: SocketAddr| {
        let mut config = host.clone();
        // An IP address has no zone, which a link-local address needs: such a name stays a name.
        if !matches!(address, SocketAddr::V6(v6) if v6.scope_id() != 0) {
            config.hostaddr(address.ip());
        }
        config
    };
    found.map(place).collect()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::postgres::{Roots, Tls, TlsMode, connect_to_first};

    fn config(host: &str, port: u16) -> Config {
        let mut config = Config::new();
        config.host(host).port(port).user("me").dbname("db");
        config.ssl_mode(tokio_postgres::config::SslMode::Disable);
        config
    }

    /// Answers as a server answers a client that it trusts.
    async fn let_in(mut socket: TcpStream) -> io::Result<()> {
        let length = socket.read_i32().await?;
        let mut message = vec![0; usize::try_from(length - 4).unwrap()];
        socket.read_exact(&mut message).await?;
        let (authenticated, ready) = ([b'R', 0, 0, 0, 8, 0, 0, 0, 0], [b'Z', 0, 0, 0, 5, b'I']);
        socket.write_all(&authenticated).await?;
        socket.write_all(&ready).await?;
        socket.read_u8().await.map(drop)
    }

    #[tokio::test]
    async fn the_address_that_let_us_in_is_where_further_connections_go() {
        // Loopback has more than one address, as real names have.
        let closes = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = closes.local_addr().unwrap().port();
        let takes = TcpListener::bind(("127.0.0.2", port)).await.unwrap();
        let servers = tokio::spawn(async move {
            drop(closes.accept().await.unwrap());
            let_in(takes.accept().await.unwrap().0).await
        });
        let found = ["127.0.0.1:0", "127.0.0.2:0"].map(|text| text.parse().unwrap());
        let places = places(&config("db.example", port), found.into_iter());
        let tls = Tls { mode: TlsMode::Disable, roots: Roots::System, identity: None };
        let mut failures = Vec::new();
        let connected = connect_to_first(places, &tls.connector().unwrap(), &mut failures).await;
        let server = connected.unwrap().unwrap().server;
        assert_eq!(
            server.config.get_hostaddrs(),
            ["127.0.0.2".parse::<std::net::IpAddr>().unwrap()]
        );
        // The certificate is checked by the name.
        assert_eq!(server.config.get_hosts(), [Host::Tcp("db.example".to_owned())]);
        let (first, _) = failures.first().unwrap();
        assert_eq!(first, &format!("db.example:{port}/db (127.0.0.1)"));
        servers.abort();
    }

    #[tokio::test]
    async fn every_address_of_a_name_is_a_place_and_others_stay_as_they_are() {
        let localhost = of(&config("localhost", 1)).await.unwrap();
        assert!(!localhost.is_empty());
        assert!(localhost.iter().all(|config| config.get_hostaddrs().len() == 1), "{localhost:?}");
        let mut pinned = config("db.example", 1);
        pinned.hostaddr("10.0.0.1".parse().unwrap());
        assert_eq!(of(&pinned).await.unwrap(), [pinned]);
        let socket = config("/run/postgresql", 1);
        assert_eq!(of(&socket).await.unwrap(), [socket]);
        let zone = ["[fe80::1%7]:0".parse().unwrap()];
        let linked = config("db.local", 1);
        assert_eq!(places(&linked, zone.into_iter()), [linked]);
    }
}
