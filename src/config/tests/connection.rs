//! The database's address.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use tokio_postgres::config::{Host, SslMode};

use crate::config::connection;
use crate::config::problem::{Origin, Problem};
use crate::config::raw::Typed;
use crate::config::{Flags, Inputs};
use crate::postgres::{Connection, Roots, TlsMode};
use testkit::certificates::Authority;

/// The only file that exists.
const PASSFILE: (&str, &str) = ("/home/me/.pgpass", "h2:*:*:*:of-h2\n*:*:*:*:of-others\n");

fn load(url: &str, variables: &[(&str, &str)]) -> Result<Connection, Vec<Problem>> {
    load_at(url, variables, None)
}

fn load_at(
    url: &str,
    variables: &[(&str, &str)],
    home: Option<&str>,
) -> Result<Connection, Vec<Problem>> {
    let inputs = Inputs {
        flags: Flags::default(),
        variables: variables
            .iter()
            .map(|(k, v)| (k.to_string(), v.to_string()))
            .collect::<BTreeMap<_, _>>(),
        read: &|path| {
            if path == Path::new(PASSFILE.0) {
                Ok(PASSFILE.1.to_owned())
            } else {
                Err(io::ErrorKind::NotFound.into())
            }
        },
        os_user: Some("me".to_owned()),
        home: home.map(Into::into),
    };
    let typed = Typed { text: url.to_owned(), origin: Origin::Flag("--database-url") };
    let mut problems = Vec::new();
    connection::check(Some(&typed), &inputs, &mut problems).ok_or(problems)
}

/// `user:password@host:port/database application`
fn host_text(config: &tokio_postgres::Config) -> String {
    let password = config.get_password().map(|p| String::from_utf8_lossy(p).into_owned());
    let ips = config.get_hostaddrs().iter().map(ToString::to_string);
    let hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    });
    format!(
        "{}:{}@{}:{}/{} {}",
        config.get_user().unwrap(),
        password.unwrap_or_default(),
        hosts.chain(ips).collect::<Vec<_>>().join("="),
        config.get_ports().first().unwrap(),
        config.get_dbname().unwrap(),
        config.get_application_name().unwrap(),
    )
}

#[test]
fn what_the_url_leaves_out_is_filled_as_libpq_does() {
    #[track_caller]
    fn check(url: &str, variables: &[(&str, &str)], expect: &str) {
        let connection = load(url, variables).unwrap();
        let hosts: Vec<String> = connection.hosts.iter().map(host_text).collect();
        let text = hosts.join(", ");
        assert_eq!(text, expect, "{url}");
    }
    let all = [
        ("PGHOST", "/run/pg"),
        ("PGPORT", "5499"),
        ("PGUSER", "u"),
        ("PGPASSWORD", "pw"),
        ("PGDATABASE", "d"),
        ("PGAPPNAME", "a"),
    ];
    check("", &all, "u:pw@/run/pg:5499/d a");
    check("postgres://x:y@h:1/z?application_name=q", &all, "x:y@h:1/z q");
    check("postgres://h/z", &all, "u:pw@h:5499/z a");
    check(
        "postgres://x@h1:1,[::1],[::2]:2/z",
        &all,
        "x:pw@h1:1/z a, x:pw@::1:5499/z a, x:pw@::2:2/z a",
    );
    check("host=h dbname=z", &all, "u:pw@h:5499/z a");
    check("postgres:///z?host=/run/pg", &all, "u:pw@/run/pg:5499/z a");
    check("postgres://h", &[], "me:@h:5432/me postrider");
    check("postgres://x@h", &[], "x:@h:5432/x postrider");
    check("host=h user=x password='a b'", &[], "x:a b@h:5432/x postrider");
    check("postgres://u:p%40%2Fq@h/d", &[], "u:p@/q@h:5432/d postrider");
    check("host=a,b port=7 user=x", &[], "x:@a:7/x postrider, x:@b:7/x postrider");
    check("host=a hostaddr=10.0.0.1 user=x", &[], "x:@a=10.0.0.1:5432/x postrider");
    check(
        "hostaddr=10.0.0.1,::1 user=x port=1,2",
        &[],
        "x:@10.0.0.1=10.0.0.1:1/x postrider, x:@::1=::1:2/x postrider",
    );
}

