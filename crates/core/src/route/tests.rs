//! Routes over rows: what every template, key and header becomes, NULL included.

use proptest::prelude::*;

use super::*;
use crate::event::{Event, TableRules};
use crate::order::Within;
use crate::row::tests::{Given, row, rules, text};
use crate::row::{ColumnFault, ColumnNames, ColumnRef, Source};

const TEXT: u32 = 25;
const JSON: u32 = 114;
const BOOL: u32 = 16;
const INT4: u32 = 23;
const SETTING: Option<&str> = Some("route.topic");

fn row_of<T>(
    others: &[(&str, u32, Given)],
    names: &ColumnNames,
    look: impl FnOnce(&Row<'_>) -> T,
) -> T {
    let mut columns = others.to_vec();
    for (name, type_oid, value) in [("topic", TEXT, text("orders")), ("payload", JSON, text("{}"))]
    {
        if !columns.iter().any(|(known, ..)| *known == name) {
            columns.push((name, type_oid, value));
        }
    }
    row(&columns, names, look)
}

fn rendered(template: &str, columns: &[(&str, u32, Given)]) -> Result<String, RowFault> {
    let mut names = ColumnNames::default();
    // A default, so that the row need not have the column.
    let template = Template::parse(template).unwrap().resolve(&mut names, None).unwrap();
    row_of(columns, &names, |row| template.render(row).map(Cow::into_owned))
}

#[test]
fn templates_are_literals_and_columns() {
    let columns = [
        ("tenant_id", TEXT, text("ACME")),
        ("Odd name}", TEXT, text("odd")),
        ("urgent", BOOL, text("t")),
        ("region", INT4, text("7")),
        ("tenant", TEXT, Given::Null),
    ];
    let check = |template: &str, expect: &str| {
        assert_eq!(rendered(template, &columns).as_deref(), Ok(expect), "{template}");
    };
    check("constant", "constant");
    check("", "");
    check("{topic}", "orders");
    check("outbox.event.{topic}", "outbox.event.orders");
    check("{tenant_id:lower}.{topic}.v1", "acme.orders.v1");
    check("{TENANT_ID}", "ACME");
    check("orders.{tenant|shared}.v1", "orders.shared.v1");
    check("orders.{tenant:lower|Shared}.v1", "orders.Shared.v1");
    check("{tenant|}", "");
    check("{ region }/{urgent}", "7/true");
    check("{\"Odd name}\"}", "odd");
    check("{{{topic}}}", "{orders}");
    check("{no_such_column|none}", "none");
}

#[test]
fn null_without_a_default_is_a_fault_that_names_the_column() {
    let other = |column: &str, fault| {
        let column = column.to_owned();
        Err(RowFault::Other { column, fault })
    };
    let columns = [("region", INT4, Given::Null), ("code", TEXT, Given::Text(vec![0xFF]))];
    assert_eq!(rendered("a.{region}", &columns), other("region", ColumnFault::Null));
    assert_eq!(rendered("{newer}", &columns), other("newer", ColumnFault::Absent));
    assert_eq!(rendered("{code}", &columns), other("code", ColumnFault::NotText));
    assert_eq!(rendered("{tenant}", &columns), Err(RowFault::Absent(Column::Tenant)));
    let large = [("code", TEXT, text(&"x".repeat(65_537)))];
    let fault = ColumnFault::TooLarge { bytes: 65_537, limit: 65_536 };
    assert_eq!(rendered("{code}", &large), other("code", fault));
    let five = [("code", TEXT, text(&"x".repeat(65_536)))];
    let fault = Err(RowFault::TextTooLong { limit: 256 * 1024 });
    assert_eq!(rendered("{code}{code}{code}{code}{code}", &five), fault);
}

#[test]
fn what_is_no_template_is_refused() {
    for (template, expect) in [
        ("{topic", TemplateError::Brace),
        ("topic}", TemplateError::Brace),
        ("{\"topic}", TemplateError::Brace),
        ("{}", TemplateError::NoColumn),
        ("{\"\"}", TemplateError::NoColumn),
        ("{a b}", TemplateError::Name("a b".to_owned())),
        ("{1st}", TemplateError::Name("1st".to_owned())),
        ("{topic:upper}", TemplateError::Modifier("upper".to_owned())),
    ] {
        assert_eq!(Template::parse(template), Err(expect), "{template}");
    }
}

/// A name means our column first, wherever the table has it; in quotes it means the table's.
#[test]
fn a_name_is_ours_before_it_is_the_tables() {
    let mut names = ColumnNames::default();
    names.map(Column::Topic, "destination".to_owned());
    names.map(Column::Tenant, String::new());
    let mut find = |name: &str, is_quoted| {
        let column = ColumnRef { name: name.to_owned(), is_quoted };
        names.source(&column, SETTING)
    };
    assert_eq!(find("topic", false), Some(Source::Ours(Column::Topic)));
    assert_eq!(find("destination", false), Some(Source::Ours(Column::Topic)));
    assert_eq!(find("topic", true), Some(Source::Other(0)));
    assert_eq!(find("region", false), Some(Source::Other(1)));
    assert_eq!(find("region", true), Some(Source::Other(1)));
    assert_eq!(find("created_at", false), Some(Source::Other(2)));
    assert_eq!(find("tenant", false), None);
    assert_eq!(names.others(), ["topic", "region", "created_at"]);
    assert!(names.reads("region") && names.reads("destination") && !names.reads("tenant"));
    let wanted: Vec<_> = names.wanted().map(|(name, _)| name).collect();
    assert_eq!(wanted, ["destination", "payload", "topic", "region", "created_at"]);
}

fn key(list: &[&str], names: &mut ColumnNames) -> KeyList {
    KeyList::parse(list.iter().copied()).unwrap().resolve(names, None).unwrap()
}

#[test]
fn keys_are_the_first_value_of_a_list() {
    let check = |list: &[&str], columns: &[(&str, u32, Given)], expect: Option<&str>| {
        let mut names = ColumnNames::default();
        let list = key(list, &mut names);
        let value = row_of(columns, &names, |row| {
            list.find(row).map(|it| it.map(|key| key.text.into_owned()))
        });
        assert_eq!(value.unwrap().as_deref(), expect);
    };
    let both = [("idempotency_key", TEXT, text("i")), ("ordering_key", TEXT, text("o"))];
    check(&["ordering_key", "idempotency_key"], &both, Some("o"));
    check(&["idempotency_key"], &both, Some("i"));
    check(&["customer", "ordering_key"], &both, Some("o"));
    check(&["customer"], &both, None);
    check(&[], &both, None);
    check(&["idempotency_key"], &[("id", INT4, text("7"))], Some("7"));
    check(&["\"Customer\""], &[("Customer", TEXT, text(""))], Some(""));
}

/// Events keep their order by what decides their partition.
#[test]
fn the_order_follows_the_partition() {
    let columns = [
        ("idempotency_key", TEXT, text("i")),
        ("ordering_key", TEXT, text("o")),
        ("customer", TEXT, text("c")),
        ("nothing", TEXT, Given::Null),
    ];
    let check = |by: &[&str], partition_by: &[&str], expect: Option<&str>| {
        let mut names = ColumnNames::default();
        let (by, partition_by) = (key(by, &mut names), key(partition_by, &mut names));
        let route = Route { key: by, partition_by, ..Route::default() };
        let found = row_of(&columns, &names, |row| {
            let order = route.order_key(row).unwrap();
            assert_eq!(order.map(|it| it.within), expect.map(|key| Within::Key(key.to_owned())),);
            route.ordering_key(row).unwrap().map(Cow::into_owned)
        });
        assert_eq!(found.as_deref(), expect);
    };
    check(&["ordering_key", "idempotency_key"], &[], Some("o"));
    check(&["idempotency_key"], &[], None);
    check(&["idempotency_key"], &["ordering_key"], Some("o"));
    check(&["ordering_key"], &["customer"], Some("c"));
    check(&["ordering_key"], &["nothing"], Some("o"));
    check(&["id"], &["nothing"], None);
}

/// The headers of the configuration in a record's order; `None` in place of a value omits one.
fn placed(
    defaults: bool,
    rules_: &[(&str, Option<&str>)],
    columns: &[(&str, u32, Given)],
) -> Vec<(String, String)> {
    let mut names = ColumnNames::default();
    let parsed: Vec<_> = rules_
        .iter()
        .map(|(name, value)| HeaderRule {
            name: (*name).to_owned(),
            value: value.map(|value| Template::parse(value).unwrap()),
        })
        .collect();
    let headers = HeaderRules::resolve(defaults, &parsed, &mut names, None).unwrap();
    let route = Route { headers, ..Route::default() };
    let envelope = crate::envelope::Envelope { tables: vec![TableRules { route, ..rules() }] };
    row_of(columns, &names, |row| {
        let event = envelope.event(row).unwrap();
        let record = envelope.original(&event).unwrap();
        let text = |it: &Option<Cow<'_, [u8]>>| {
            String::from_utf8(it.as_deref().unwrap_or(b"NULL").to_vec()).unwrap()
        };
        record.headers.iter().map(|it| (it.name.to_string(), text(&it.value))).collect()
    })
}

