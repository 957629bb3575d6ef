//! Names that need quotes, for everything that can have one.

use super::{SOON, prepared};
use crate::harness::metrics::metric_sum;
use testkit::wait::wait_until;

const DATABASE: &str = "Größe, 'the' db.1";
const ROLE: &str = "Rôle of \"Post\", 'Rider'";

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[test]
fn names_with_dots_quotes_spaces_commas_and_non_ascii_letters_work() {
    let mut fixture = prepared("odd", "select 1");
    let mut admin = fixture.postgres().client("postgres");
    let database = format!("{DATABASE} {}", fixture.database());
    let role = format!("{ROLE} {}", fixture.database());
    for sql in [
        format!("create database {}", quoted(&database)),
        format!("create role {} login superuser password 'pw'", quoted(&role)),
    ] {
        admin.batch_execute(&sql).unwrap();
    }
    let escaped = |text: &str| text.replace('\\', "\\\\").replace('\'', "\\'");
    let url = format!(
        "host=127.0.0.1 port={} dbname='{}' user='{}' password=pw",
        fixture.postgres().port(),
        escaped(&database),
        escaped(&role),
    );
    fixture.set("POSTRIDER_DATABASE_URL", &url);
    fixture.set("POSTRIDER_PUBLICATION", "Pub, \"of\" 'Größe'.1");
    fixture.set("POSTRIDER_TABLES", r#""Sché, ma.1"."Täble ""1"", 'x' %",größe.plain"#);
    let columns = r#"topic="Tö, ""pic""=1.x",payload="päyload 'x'",ordering_key=größe"#;
    fixture.set("POSTRIDER_POSTGRES_COLUMNS", columns);
    let mut config: postgres::Config = url.parse().unwrap();
    let mut client = config.application_name("harness").connect(postgres::NoTls).unwrap();
    client
        .batch_execute(
            r#"create schema "Sché, ma.1";
               create table "Sché, ma.1"."Täble ""1"", 'x' %"
                   ("Tö, ""pic""=1.x" text, "päyload 'x'" text, größe text)"#,
        )
        .unwrap();
    // The other table is created.
    fixture.migrate();
    let topic = fixture.create_topic("orders", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    for table in [r#""Sché, ma.1"."Täble ""1"", 'x' %""#, "größe.plain"] {
        let columns = r#""Tö, ""pic""=1.x", "päyload 'x'", größe"#;
        let insert = format!("insert into {table} ({columns}) values ($1, '\"ö\"', 'ß')");
        client.execute(&insert, &[&topic]).unwrap();
    }
    let records = fixture.consumer().read_n(2, SOON);
    for record in &records {
        assert_eq!((record.key_text(), record.value_text()), (Some("ß"), Some("\"ö\"")));
    }
    wait_until("both to be counted", SOON, || {
        metric_sum(fixture.relay(), "outbox_published_total") == 2.0
    });
    let (_, metrics) = fixture.relay().http_get("/metrics").unwrap();
    let label = r#"table="\"Sché, ma.1\".\"Täble \"\"1\"\", 'x' %\"""#;
    assert!(metrics.contains(label), "{label} is not in\n{metrics}");
    assert!(metrics.contains("table=\"größe.plain\""), "{metrics}");

    fixture.relay().terminate();
    assert!(fixture.relay().wait_exit(SOON).success());
    drop(client);
    fixture.postgres().drop_slot(fixture.slot()).unwrap();
    admin.batch_execute(&format!("drop database {} with (force)", quoted(&database))).unwrap();
    admin.batch_execute(&format!("drop role {}", quoted(&role))).unwrap();
}