#[test]
fn a_password_may_come_from_a_file() {
    #[track_caller]
    fn check(url: &str, variables: &[(&str, &str)], home: Option<&str>, expect: &[&str]) {
        let connection = load_at(url, variables, home).unwrap();
        let password = |host: &tokio_postgres::Config| {
            String::from_utf8_lossy(host.get_password().unwrap_or_default()).into_owned()
        };
        let passwords: Vec<String> = connection.hosts.iter().map(password).collect();
        assert_eq!(passwords, expect, "{url}");
    }
    let file = [("PGPASSFILE", PASSFILE.0)];
    check("postgres://h1,h2/d", &file, None, &["of-others", "of-h2"]);
    check("host=h2 passfile=/home/me/.pgpass", &[], None, &["of-h2"]);
    check("postgres://h2/d", &[], Some("/home/me"), &["of-h2"]);
    check("postgres://h2/d", &[], Some("/home/you"), &[""]);
    check("postgres://u:typed@h2/d", &file, None, &["typed"]);
    check("postgres://h2/d", &[file[0], ("PGPASSWORD", "set")], None, &["set"]);
}

#[test]
fn mistakes_are_named_without_the_secret() {
    #[track_caller]
    fn check(url: &str, variables: &[(&str, &str)], expect: &str) {
        let problems = load(url, variables).unwrap_err();
        let text = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(text.contains(expect), "{url}: {text}");
        assert!(!text.contains("hunter"), "{text}");
    }
    check("", &[], "no database");
    check("postgres:///x", &[], "no database");
    check("mysql://u:hunter2@h/x", &[], "must begin with postgres://");
    check("postgress://u:hunter2=@h/x", &[], "must begin with postgres://");
    check("postgres://u:p@hunter2@h/x", &[], "%40");
    check("postgres://u:hunter2@h:port/x", &[], "postgres.url: port takes numbers");
    check("postgres://h/x?password=hunter2&hunter=2", &[], "an option that postrider does not");
    check("postgres://u:123?hunter=2@h/x", &[], "percent-encode it: ? is %3F");
    check("host=h password=hunter2 hunter=2", &[], "an option that postrider does not");
    check("just-a-host", &[], "can't be read");
    check("host=h", &[("PGPORT", "x")], "PGPORT: takes numbers");
    check("host=a,b port=1,2,3", &[], "port must have one port, or as many");
    check("host=a,b hostaddr=10.0.0.1", &[], "as many addresses as host has names");
    check("hostaddr=db", &[], "takes IP addresses");
    check("host=a,,b", &[], "nothing between two commas");
    check("host=h", &[("PGCONNECT_TIMEOUT", "soon")], "PGCONNECT_TIMEOUT: takes a number of sec");
    check("host=h keepalives=yes", &[], "keepalives takes 0 or 1");
    check("host=h target_session_attrs=standby", &[], "the slot is on the primary");
    check("host=h channel_binding=yes", &[], "disable, prefer or require");
    check("host=h gssencmode=require", &[], "postrider has no GSSAPI");
    check("host=h", &[("PGSERVICE", "x")], "PGSERVICE: postrider does not read service files");
    check(
        "host=h",
        &[("PGSSLCRL", "/crl")],
        "PGSSLCRL: postrider does not read certificate revocation",
    );
    check(
        "host=h",
        &[("PGSSLCRLDIR", "/crl")],
        "PGSSLCRLDIR: postrider does not read certificate revocation lists",
    );
    check(
        "host=h",
        &[("PGREQUIREAUTH", "scram-sha-256")],
        "PGREQUIREAUTH: postrider can't require",
    );
    check("host=h", &[("PGREQUIREPEER", "postgres")], "PGREQUIREPEER: postrider does not check");
    check("host=h", &[("PGREQUIRESSL", "1")], "PGREQUIRESSL: libpq has deprecated it");
    let version = ("PGSSLMINPROTOCOLVERSION", "TLSv1.3");
    check("host=h", &[version], "PGSSLMINPROTOCOLVERSION: postrider accepts TLS 1.2 and newer");
    check("host=h", &[("PGSSLMAXPROTOCOLVERSION", "TLSv1.2")], "PGSSLMAXPROTOCOLVERSION: postr");
    check("host=h", &[("PGSSLNEGOTIATION", "direct")], "PGSSLNEGOTIATION: postrider requests");
    check("host=h", &[("PGSSLCERTMODE", "require")], "PGSSLCERTMODE: postrider sends");
    check("host=h passfile=/no/such", &[], "passfile names /no/such, which can't be read");
    let url = "postgres://u:hunter2@h/x";
    check("host=h", &[("PGPASSFILE", url)], "PGPASSFILE: names a file (name withheld: ");
    let root = ("PGSSLROOTCERT", url);
    check("host=h sslmode=verify-ca", &[root], "PGSSLROOTCERT: a file (name withheld: ");
    check("host=h sslcert=a@hunter2 sslkey=/none", &[], "sslcert a file (name withheld: ");
    check("host=h sslmode=verify", &[], "sslmode takes disable, prefer,");
    check("host=h", &[("PGSSLMODE", "allow")], "PGSSLMODE: takes disable, prefer,");
    check("host=h sslmode=require sslrootcert=system", &[], "must be verify-full");
    check("host=h sslmode=verify-ca sslrootcert=/no/such", &[], "sslrootcert /no/such: can't be");
    check("host=h sslcert=/no/such", &[], "sslcert needs sslkey");
    check("host=h", &[("PGSSLKEY", "/no/such")], "PGSSLKEY: needs sslcert");
    check("host=h sslcert=/no/such sslkey=/none", &[], "sslcert /no/such: can't be read");
}

