//! The outbox tables: each one's names for our columns, and what its records are.
//!
//! A setting in a `[tables.…]` section replaces the setting for all tables.

use std::sync::Arc;

use super::debezium::{self, DebeziumSettings};
use super::keys::{self, Key, POSTGRES_COLUMNS, POSTGRES_PRESET, TABLES};
use super::parse;
use super::presets::Preset;
use super::problem::{Origin, Problem};
use super::raw::{Layer, Pairs, TableSection, Typed};
use super::routes::{Place, RouteSettings};
use super::secrets::{self, looks_secret};
use super::table_name::{TableName, identifier};
use postrider_core::debezium::EventRouter;
use postrider_core::format::Format;
use postrider_core::pgoutput::Relation;
use postrider_core::route::Route;
use postrider_core::row::{Column, ColumnNames, Layout, LayoutError, PresentTable};

/// An outbox table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxTable {
    /// Its schema and name.
    pub name: TableName,
    /// Its names for our columns, and the others that are read.
    pub columns: ColumnNames,
    /// Where its events go.
    pub route: Route,
    /// What their records' values are.
    pub format: Format,
    /// Debezium's Event Router, if it makes their records.
    pub debezium: Option<EventRouter>,
}

impl OutboxTable {
    /// The layout with the types of columns that are published as Debezium does.
    pub(crate) fn typed(
        &self,
        layout: Layout,
        present: &PresentTable,
        relation: Option<&Relation<'_>>,
    ) -> Result<Layout, LayoutError> {
        let Some(router) = &self.debezium else { return Ok(layout) };
        let typed = router.columns(present, relation)?;
        Ok(layout.with_types(Arc::new(typed)))
    }

    /// Whether a record's value is the payload and nothing else.
    pub(crate) fn value_is_payload(&self) -> bool {
        let is_kept = self.debezium.as_ref().is_none_or(EventRouter::value_is_payload);
        is_kept && self.format.value_is_payload()
    }
}

/// Where events without a table go, and what their records are.
pub(super) type MessageRules = (Route, Format);

/// What is the same for all tables.
#[derive(Clone, Copy)]
pub(super) struct Common {
    /// All events of a topic keep their order.
    pub(super) whole_topic: bool,
    /// There is a schema registry.
    pub(super) has_registry: bool,
}

/// What is read beside the tables.
struct Context<'a> {
    common: Common,
    debezium: &'a DebeziumSettings,
}

/// What was typed in one place.
#[derive(Clone)]
struct TableSettings {
    preset: Option<Preset>,
    columns: Option<Vec<(Column, String)>>,
    route: RouteSettings,
}

/// The tables, and the rules of events without a table. `None` if something is wrong, which is then
/// among the problems.
pub(super) fn check(
    typed: &Layer,
    tables: Option<Vec<TableName>>,
    common: Option<Common>,
    messages: bool,
    problems: &mut Vec<Problem>,
) -> Option<(Vec<OutboxTable>, Option<MessageRules>)> {
    let general = TableSettings::read(
        &Place {
            value: &|key| typed.typed(key).cloned(),
            pairs: &|key| typed.pairs.get(key.path()).cloned(),
            path: &|key| key.path().to_owned(),
        },
        problems,
    );
    let sections = sections(&typed.tables, tables.as_deref(), problems);
    let debezium = debezium::check(typed, problems);
    let context = Context { common: common?, debezium: &debezium };
    let messages = messages.then(|| general.messages(&context, problems));
    let settings = |name: TableName| {
        let section = sections.iter().find(|(table, _)| *table == name);
        let settings = section.map_or_else(|| general.clone(), |(_, own)| own.or(&general));
        (settings.is_routed(), settings.table(name, &context, problems))
    };
    let tables: Vec<(bool, OutboxTable)> = tables?.into_iter().map(settings).collect();
    let routed: Vec<&OutboxTable> =
        tables.iter().filter(|(is_routed, _)| *is_routed).map(|(_, table)| table).collect();
    let is_used = !routed.is_empty() || (messages.is_some() && general.is_routed());
    debezium.check_preset(is_used, problems);
    if !routed.is_empty() {
        debezium.check_use(&routed, problems);
        debezium.check_columns(general.columns.as_deref().unwrap_or_default(), problems);
    }
    Some((tables.into_iter().map(|(_, table)| table).collect(), messages))
}

impl TableSettings {
    fn read(place: &Place<'_>, problems: &mut Vec<Problem>) -> Self {
        let preset = (place.value)(&POSTGRES_PRESET).and_then(|Typed { text, origin }| {
            let report = |reason| {
                let setting = secrets::setting(&(place.path)(&POSTGRES_PRESET), &text);
                problems.push(Problem::at(&origin, format!("{setting}: {reason}")));
            };
            parse::preset(text.trim()).map_err(report).ok()
        });
        let columns = (place.pairs)(&POSTGRES_COLUMNS)
            .map(|typed| columns(&(place.path)(&POSTGRES_COLUMNS), &typed, problems));
        TableSettings { preset, columns, route: RouteSettings::read(place, problems) }
    }

    /// What is set here, and for the rest what these say.
    fn or(&self, others: &Self) -> Self {
        TableSettings {
            preset: self.preset.or(others.preset),
            columns: self.columns.clone().or_else(|| others.columns.clone()),
            route: self.route.clone().or(&others.route),
        }
    }

    fn is_routed(&self) -> bool {
        self.preset.is_some_and(Preset::is_routed)
    }

