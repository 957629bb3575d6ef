//! `[debezium]`: what is read, and what is refused.

use super::*;
use postrider_core::connect::Converter;
use postrider_core::debezium::{Place, Profile};
use postrider_core::row::Column;

const PRESET: &str = "postgres.preset = 'debezium'\n";

fn load(file: &str, variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let variables = [&[URL, BROKERS], variables].concat();
    let files = [("postrider.toml", file)];
    Given { files: &files, variables: &variables, ..Given::default() }.load()
}

#[track_caller]
fn table(file: &str, variables: &[(&str, &str)]) -> OutboxTable {
    load(file, variables).unwrap().postgres.tables.remove(0)
}

/// The problems of a file, without the preset's line.
#[track_caller]
fn problems(file: &str) -> Vec<String> {
    let error = load(&format!("{PRESET}{file}"), &[]).expect_err("it was accepted");
    error.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn options_are_read_with_and_without_quotes_and_from_variables() {
    let file = "
        [postgres]
        preset = 'debezium'
        [debezium]
        profile = 'server'
        value = 'json'
        'table.field.event.key' = 'customer'
        route.by.field = 'kind'
        'table.fields.additional.placement' = ' type : HEADER : eventType, n:partition'";
    let variables = [
        ("POSTRIDER_DEBEZIUM_KEY", "bytes"),
        ("POSTRIDER_DEBEZIUM_VALUE", "json-with-schemas"),
        ("POSTRIDER_DEBEZIUM_ROUTE_TOMBSTONE_ON_EMPTY_PAYLOAD", "TRUE"),
    ];
    let table = table(file, &variables);
    let options = table.debezium.as_ref().unwrap().options();
    assert_eq!(options.profile, Profile::Server);
    assert_eq!((options.key, options.value), (Converter::Bytes, Converter::JsonWithSchemas));
    assert!(options.tombstone_on_blank);
    let placed: Vec<_> =
        options.placements.iter().map(|it| (it.place, it.alias.as_str())).collect();
    assert_eq!(placed, [(Place::Header, "eventType"), (Place::Partition, "n")]);
    let called = [Column::Topic, Column::OrderingKey, Column::Id, Column::Payload];
    assert_eq!(
        called.map(|column| table.columns.of(column)),
        ["kind", "customer", "id", "payload"]
    );
    // Debezium Server ignores it.
    assert_eq!(table.columns.of(Column::Partition), "");
}

#[test]
fn a_partition_is_read_from_the_column_that_is_placed_there() {
    let file = format!(
        "{PRESET}[debezium]\n'table.fields.additional.placement' = 'a:partition,b:partition'"
    );
    let table = table(&file, &[]);
    assert_eq!(table.columns.of(Column::Partition), "b");
    let none = self::table(PRESET, &[]);
    // Columns of ours that Debezium knows nothing of.
    assert_eq!([Column::Partition, Column::Headers].map(|it| none.columns.of(it)), ["", ""]);
}

#[test]
fn another_format_makes_other_records_of_the_same_table() {
    let raw = table(&format!("{PRESET}format.value = 'raw'"), &[]);
    assert!(raw.debezium.is_some());
    let json = table(&format!("{PRESET}format.value = 'json'"), &[]);
    assert!(json.debezium.is_none() && json.route.topic_router.is_some());
    let topic = table(&format!("{PRESET}route.topic = 'orders'"), &[]);
    assert!(topic.debezium.is_some() && topic.route.topic_router.is_none());
    assert!(table("postgres.preset = 'open-outbox'", &[]).debezium.is_none());
}

#[test]
fn columns_can_be_named_in_either_place() {
    let file = format!("{PRESET}postgres.columns = {{ payload = 'body' }}");
    let table = table(&file, &[]);
    assert_eq!(table.debezium.unwrap().options().columns.payload, "body");
    let both = "postgres.columns.payload = 'body'\ndebezium.'table.field.event.payload' = 'b'";
    let expect = "postrider.toml:3: debezium.\"table.field.event.payload\" is \"b\", but \
                  postgres.columns.payload is \"body\"; keep one of them";
    assert_eq!(problems(both), [expect]);
    let none = problems("postgres.columns.id = ''");
    let expect = "postgres.columns.id is empty, but with this preset public.outbox needs a column \
                  for it";
    assert_eq!(none, [expect]);
    let own = format!(
        "{PRESET}[debezium]\n'table.field.event.payload' = 'b'\n\
         [tables.\"public.outbox\"]\ncolumns.payload = 'body'"
    );
    let table = self::table(&own, &[]);
    assert_eq!(table.debezium.unwrap().options().columns.payload, "body");
}

#[test]
fn what_is_wrong_is_said_all_at_once() {
    let wrong = problems(
        "[debezium]
profil = 'server'
value = 'avro'
header = 'simpel'
tracing.operation.name = 'x'
'table.field.additional.missing' = 'warn'
'table.fields.additional.placement' = 'a:heder'
'table.json.payload.null.behavior' = 'optional_bytes'
'table.expand.json.payload' = 'yes'
'database.password' = 'x'
'route.by.field' = ''",
    );
    let expect = [
        "postrider.toml:3: unknown key debezium.profil; did you mean debezium.profile?",
        "postrider.toml:4: debezium.value = \"avro\": choose string, json, json-with-schemas or bytes",
        "postrider.toml:5: debezium.header = \"simpel\": choose simple, json or json-with-schemas",
        "postrider.toml:6: debezium.\"tracing.operation.name\": postrider writes no spans; remove it",
        "postrider.toml:7: debezium.\"table.field.additional.missing\" = \"warn\": choose error or ignore",
        "postrider.toml:8: debezium.\"table.fields.additional.placement\" = \"a:heder\": \"a:heder\": \
         write column:header",
        "postrider.toml:9: debezium.\"table.json.payload.null.behavior\" has no effect without",
        "postrider.toml:10: debezium.\"table.expand.json.payload\" = \"yes\": choose true or false",
        "postrider.toml:11: unknown key debezium.\"database.password\"; only options of the Outbox",
        "postrider.toml:12: debezium.\"route.by.field\" = \"\": name a column",
    ];
    for part in expect {
        assert!(wrong.iter().any(|problem| problem.starts_with(part)), "{part}\nnot in {wrong:#?}");
    }
    assert_eq!(wrong.len(), expect.len(), "{wrong:#?}");
}

#[test]
fn options_without_an_effect_are_refused() {
    let check = |file: &str, part: &str| {
        let wrong = problems(file);
        assert!(wrong.len() == 1 && wrong[0].contains(part), "{part}\nnot in {wrong:#?}");
    };
    check(
        "format.value = 'json'\ndebezium.value = 'json'",
        "debezium.value has no effect with this format.value; remove one of them",
    );
    check(
        "format.value = 'json'\ndebezium.'table.op.invalid.behavior' = 'fatal'",
        "debezium.\"table.op.invalid.behavior\" has no effect with this format.value",
    );
    check(
        "route.headers = { id = '{id}' }",
        "route.headers.id: the preset adds this header itself",
    );
    // One table is enough.
    let file = format!(
        "{PRESET}[debezium]\nvalue = 'json'\n'route.topic.regex' = '(.*)'\n\
         'route.topic.replacement' = 'x.$1'\n\
         [tables.\"public.b\"]\nformat.value = 'json'\nroute.topic = 'b'"
    );
    let tables = load(&file, &[("POSTRIDER_TABLES", "outbox,b")]).unwrap().postgres.tables;
    assert!(tables[0].debezium.is_some() && tables[1].debezium.is_none());
    check(
        "route.key = ['id']",
        "route.key has no effect here, because Debezium's options decide the key; set \
         debezium.\"table.field.event.key\" instead",
    );
    check(
        "route.topic = 'x'\ndebezium.'route.topic.replacement' = 'y'",
        "debezium.\"route.topic.replacement\" has no effect with this route.topic",
    );
    check(
        "debezium.value = 'json-with-schemas'\n\
         debezium.'table.fields.additional.placement' = 'a:envelope'",
        "set debezium.\"topic.prefix\"",
    );
    let error = load("debezium.profile = 'server'", &[]).expect_err("no preset");
    let text = error.problems[0].to_string();
    assert!(text.contains("debezium.profile has no effect without postgres.preset"), "{text}");
}