#[test]
fn variables_that_ask_for_what_is_done_anyway_are_no_mistake() {
    let harmless = [
        ("PGSSLMINPROTOCOLVERSION", "TLSv1.2"),
        ("PGSSLNEGOTIATION", "postgres"),
        ("PGSSLCERTMODE", "allow"),
        ("PGREQUIRESSL", "0"),
        ("PGSSLCRL", ""),
    ];
    assert!(load("host=h", &harmless).is_ok());
}

#[test]
fn an_authority_in_the_home_is_an_authority_that_was_named() {
    #[track_caller]
    fn check(home: &Path, url: &str, mode: TlsMode, roots: Roots) {
        let tls = load_at(url, &[], home.to_str()).unwrap().tls;
        assert_eq!((tls.mode, tls.roots), (mode, roots), "{url}");
    }
    let home = tempfile::tempdir().unwrap();
    check(home.path(), "host=h sslmode=require", TlsMode::Require, Roots::System);
    let folder = home.path().join(".postgresql");
    std::fs::create_dir(&folder).unwrap();
    let file = folder.join("root.crt");
    std::fs::write(&file, Authority::new("ours").pem()).unwrap();
    let ours = || Roots::File(file.clone());
    check(home.path(), "host=h sslmode=require", TlsMode::VerifyCa, ours());
    check(home.path(), "host=h sslmode=verify-full", TlsMode::VerifyFull, ours());
    check(home.path(), "host=h", TlsMode::Prefer, ours());
}

#[test]
fn the_mode_of_tls_is_libpqs() {
    #[track_caller]
    fn check(url: &str, variables: &[(&str, &str)], mode: TlsMode, asks: SslMode) {
        let connection = load(url, variables).unwrap();
        assert_eq!(connection.tls.mode, mode, "{url}");
        assert_eq!(connection.hosts.first().unwrap().get_ssl_mode(), asks, "{url}");
    }
    check("host=h", &[], TlsMode::Prefer, SslMode::Prefer);
    check("host=h", &[("PGSSLMODE", "verify-full")], TlsMode::VerifyFull, SslMode::Require);
    check("postgres://h/x?sslmode=disable", &[], TlsMode::Disable, SslMode::Disable);
    check("postgres://h/x?ssl=true", &[], TlsMode::Require, SslMode::Require);
    check("host=h sslrootcert=system", &[], TlsMode::VerifyFull, SslMode::Require);
    check("host=/run/pg sslmode=require", &[], TlsMode::Require, SslMode::Disable);
}

#[test]
fn a_link_that_is_cut_silently_is_noticed_by_default() {
    #[track_caller]
    fn check(url: &str, expect: (bool, [u64; 4], u32)) {
        let connection = load(url, &[]).unwrap();
        let host = connection.hosts.first().unwrap();
        let seconds = [
            host.get_connect_timeout().unwrap(),
            &host.get_keepalives_idle(),
            &host.get_keepalives_interval().unwrap(),
            host.get_tcp_user_timeout().unwrap(),
        ]
        .map(Duration::as_secs);
        let count = host.get_keepalives_retries().unwrap();
        assert_eq!((host.get_keepalives(), seconds, count), expect, "{url}");
    }
    check("host=h", (true, [10, 30, 10, 60], 3));
    // 0 means "no limit" in libpq.
    check("host=h connect_timeout=0", (true, [10, 30, 10, 60], 3));
    check(
        "host=h keepalives=0 connect_timeout=1 keepalives_idle=2 keepalives_interval=3 \
         tcp_user_timeout=4000 keepalives_count=5",
        (false, [1, 2, 3, 4], 5),
    );
    check("host=h keepalives_retries=7", (true, [10, 30, 10, 60], 7));
}
