//! The database's address.

use std::collections::BTreeMap;
use std::io;

use crate::config::connection;
use crate::config::problem::{Origin, Problem};
use crate::config::raw::Typed;
use crate::config::{Flags, Inputs};

fn load(url: &str, variables: &[(&str, &str)]) -> Result<tokio_postgres::Config, Vec<Problem>> {
    let inputs = Inputs {
        flags: Flags::default(),
        variables: variables
            .iter()
            .map(|(k, v)| (k.to_string(), v.to_string()))
            .collect::<BTreeMap<_, _>>(),
        read: &|_| Err(io::ErrorKind::NotFound.into()),
        os_user: Some("me".to_owned()),
    };
    let typed = Typed { text: url.to_owned(), origin: Origin::Flag("--database-url") };
    let mut problems = Vec::new();
    connection::check(Some(&typed), &inputs, &mut problems).ok_or(problems)
}

#[test]
fn what_the_url_leaves_out_is_filled_as_libpq_does() {
    #[track_caller]
    fn check(url: &str, variables: &[(&str, &str)], expect: &str) {
        let config = load(url, variables).unwrap();
        let password = config.get_password().map(|p| String::from_utf8_lossy(p).into_owned());
        let text = format!(
            "{:?} {:?} {}:{}@{} {}",
            config.get_hosts(),
            config.get_ports(),
            config.get_user().unwrap(),
            password.unwrap_or_default(),
            config.get_dbname().unwrap(),
            config.get_application_name().unwrap(),
        );
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
    check("", &all, r#"[Unix("/run/pg")] [5499] u:pw@d a"#);
    check("postgres://x:y@h:1/z?application_name=q", &all, r#"[Tcp("h")] [1] x:y@z q"#);
    check("postgres://h/z", &all, r#"[Tcp("h")] [5499] u:pw@z a"#);
    check(
        "postgres://x@h1:1,[::1],[::2]:2/z",
        &all,
        r#"[Tcp("h1"), Tcp("::1"), Tcp("::2")] [1, 5499, 2] x:pw@z a"#,
    );
    check("host=h dbname=z", &all, r#"[Tcp("h")] [5499] u:pw@z a"#);
    check("postgres:///z?host=/run/pg", &all, r#"[Unix("/run/pg")] [5499] u:pw@z a"#);
    check("postgres://h", &[], r#"[Tcp("h")] [5432] me:@me postrider"#);
    check("postgres://x@h", &[], r#"[Tcp("h")] [5432] x:@x postrider"#);
    check("host=h user=x password='a b'", &[], r#"[Tcp("h")] [5432] x:a b@x postrider"#);
    check("postgres://u:p%40%2Fq@h/d", &[], r#"[Tcp("h")] [5432] u:p@/q@d postrider"#);
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
    check("postgres://u:hunter2@h:port/x", &[], "invalid value for option `port`");
    check("postgres://h/x?password=hunter2&hunter=2", &[], "an option that postrider does not");
    check("host=h password=hunter2 hunter=2", &[], "an option that postrider does not");
    check("just-a-host", &[], "can't be read");
    check("postgres://h/x?sslmode=require", &[], "does not support yet");
    check("host=h sslmode=verify-full", &[], "does not support yet");
    check("postgres://h/x", &[("PGSSLMODE", "verify-full")], "PGSSLMODE: verify-full asks");
    check("host=h", &[("PGPORT", "x")], "PGPORT: \"x\" is no port");
}

#[test]
fn tls_that_is_only_preferred_is_no_mistake() {
    assert!(load("postgres://h/x?sslmode=prefer", &[("PGSSLMODE", "require")]).is_ok());
    assert!(load("postgres://h/x", &[("PGSSLMODE", "prefer")]).is_ok());
    assert!(load("postgres://h/x", &[]).is_ok());
}
