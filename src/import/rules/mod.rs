//! What each option of a connector is here. The order is that of the new file.

mod client;
mod context_headers;
mod converters;
mod database;
mod login;
mod remaining;
mod router;
mod stores;
mod tables;
mod transforms;

use super::connector::Connector;
use super::draft::Draft;
use super::finding::Kind;
use super::{Fault, Import};

/// Debezium's connector, and the names under which Kafka Connect finds it too.
const CLASSES: [&str; 3] =
    ["io.debezium.connector.postgresql.PostgresConnector", "PostgresConnector", "Postgres"];

/// The new configuration for a connector, or why there can be none.
pub(super) fn apply(mut connector: Connector) -> Result<Import, Vec<Fault>> {
    let mut faults: Vec<Fault> = wrong_class(&connector).into_iter().collect();
    let router = match router::find(&connector) {
        Ok(router) => router,
        Err(fault) => {
            faults.push(fault);
            return Err(faults);
        }
    };
    if !faults.is_empty() {
        return Err(faults);
    }
    let mut draft = Draft::default();
    head(&connector, &mut draft);

    draft.section("postgres");
    database::write(&mut connector, &mut draft);
    slot(&mut connector, &mut draft);
    tables::write(&mut connector, &mut draft);
    draft.set("preset", "debezium", "the Outbox Event Router's columns and rules");

    let context = context_headers::read(&mut connector);
    draft.section("debezium");
    draft.set("profile", router::profile(&connector), &format!("it ran in {}", ran_in(&connector)));
    let header = converters::write(&mut connector, &mut draft);
    router::write(&router, &mut connector, &mut draft);

    draft.section("kafka");
    client::write(&mut connector, &mut draft);

    draft.section("route.headers");
    context_headers::write(context.as_ref(), header, &mut draft);

    draft.section("cleaner");
    draft.set("enabled", false, "as before; true deletes rows some time after they were published");

    transforms::find(&router, &mut connector, &mut draft);
    remaining::find(connector, &mut draft);
    let (toml, findings) = draft.finish();
    Ok(Import { toml, findings })
}

fn ran_in(connector: &Connector) -> &'static str {
    connector.runtime.name()
}

fn wrong_class(connector: &Connector) -> Option<Fault> {
    let Some(class) = connector.options.get("connector.class") else {
        let message = "connector.class is not set, so it is not known which connector this is";
        return Some(Fault::of_file(message));
    };
    if class.text().is_some_and(|text| CLASSES.contains(&text.trim())) {
        return None;
    }
    let message = format!(
        "{} is not {}: postrider reads the outbox of a Postgres database only",
        class.written,
        CLASSES.first().unwrap_or(&"")
    );
    Some(Fault::at(class.line, message))
}

fn head(connector: &Connector, draft: &mut Draft) {
    let name = connector.name.as_ref().map(|name| format!(" {name:?}")).unwrap_or_default();
    draft.comment(&format!(
        "Written by `postrider import debezium` from a connector{name} of {}.",
        ran_in(connector)
    ));
    draft.comment(
        "A comment names the option and the line that a value is from. Options that are not set, or \
         set to a value that is the default of Debezium and of postrider, are left out.",
    );
    draft.comment(
        "[] stands where you must write the value; postrider does not start before that. Passwords \
         are never copied.",
    );
}

/// The slot and the publication, which postrider takes over.
fn slot(connector: &mut Connector, draft: &mut Draft) {
    let defaults = [
        ("slot", "slot.name", "debezium", "Debezium's default slot"),
        ("publication", "publication.name", "dbz_publication", "Debezium's default publication"),
    ];
    for (key, option, default, why) in defaults {
        match connector.take(option) {
            Some(setting) => router::copy_text(key, &setting, draft),
            None => draft.set(key, default, why),
        }
    }
    let plugin = connector.take("plugin.name");
    if plugin.as_ref().is_some_and(|plugin| plugin.is("pgoutput")) {
        return;
    }
    let what = plugin.map_or_else(|| "plugin.name".to_owned(), |plugin| plugin.place());
    draft.find(
        Kind::Operators,
        &what,
        "without plugin.name = pgoutput the slot has another plugin, which postrider does not read: \
         choose another name for postgres.slot, or drop the old slot once all its events are published",
    );
}
