//! The tables' names for our columns: for all tables, and for one.

use super::*;
use postrider_core::format::ValueFormat;
use postrider_core::row::Column;

const TABLES: (&str, &str) = ("POSTRIDER_TABLES", "outbox,orders.outbox");

#[track_caller]
fn load(file: &str, variables: &[(&str, &str)]) -> Vec<OutboxTable> {
    let variables = [&[URL, BROKERS, TABLES], variables].concat();
    let files = [("postrider.toml", file)];
    Given { files: &files, variables: &variables, ..Given::default() }
        .load()
        .unwrap()
        .postgres
        .tables
}

#[track_caller]
fn problems(file: &str, variables: &[(&str, &str)]) -> Vec<String> {
    let variables = [&[URL, BROKERS, TABLES], variables].concat();
    Given { files: &[("postrider.toml", file)], variables: &variables, ..Given::default() }
        .problems()
}

fn each<'a, T>(tables: &'a [OutboxTable], what: impl Fn(&'a OutboxTable) -> T) -> Vec<T> {
    tables.iter().map(what).collect()
}

/// A table's names for topic, payload and ordering key.
fn called(table: &OutboxTable) -> [&str; 3] {
    [Column::Topic, Column::Payload, Column::OrderingKey].map(|column| table.columns.of(column))
}

