//! What `[debezium]` means for tables: their routers, and options that contradict other settings or
//! have no effect.

use postrider_core::debezium::{EventRouter, Options};
use postrider_core::row::{Column, ColumnNames};

use super::{
    DebeziumSettings, EMPTY_ARRAYS, EXPAND, ID, KEY, NULLS, PAYLOAD, PLACEMENT, REGEX, REPLACEMENT,
    ROUTE_BY, TOPIC_PREFIX, path,
};
use crate::config::problem::Problem;
use crate::config::routes::RouteSettings;
use crate::config::table_name::TableName;
use crate::config::tables::OutboxTable;

/// What the Event Router does with records: nothing, if another format makes them.
const OF_RECORDS: [&str; 17] = [
    "profile",
    "key",
    "value",
    "header",
    "table.field.event.timestamp",
    "table.field.event.schema.version",
    PLACEMENT,
    EXPAND,
    NULLS,
    EMPTY_ARRAYS,
    "table.op.invalid.behavior",
    "route.tombstone.on.empty.payload",
    "tracing.span.context.field",
    TOPIC_PREFIX,
    "decimal.handling.mode",
    "time.precision.mode",
    "binary.handling.mode",
];

impl DebeziumSettings {
    /// Without the preset, no option has an effect.
    pub(in crate::config) fn check_preset(&self, is_used: bool, problems: &mut Vec<Problem>) {
        if let (false, Some((option, origin))) = (is_used, self.typed.iter().next()) {
            let message = format!(
                "{} has no effect without postgres.preset = \"debezium\" or \"quarkus\"; set that, \
                 or remove it",
                path(option)
            );
            problems.push(Problem::at(origin, message));
        }
    }

    /// The router of a table whose names are these, apart from what the options name in addition.
    pub(in crate::config) fn router(
        &self,
        table: &TableName,
        names: &mut ColumnNames,
        route: &RouteSettings,
        problems: &mut Vec<Problem>,
    ) -> Option<EventRouter> {
        if let Some((path, origin)) = route.key_origin() {
            let message = format!(
                "{path} has no effect here, because Debezium's options decide the key; set {} \
                 instead",
                self::path(KEY)
            );
            note(problems, Problem::at(origin, message));
        }
        if let Some((path, origin)) = route.header_origin("id") {
            let message = format!("{path}.id: the preset adds this header itself; remove it here");
            note(problems, Problem::at(origin, message));
        }
        let options = self.with_columns(table, names, problems)?;
        let setting = |option: &str| self.typed.contains_key(option).then(|| option.to_owned());
        // Whatever the options name, the table is not said to lack it.
        EventRouter::new(&options, (&table.schema, &table.name), names, &setting).ok()
    }

    /// The options, with the columns that `postgres.columns` names in place of Debezium's defaults.
    fn with_columns(
        &self,
        table: &TableName,
        names: &ColumnNames,
        problems: &mut Vec<Problem>,
    ) -> Option<Options> {
        let mut options = self.options.clone();
        let columns = &mut options.columns;
        for (ours, column) in [
            (Column::Id, &mut columns.id),
            (Column::OrderingKey, &mut columns.key),
            (Column::Payload, &mut columns.payload),
            (Column::Topic, &mut columns.route_by),
        ] {
            let mapped = names.of(ours);
            if mapped.is_empty() && ours != Column::Topic {
                let message = format!(
                    "postgres.columns.{} is empty, but with this preset {table} needs a column for it",
                    ours.name()
                );
                note(problems, Problem::missing(message));
                return None;
            }
            mapped.clone_into(column);
        }
        Some(options)
    }

    /// Options that are typed here and in `postgres.columns`, differently.
    pub(in crate::config) fn check_columns(
        &self,
        typed: &[(Column, String)],
        problems: &mut Vec<Problem>,
    ) {
        let columns = &self.options.columns;
        for (ours, option, column) in [
            (Column::Id, ID, &columns.id),
            (Column::OrderingKey, KEY, &columns.key),
            (Column::Payload, PAYLOAD, &columns.payload),
            (Column::Topic, ROUTE_BY, &columns.route_by),
        ] {
            let mapped = typed.iter().find(|(name, _)| *name == ours).map(|(_, mapped)| mapped);
            if let (Some(mapped), Some(origin)) = (mapped, self.typed.get(option))
                && mapped != column
            {
                let message = format!(
                    "{} is {column:?}, but postgres.columns.{} is {mapped:?}; keep one of them",
                    path(option),
                    ours.name()
                );
                note(problems, Problem::at(origin, message));
            }
        }
    }

    /// Options that no table uses, although it has the preset.
    pub(in crate::config) fn check_use(
        &self,
        tables: &[&OutboxTable],
        problems: &mut Vec<Problem>,
    ) {
        let mut check = |options: &[&str], setting: &str| {
            for option in options {
                if let Some(origin) = self.typed.get(*option) {
                    let message = format!(
                        "{} has no effect with this {setting}; remove one of them",
                        path(option)
                    );
                    note(problems, Problem::at(origin, message));
                }
            }
        };
        if tables.iter().all(|table| table.debezium.is_none()) {
            check(&OF_RECORDS, "format.value");
        }
        if tables.iter().all(|table| table.route.topic_router.is_none()) {
            check(&[REGEX, REPLACEMENT], "route.topic");
        }
    }
}

/// Each problem once, although there are several tables.
fn note(problems: &mut Vec<Problem>, problem: Problem) {
    if !problems.contains(&problem) {
        problems.push(problem);
    }
}
