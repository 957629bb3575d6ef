//! Options that no rule has taken: what it means that postrider does not have them.

mod table;

use self::table::{OPTIONS, PROCESS, Row};
use crate::import::connector::{Connector, Runtime, Settings};
use crate::import::draft::Draft;
use crate::import::finding::Kind;
use crate::import::setting::{Setting, list};

/// Lists what is left of a connector.
pub(super) fn find(mut connector: Connector, draft: &mut Draft) {
    plugins(&mut connector, draft);
    if let Some(mode) = connector.take("snapshot.mode") {
        snapshot(&mode, draft);
    }
    if let Some(operations) = connector.take("skipped.operations") {
        skipped(&operations, draft);
    }
    for (name, setting) in &connector.options {
        option(name, setting, draft);
    }
    for (name, setting) in &connector.process {
        let row = PROCESS.iter().find(|row| row.matches(name));
        let meaning = row
            .map_or("Debezium Server does not have it, and postrider neither", |row| row.meaning);
        draft.find(Kind::Operators, &setting.place(), meaning);
    }
    if connector.runtime == Runtime::Connect {
        formats_of_server(&connector.formats, draft);
    }
}

/// Lists that name plugins, whose own options have those names before them.
fn plugins(connector: &mut Connector, draft: &mut Draft) {
    for (list_of, meaning) in [
        (
            "converters",
            "custom converters of columns are not run: their columns look as without them",
        ),
        (
            "post.processors",
            "post processors are not run: what they change in events is not changed",
        ),
    ] {
        let Some(setting) = connector.take(list_of) else { continue };
        for name in list(setting.text().unwrap_or_default()) {
            let below = format!("{name}.");
            connector.take_below(&below);
        }
        draft.find(Kind::Consumers, &setting.place(), meaning);
    }
}

fn snapshot(mode: &Setting, draft: &mut Draft) {
    let (kind, meaning) = match mode.text().unwrap_or_default().trim().to_lowercase().as_str() {
        "always" => (
            Kind::Consumers,
            "rows are not published again at each start: postrider continues where the slot is",
        ),
        "initial_only" => {
            (Kind::Consumers, "postrider also publishes what comes after the rows of the snapshot")
        }
        "when_needed" => (
            Kind::Operators,
            "after a lost slot, `postrider recover` publishes the rows that may be missing",
        ),
        _ => (
            Kind::Operators,
            "postrider continues where the slot is, and publishes no rows from before it; \
             postgres.snapshot is for a new slot",
        ),
    };
    draft.find(kind, &mode.place(), meaning);
}

fn skipped(operations: &Setting, draft: &mut Draft) {
    let skips_inserts =
        list(operations.text().unwrap_or_default()).any(|operation| operation == "c");
    let (kind, meaning) = if skips_inserts {
        (Kind::Consumers, "inserts, which Debezium skipped, are published: they are the events")
    } else {
        (Kind::Operators, "it has no effect on an outbox: only inserts are events")
    };
    draft.find(kind, &operations.place(), meaning);
}

fn option(name: &str, setting: &Setting, draft: &mut Draft) {
    let Some(row) = OPTIONS.iter().find(|row| row.matches(name)) else {
        let meaning = "postrider does not know this option; if it changes records, that change is \
                       missing";
        return draft.find(Kind::Consumers, &setting.place(), meaning);
    };
    let Row { default, kind: Some(kind), meaning, .. } = row else { return };
    if default.is_none_or(|default| !setting.is(default)) {
        draft.find(*kind, &setting.place(), meaning);
    }
}

fn formats_of_server(formats: &Settings, draft: &mut Draft) {
    for setting in formats.values() {
        draft.find(Kind::Operators, &setting.place(), "it is for Debezium Server only");
    }
}