#[test]
fn columns_are_mapped_in_the_file_and_the_environment() {
    let file = "postgres.columns = { topic = 'destination', ordering_key = '\"Odd, =\"' }";
    let tables = load(file, &[]);
    assert_eq!(each(&tables, called), [["destination", "payload", "Odd, ="]; 2]);
    let check = |value, expect: [&str; 3]| {
        let tables = load(file, &[("POSTRIDER_POSTGRES_COLUMNS", value)]);
        assert_eq!(each(&tables, called), [expect; 2]);
    };
    check(r#" payload = "Body" , topic=Subject"#, ["subject", "Body", "Odd, ="]);
    check(r#"topic="a=b,c""""#, ["a=b,c\"", "payload", "Odd, ="]);
    // The table has no such column.
    check("ordering_key=", ["destination", "payload", ""]);
    let files = [("/run/columns", "payload=body\n")];
    let variables = [URL, BROKERS, ("POSTRIDER_POSTGRES_COLUMNS_FILE", "/run/columns")];
    let given = Given { files: &files, variables: &variables, ..Given::default() };
    assert_eq!(called(&given.load().unwrap().postgres.tables[0])[1], "body");
}

#[test]
fn a_preset_gives_way_to_columns() {
    let debezium = [("POSTRIDER_POSTGRES_PRESET", "debezium")];
    let tables = load("", &debezium);
    assert_eq!(called(&tables[0]), ["aggregatetype", "payload", "aggregateid"]);
    assert_eq!(tables[0].columns.of(Column::IdempotencyKey), "id");
    let tables = load("postgres.columns.topic = 'destination'", &debezium);
    assert_eq!(called(&tables[1]), ["destination", "payload", "aggregateid"]);
}

#[test]
fn what_a_section_sets_holds_for_its_table_alone() {
    let file = "
        [postgres]
        columns = { topic = 'destination' }
        [tables.\"Orders.Outbox\"]
        preset = 'debezium'
        columns = { payload = 'body' }
        format.value = 'protobuf'
        [tables.outbox]
        preset = 'none'";
    let tables = load(file, &[("POSTRIDER_POSTGRES_PRESET", "debezium")]);
    assert_eq!(called(&tables[0]), ["destination", "payload", "ordering_key"]);
    assert_eq!(called(&tables[1]), ["aggregatetype", "body", "aggregateid"]);
    assert_eq!(
        each(&tables, |table| table.format.value),
        [ValueFormat::Raw, ValueFormat::Protobuf]
    );
}

#[test]
fn everything_wrong_with_columns_is_said_at_once() {
    let file = "\
[postgres]
preset = 'maxwell'
[postgres.columns]
topik = 'a'
payload = 5
tenant = 'a b'
created_at = 'made at'
topic = ''
[tables.\"nowhere.outbox\"]
[tables.outbox]
columns = { key = 'a' }
colunms = {}
format = 'raw'
[tables.\"public.outbox\"]
preset = ['debezium']
[tables.orders.outbox]
format.value = 'raw'
[tables.\"orders.outbox\"]
format.value = 'xml'
format.sauce = 'x'
route.topic = '{x'
";
    let wrong = problems(file, &[("POSTRIDER_POSTGRES_COLUMNS", "headers=\"open,id=a,id=b")]);
    let expect = [
        "postrider.toml:2: postgres.preset = \"maxwell\": choose debezium, quarkus, open-outbox or none",
        "postrider.toml:4: postgres.columns.topik: unknown column; did you mean topic?",
        "postrider.toml:5: postgres.columns.payload takes a column's name in quotes",
        "postrider.toml:6: postgres.columns.tenant: \"a b\": letters, digits",
        "postrider.toml:7: postgres.columns.created_at: \"made at\": letters, digits",
        "orders.outbox has no topic column (postgres.columns.topic is empty); set route.topic",
        "postrider.toml:9: tables.\"nowhere.outbox\": nowhere.outbox is not in postgres.tables",
        "postrider.toml:11: tables.\"outbox\".columns.key: unknown column; \
         the outbox columns are topic, payload",
        "postrider.toml:12: unknown key tables.\"outbox\".colunms; did you mean columns?",
        "postrider.toml:13: tables.\"outbox\".format is a section that contains value, source",
        "postrider.toml:14: tables.\"public.outbox\": public.outbox has two sections",
        "postrider.toml:15: tables.\"public.outbox\".preset takes one value",
        "postrider.toml:16: unknown key tables.\"orders\".outbox; did you mean \
         [tables.\"orders.outbox\"]?",
        "postrider.toml:19: tables.\"orders.outbox\".format.value = \"xml\": choose raw",
        "postrider.toml:20: unknown key tables.\"orders.outbox\".format.sauce; did you mean format.source?",
        "postrider.toml:21: tables.\"orders.outbox\".route.topic = \"{x\": a brace is not closed",
        "POSTRIDER_POSTGRES_COLUMNS: postgres.columns.headers: \"\\\"open,id=a,id=b\": a quote",
    ];
    for part in expect {
        assert!(wrong.iter().any(|problem| problem.starts_with(part)), "{part}\nnot in {wrong:#?}");
    }
    assert_eq!(wrong.len(), expect.len(), "{wrong:#?}");
}

#[test]
fn a_variable_of_columns_is_read_whole_or_not_at_all() {
    #[track_caller]
    fn check(value: &str, expect: &str) {
        let expect = format!("POSTRIDER_POSTGRES_COLUMNS: postgres.columns = {value:?}: {expect}");
        assert_eq!(problems("", &[("POSTRIDER_POSTGRES_COLUMNS", value)]), [expect]);
    }
    check("id=a,id=b", "id appears twice; name each column once");
    check("topic", "\"topic\": write it as in topic=destination,payload=body");
    check("topic=a,", "\"\": write it as in topic=destination,payload=body");
}

#[test]
fn sections_of_tables_are_for_the_file() {
    let wrong = problems("tables = 1", &[("POSTRIDER_TABLES_ORDERS_OUTBOX_PRESET", "debezium")]);
    assert_eq!(
        wrong[0],
        "postrider.toml:1: tables contains sections: write [tables.\"orders.outbox\"]"
    );
    assert!(wrong[1].contains("POSTRIDER_TABLES_ORDERS_OUTBOX_PRESET: unknown variable"));
    assert_eq!(wrong.len(), 2, "{wrong:?}");
}

#[test]
fn a_table_in_postriders_own_schema_is_refused() {
    let problems = problems("", &[("POSTRIDER_TABLES", "outbox,postrider.outbox")]);
    assert!(problems.iter().any(|it| it.contains("postrider.outbox: schema")), "{problems:?}");
}

#[test]
fn cloud_events_have_what_they_need_or_are_refused() {
    let file = "\
[format]
value = 'cloudevents-binary'
[route.headers]
ce_id = '{tenant}'
ce_subject = '{ordering_key}'
content-type = 'text/plain'
[postgres]
columns = { type = '' }";
    let wrong = problems(file, &[]);
    let expect = [
        "postrider.toml:2: format.value = cloudevents-binary: CloudEvents need a source",
        "postrider.toml:2: format.type (by default {type}) names column type, which the table does \
         not have: postgres.columns.type is empty",
        "postrider.toml:4: route.headers.ce_id: in format cloudevents-binary, the format sets",
        "postrider.toml:4: route.headers.content-type: in format cloudevents-binary, consumers",
    ];
    for part in expect {
        assert!(wrong.iter().any(|problem| problem.starts_with(part)), "{part}\nnot in {wrong:#?}");
    }
    assert_eq!(wrong.len(), expect.len(), "{wrong:#?}");
    // The table must have the column that decides the type.
    let file = "[format]\nvalue = 'cloudevents-binary'\nsource = 'shop'";
    let named = |file: &str| {
        let tables = load(file, &[]);
        tables[0].columns.named().map(|(name, by)| format!("{name}: {by}")).collect::<Vec<_>>()
    };
    assert_eq!(named(file), ["type: format.type (by default {type})"]);
    assert!(named(&format!("{file}\ntype = 'order.paid'")).is_empty());
}

#[test]
fn settings_of_schemas_that_have_no_effect_are_refused() {
    let check = |file: &str, expect: &str| {
        let wrong = problems(file, &[]);
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong[0].contains(expect), "{wrong:?}");
    };
    check("format.message_index = 1", "format.message_index says which message of a schema");
    check(
        "format.registry_ca = '/ca.pem'",
        "format.registry_ca is set, but format.registry is not",
    );
    check("format.subject = 'orders'", "format.subject: subjects are looked up in a registry");
    check("format.schema_in = 'header'\nformat.schema_id = 7", "only the registry knows");
    check("format.schema_id = 'seven'", "a schema's id is a number");
    check("format.value = 'cloudevents-binary'", "CloudEvents need a source");
}
