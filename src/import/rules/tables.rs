//! Which tables are outbox tables.

use super::router::elsewhere;
use crate::config::TableName;
use crate::import::connector::Connector;
use crate::import::draft::Draft;
use crate::import::finding::Kind;
use crate::import::setting::{Setting, Value, list, one_line};

/// What else decides which tables Debezium reads.
const OTHERS: [&str; 4] =
    ["table.exclude.list", "schema.include.list", "schema.exclude.list", "table.whitelist"];

pub(super) fn write(connector: &mut Connector, draft: &mut Draft) {
    let others: Vec<String> =
        OTHERS.iter().filter_map(|option| Some(connector.take(option)?.place())).collect();
    match connector.take("table.include.list") {
        Some(setting) => {
            for other in others {
                let meaning = "postgres.tables names each table, so it is not needed";
                draft.find(Kind::Operators, &other, meaning);
            }
            included(&setting, draft);
        }
        None => {
            let why = match others.as_slice() {
                [] => "table.include.list is not set, so the connector reads all tables".to_owned(),
                others => format!("the connector's tables are those of {}", others.join("; ")),
            };
            draft
                .fill_in("tables", &format!("the outbox tables, as in [\"public.outbox\"]; {why}"));
            draft.find(Kind::FillIn, "postgres.tables", &why);
        }
    }
}

fn included(setting: &Setting, draft: &mut Draft) {
    let text = match &setting.value {
        Value::Text(text) => text,
        Value::Elsewhere(reference) => {
            return elsewhere("tables", reference, setting, draft);
        }
    };
    let mut tables: Vec<String> = Vec::new();
    let mut patterns = Vec::new();
    for pattern in list(text) {
        match table(pattern) {
            Some(table) => {
                let table = table.to_string();
                if pattern.contains(char::is_uppercase) {
                    let meaning = format!(
                        "{} is written as {table}, as SQL reads it without quotes; if the table was \
                         created with quotes, write its name in quotes: \"public.\\\"Outbox\\\"\"",
                        one_line(pattern)
                    );
                    draft.find(Kind::Operators, &setting.place(), &meaning);
                }
                if !tables.contains(&table) {
                    tables.push(table);
                }
            }
            None => patterns.push(pattern),
        }
    }
    for pattern in &patterns {
        let meaning = format!(
            "{} is a regular expression: add the outbox tables that it matches to postgres.tables",
            one_line(pattern)
        );
        draft.find(Kind::FillIn, &setting.place(), &meaning);
    }
    let place = setting.place();
    match (tables.is_empty(), patterns.as_slice()) {
        (true, []) => draft.fill_in("tables", &format!("{place} names none")),
        (true, patterns) => {
            draft.fill_in("tables", &format!("what {} matches, {place}", patterns.join(", ")));
        }
        (false, []) => draft.copy("tables", tables, setting),
        (false, patterns) => {
            let why = format!("from {place}; add what {} matches", patterns.join(", "));
            draft.set("tables", tables, &why);
        }
    }
}

/// The table of an expression that is only a name.
fn table(pattern: &str) -> Option<TableName> {
    let pattern = pattern.replace("\\.", ".");
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !pattern.chars().all(is_part) {
        return None;
    }
    let (schema, name) = pattern.split_once('.')?;
    // A name with further dots matches no table.
    if name.contains('.') {
        return None;
    }
    let quoted = |name: &str| {
        let is_plain = name.starts_with(|c: char| c.is_alphabetic() || c == '_');
        if is_plain && !name.contains('-') { name.to_owned() } else { format!("\"{name}\"") }
    };
    format!("{}.{}", quoted(schema), quoted(name)).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_expressions() {
        #[track_caller]
        fn check(pattern: &str, expect: Option<&str>) {
            let table = table(pattern).map(|table| table.to_string());
            assert_eq!(table.as_deref(), expect, "{pattern}");
        }
        check("public.outbox", Some("public.outbox"));
        check(r"public\.outbox", Some("public.outbox"));
        check("inventory.OutboxEvent", Some("inventory.outboxevent"));
        check("public.outbox-events", Some("public.\"outbox-events\""));
        check("größe.outbox_2", Some("größe.outbox_2"));
        check("public.2nd", Some("public.\"2nd\""));
        check("public.outbox.*", None);
        check("public.(outbox|events)", None);
        check("(.*).outbox", None);
        check("shop.public.outbox", None);
        check("outbox", None);
        check("public.outbox$", None);
        check("public.", None);
    }
}