#[test]
fn headers_are_placed_renamed_and_omitted() {
    let columns = [
        ("id", INT4, text("7")),
        ("idempotency_key", TEXT, text("i")),
        ("type", TEXT, text("paid")),
        ("tenant_id", TEXT, text("acme")),
        ("headers", JSON, text(r#"{"id":"mine","x":"1"}"#)),
    ];
    let check = |defaults, rules: &[(&str, Option<&str>)], expect: &[(&str, &str)]| {
        let found = placed(defaults, rules, &columns);
        let found: Vec<_> = found.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(found, expect);
    };
    let (id, key, kind) = (("id", "7"), ("idempotency-key", "i"), ("type", "paid"));
    check(true, &[], &[id, key, kind, ("x", "1")]);
    let rules = [
        ("eventType", Some("{type}")),
        ("tenant_id", Some("{tenant_id}")),
        ("source", Some("shop")),
        ("left-out", Some("a-{tenant}")),
    ];
    let ours = [("eventType", "paid"), ("tenant_id", "acme"), ("source", "shop")];
    // Nobody's identity is protected where there is none.
    let own = [("id", "mine"), ("x", "1")];
    check(false, &rules, &[&ours[..], &own].concat());
    check(true, &rules, &[&[id, key, kind][..], &ours, &[("x", "1")]].concat());
    // Renamed.
    let renamed = [("type", None), ("eventType", Some("{type}"))];
    check(true, &renamed, &[id, key, ("eventType", "paid"), ("x", "1")]);
    // Replaced.
    check(true, &[("type", Some("v2.{type}"))], &[id, key, ("type", "v2.paid"), ("x", "1")]);
}

/// A preset without default headers must not bring them back where a table lacks its column.
#[test]
fn a_header_that_is_only_a_default_is_left_out_where_its_column_is() {
    let mut names = ColumnNames::default();
    names.map(Column::Id, String::new());
    let value = Some(Template::parse("{id}").unwrap());
    let rules = [HeaderRule { name: "id".to_owned(), value }];
    let resolved = HeaderRules::resolve(false, &rules, &mut names, None).unwrap();
    assert!(resolved.placed().is_empty() && !resolved.has(DefaultHeader::Id));
    let setting = Some("route.headers");
    let refused = HeaderRules::resolve(false, &rules, &mut names, setting);
    assert_eq!(refused, Err("id".to_owned()));
}

#[test]
fn illegal_topics_are_known_before_they_are_sent() {
    let long = "x".repeat(249);
    for topic in ["a", "A.b_c-9", "...", &long] {
        assert!(is_legal_topic(topic), "{topic}");
    }
    for topic in ["", ".", "..", "a b", "ä", "a/b", &"x".repeat(250)] {
        assert!(!is_legal_topic(topic), "{topic}");
    }
}

proptest! {
    #[test]
    fn any_text_is_a_template_or_refused(text in "[{}|:\"a-z 0-9é]{0,24}") {
        if let Ok(template) = Template::parse(&text) {
            let mut names = ColumnNames::default();
            let template = template.resolve(&mut names, SETTING).unwrap();
            // As it is shown, it can be typed again.
            let shown = template.to_string();
            let again = Template::parse(&shown).unwrap().resolve(&mut names, SETTING).unwrap();
            prop_assert_eq!(again.to_string(), shown);
        }
    }

    #[test]
    fn rendering_never_panics_and_is_deterministic(
        template in "(\\{(topic|tenant|region|\"X\")(:lower)?(\\|[a-z]{0,3})?\\}|[a-z.]{1,3}){0,5}",
        region in prop::collection::vec(any::<u8>(), 0..20),
        is_null in any::<bool>(),
    ) {
        let region = if is_null { Given::Null } else { Given::Text(region) };
        let columns = [("region", TEXT, region)];
        prop_assert_eq!(rendered(&template, &columns), rendered(&template, &columns));
    }

    #[test]
    fn any_bytes_in_any_column_make_an_event_or_a_fault(
        key in prop::collection::vec(any::<u8>(), 0..20),
        headers in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let columns =
            [("ordering_key", TEXT, Given::Text(key)), ("headers", JSON, Given::Text(headers))];
        row_of(&columns, &ColumnNames::default(), |row| drop(Event::from_row(row, &rules())));
    }
}