    fn table(
        self,
        name: TableName,
        context: &Context<'_>,
        problems: &mut Vec<Problem>,
    ) -> OutboxTable {
        let preset = self.preset.unwrap_or(Preset::None);
        let options = &context.debezium.options;
        let mut columns = preset.columns(options);
        for (column, theirs) in self.columns.unwrap_or_default() {
            columns.map(column, theirs);
        }
        let is_routed = preset.is_routed() && self.route.is_raw();
        let settings = self.route.or(&RouteSettings::of_preset(preset, is_routed));
        let Common { whole_topic, has_registry } = context.common;
        let (mut route, format) =
            settings.resolve(&mut columns, whole_topic, has_registry, problems);
        if preset.is_routed() && settings.topic_origin().is_none() {
            route.topic_router = Some(options.topic.clone());
        }
        columns.set_topicless(!route.reads_topic());
        check_topic_column(&name, &columns, &route, problems);
        let debezium = if is_routed {
            context.debezium.router(&name, &mut columns, &settings, problems)
        } else {
            None
        };
        OutboxTable { name, columns, route, format, debezium }
    }

    /// Events without a table have our columns, and no others.
    fn messages(&self, context: &Context<'_>, problems: &mut Vec<Problem>) -> (Route, Format) {
        let preset = self.preset.unwrap_or(Preset::None);
        let mut columns = ColumnNames::default();
        let settings = self.route.clone().or(&RouteSettings::of_preset(preset, false));
        let Common { whole_topic, has_registry } = context.common;
        let mut resolved = settings.resolve(&mut columns, whole_topic, has_registry, problems);
        if preset.is_routed() && settings.topic_origin().is_none() {
            resolved.0.topic_router = Some(context.debezium.options.topic.clone());
        }
        for other in columns.others() {
            let by = columns.named().find(|(name, _)| name == other).map_or("", |(_, by)| by);
            problems.push(Problem::missing(format!(
                "{by} names column {other}, which events without a table (postgres.messages) do not \
                 have; set it in the sections of the tables that have it"
            )));
        }
        resolved
    }
}

/// A table without a topic column needs a route that does without.
fn check_topic_column(
    table: &TableName,
    columns: &ColumnNames,
    route: &Route,
    problems: &mut Vec<Problem>,
) {
    if columns.of(Column::Topic).is_empty() && route.reads_topic() {
        problems.push(Problem::missing(format!(
            "{table} has no topic column (postgres.columns.topic is empty); set route.topic to a \
             topic, or to a template over its columns"
        )));
    }
}

fn sections(
    typed: &[TableSection],
    tables: Option<&[TableName]>,
    problems: &mut Vec<Problem>,
) -> Vec<(TableName, TableSettings)> {
    let mut sections: Vec<(TableName, TableSettings)> = Vec::new();
    for section in typed {
        let path = format!("{}.{:?}", TABLES.path(), section.name);
        let within = |key: &Key| format!("{path}.{}", key.path_per_table().unwrap_or_default());
        let place = Place {
            value: &|key| section.values.get(key.path()).cloned(),
            pairs: &|key| section.pairs.get(key.path()).cloned(),
            path: &within,
        };
        let settings = TableSettings::read(&place, problems);
        let message = match section.name.parse::<TableName>() {
            Err(error) => format!("{path}: {error}"),
            Ok(name) if sections.iter().any(|(known, _)| *known == name) => {
                format!("{path}: {name} has two sections; keep one")
            }
            // Not checked if the list of tables could not be read.
            Ok(name) if tables.is_some_and(|tables| !tables.contains(&name)) => {
                format!("{path}: {name} is not in postgres.tables; add it there")
            }
            Ok(name) => {
                sections.push((name, settings));
                continue;
            }
        };
        problems.push(Problem::at(&section.origin, message));
    }
    sections
}

/// Our column → the table's.
fn columns(path: &str, typed: &Pairs, problems: &mut Vec<Problem>) -> Vec<(Column, String)> {
    let mut columns = Vec::new();
    // If a connection string was read as pairs, a password may be in any of them.
    let secret = typed.iter().any(|(ours, typed)| looks_secret(ours) || looks_secret(&typed.text));
    for (ours, Typed { text, origin }) in typed {
        match column(ours, text) {
            Ok(pair) => columns.push(pair),
            Err(_) if secret => {
                let reason = "has names that are not columns (withheld: they look like they \
                              contain a secret); write it as in topic=destination,payload=body";
                problems.push(Problem::at(origin, format!("{path} {reason}")));
            }
            Err(reason) => problems.push(column_problem(path, ours, origin, &reason)),
        }
    }
    columns
}

fn column_problem(path: &str, ours: &str, origin: &Origin, reason: &str) -> Problem {
    Problem::at(origin, format!("{path}.{ours}: {reason}"))
}

fn column(ours: &str, theirs: &str) -> Result<(Column, String), String> {
    let column = Column::named(ours).ok_or_else(|| unknown(ours))?;
    let name = match theirs.trim() {
        "" if column == Column::Payload => {
            return Err("every event needs it; name the table's column".to_owned());
        }
        "" => String::new(),
        text => identifier(text).map_err(|error| format!("{text:?}: {error}"))?,
    };
    Ok((column, name))
}

fn unknown(ours: &str) -> String {
    let names: Vec<&str> = Column::mappable().map(Column::name).collect();
    match keys::nearest(ours, names.iter().map(ToString::to_string)) {
        Some(near) => format!("unknown column; did you mean {near}?"),
        None => format!("unknown column; the outbox columns are {}", names.join(", ")),
    }
}
