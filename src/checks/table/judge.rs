//! Whether a table can be published as it is. No I/O.

use super::{Found, FoundColumn, TableProblem};
use crate::config::{OutboxTable, PostgresConfig, TableName};
use postrider_core::pgoutput::{Relation, RelationColumn};
use postrider_core::row::{Column, Layout, LayoutError, PresentColumn, PresentTable, Source};

/// `timestamp` and `timestamptz`.
const TIMES: [u32; 2] = [1114, 1184];

impl Found {
    /// The table as the relay needs it. `via_root` is the publication's option; none if there is no
    /// publication.
    pub(crate) fn judge(
        &self,
        config: &PostgresConfig,
        table: &OutboxTable,
        via_root: Option<bool>,
    ) -> Result<PresentTable, TableProblem> {
        let publication = || config.publication.clone();
        let partitioned = self.is_partitioned(&table.name)?;
        if partitioned && via_root == Some(false) {
            let table = table.name.clone();
            return Err(TableProblem::PartitionNames { publication: publication(), table });
        }
        if !partitioned {
            self.check_children(config, &table.name)?;
        }
        self.check_columns(table, &config.publication)?;
        if self.published.as_ref().is_some_and(|published| published.row_filter) {
            let table = table.name.clone();
            return Err(TableProblem::RowFilter { publication: publication(), table });
        }
        let partitions = self.descendants.iter().filter(|_| partitioned);
        let columns = self.columns.iter().filter(|column| self.publishes(column));
        let columns = columns.map(|column| PresentColumn {
            name: column.name.clone(),
            column_type: column.column_type.clone(),
        });
        let present = PresentTable {
            id: self.id,
            partitions: partitions.map(|(id, _)| *id).collect(),
            columns: columns.collect(),
        };
        if let Some(router) = &table.debezium {
            router.columns(&present, None).map_err(TableProblem::WrongType)?;
        }
        Ok(present)
    }

    fn is_partitioned(&self, table: &TableName) -> Result<bool, TableProblem> {
        let not_a_table = |found| TableProblem::NotATable { table: table.clone(), found };
        match self.persistence.as_str() {
            "p" => {}
            "u" => return Err(not_a_table("UNLOGGED, so its rows are not in the WAL")),
            _ => return Err(not_a_table("temporary, so its rows are not in the WAL")),
        }
        match self.kind.as_str() {
            "r" => Ok(false),
            "p" => Ok(true),
            "v" | "m" => Err(not_a_table("a view")),
            "f" => Err(not_a_table("a foreign table")),
            _ => Err(not_a_table("not a table")),
        }
    }

    fn check_children(
        &self,
        config: &PostgresConfig,
        table: &TableName,
    ) -> Result<(), TableProblem> {
        let is_configured = |child: &TableName| config.tables.iter().any(|it| it.name == *child);
        let children = self.descendants.iter().map(|(_, child)| child);
        let others: Vec<String> =
            children.filter(|child| !is_configured(child)).map(ToString::to_string).collect();
        if others.is_empty() {
            Ok(())
        } else {
            let children = others.join(", ");
            Err(TableProblem::Children { table: table.clone(), children })
        }
    }

    fn check_columns(&self, table: &OutboxTable, publication: &str) -> Result<(), TableProblem> {
        let names = &table.columns;
        let find = |column: Column| self.columns.iter().find(|it| it.name == names.of(column));
        // What a setting of the route names is reported as that setting's error.
        let is_named = |column: Column| names.named().any(|(name, _)| name == names.of(column));
        let missing = Column::mappable().filter(|it| names.is_wanted(*it) && !is_named(*it));
        let missing: Vec<Column> = missing.filter(|it| find(*it).is_none()).collect();
        if let Some(first) = missing.first() {
            let described: Vec<String> = missing.iter().map(|it| names.describe(*it)).collect();
            return Err(TableProblem::MissingColumns {
                table: table.name.clone(),
                missing: described.join(" and no column "),
                alike: self.alike(names.of(*first)),
            });
        }
        let has = |name: &str| self.columns.iter().any(|it| it.name == name);
        TableProblem::unknown_columns(table, has)?;
        // Columns that the relay would use if they were sent.
        let ours = Column::ALL.into_iter().map(Source::Ours);
        for source in ours.chain((0..names.others().len()).map(Source::Other)) {
            let found = self.columns.iter().find(|it| it.name == names.of_source(source));
            let Some(found) = found.filter(|found| !self.publishes(found)) else {
                continue;
            };
            let (table, column) = (table.name.clone(), names.describe_source(source));
            let publication = publication.to_owned();
            return Err(if found.generated {
                TableProblem::Generated { table, column }
            } else {
                TableProblem::Hidden { publication, table, column }
            });
        }
        self.check_types(table)
            .and_then(|()| self.check_created_at(table))
            .map_err(TableProblem::WrongType)
    }

    /// If it is configured by name, it must be a time; a column that happens to have the default
    /// name may be anything.
    fn check_created_at(&self, table: &OutboxTable) -> Result<(), LayoutError> {
        let (names, column) = (&table.columns, Column::CreatedAt);
        let found = self.columns.iter().find(|it| it.name == names.of(column));
        match found
            .filter(|it| names.is_wanted(column) && !TIMES.contains(&it.column_type.type_oid))
        {
            None => Ok(()),
            Some(found) => Err(LayoutError::WrongType {
                table: table.name.to_string(),
                column: names.describe(column),
                type_oid: found.column_type.type_oid,
                wanted: "timestamptz or timestamp",
            }),
        }
    }

    fn check_types(&self, table: &OutboxTable) -> Result<(), LayoutError> {
        let columns = self.columns.iter().map(|column| RelationColumn {
            flags: 0,
            name: &column.name,
            type_oid: column.column_type.type_oid,
            type_modifier: -1,
        });
        let relation = Relation {
            id: self.id,
            schema: &table.name.schema,
            name: &table.name.name,
            replica_identity: b'd',
            columns: columns.collect(),
        };
        Layout::new(0, &relation, &table.columns).map(drop)
    }

    fn publishes(&self, column: &FoundColumn) -> bool {
        let listed = self.published.as_ref().and_then(|published| published.columns.as_ref());
        listed.map_or(!column.generated, |listed| listed.contains(&column.name))
    }

    fn alike(&self, name: &str) -> Option<String> {
        let lower = name.to_lowercase();
        let alike = self.columns.iter().find(|column| column.name.to_lowercase() == lower);
        alike.map(|column| column.name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::table::Published;
    use crate::config::{Config, Flags, Inputs, Needs, keys};
    use postrider_core::connect::ColumnType;
    use postrider_core::row::ColumnNames;

    const TEXT: u32 = 25;
    const JSON: u32 = 114;

    /// A configuration with the table `orders.outbox`, and others.
    fn config(others: &str) -> PostgresConfig {
        let mut flags = Flags::default();
        flags.set(&keys::POSTGRES_URL, ["postgres://db/x".to_owned()]);
        flags.set(&keys::POSTGRES_TABLES, [format!("orders.outbox{others}")]);
        let read = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
        let os_user = Some("me".to_owned());
        let variables = std::collections::BTreeMap::new();
        let inputs = Inputs { flags, variables, read: &read, os_user, home: None };
        Config::load(&inputs, Needs::Postgres).unwrap().postgres
    }

    fn found(columns: &[(&str, u32)]) -> Found {
        let columns = columns.iter().map(|(name, type_oid)| FoundColumn {
            name: (*name).to_owned(),
            column_type: ColumnType { type_oid: *type_oid, ..ColumnType::default() },
            generated: false,
        });
        Found {
            id: 7,
            kind: "r".to_owned(),
            persistence: "p".to_owned(),
            columns: columns.collect(),
            descendants: Vec::new(),
            published: None,
        }
    }

    fn outbox() -> Found {
        found(&[("payload", JSON), ("x", 600), ("topic", TEXT), ("ordering_key", TEXT)])
    }

    #[track_caller]
    fn check(found: &Found, names: &ColumnNames, via_root: Option<bool>, expect: Option<&str>) {
        let config = config(",orders.child");
        let table = OutboxTable { columns: names.clone(), ..config.tables[0].clone() };
        let problem = found.judge(&config, &table, via_root).err();
        let said = problem.map(|problem| format!("{problem}; {}", problem.fix()));
        match (&said, expect) {
            (Some(said), Some(part)) => assert!(said.contains(part), "{said}"),
            (None, None) => {}
            _ => panic!("{said:?} instead of {expect:?}"),
        }
    }

    #[test]
    fn it_must_be_a_table_that_is_in_the_wal() {
        let of = |kind: &str, persistence: &str, expect| {
            let (kind, persistence) = (kind.to_owned(), persistence.to_owned());
            let found = Found { kind, persistence, ..outbox() };
            check(&found, &ColumnNames::default(), None, expect);
        };
        of("r", "p", None);
        of("p", "p", None);
        of("v", "p", Some("it is a view"));
        of("f", "p", Some("it is a foreign table"));
        of("r", "u", Some("UNLOGGED"));
        of("r", "t", Some("temporary"));
    }

    #[test]
    fn it_must_have_the_columns_that_are_needed_or_asked_for() {
        let names = ColumnNames::default();
        let missing = "no column \"topic\" and no column \"payload\"";
        check(&found(&[("Topic", TEXT)]), &names, None, Some(missing));
        check(
            &found(&[("Topic", TEXT)]),
            &names,
            None,
            Some("write it in quotes of its own, '\"Topic\"'"),
        );
        check(&found(&[("topic", TEXT), ("payload", 23)]), &names, None, Some("must be json"));
        let mut names = names;
        names.map(Column::Tenant, "organisation".to_owned());
        check(&outbox(), &names, None, Some("no column \"organisation\" (our tenant)"));
        names.map(Column::Tenant, "x".to_owned());
        check(&outbox(), &names, None, None);
        names.map(Column::CreatedAt, "made".to_owned());
        check(&outbox(), &names, None, Some("no column \"made\" (our created_at)"));
        names.map(Column::CreatedAt, "x".to_owned());
        check(&outbox(), &names, None, Some("must be timestamptz or timestamp"));
        names.map(Column::CreatedAt, String::new());
        check(&outbox(), &names, None, None);
    }

    #[test]
    fn the_publication_must_not_hide_what_would_be_used() {
        let names = ColumnNames::default();
        let listed = |columns: &[&str], row_filter, expect| {
            let columns = Some(columns.iter().map(ToString::to_string).collect());
            let published = Some(Published { columns, row_filter });
            check(&Found { published, ..outbox() }, &names, Some(false), expect);
        };
        let all = ["payload", "topic", "ordering_key"];
        listed(&all, false, None);
        listed(&all, true, Some("row filter"));
        listed(&all[..2], false, Some("leaves out column \"ordering_key\" of table orders.outbox"));
        listed(&all[1..], false, Some("leaves out column \"payload\""));
        let mut generated = outbox();
        generated.columns[3].generated = true;
        check(
            &generated,
            &names,
            None,
            Some("\"ordering_key\" of table orders.outbox is generated"),
        );
    }

    #[test]
    fn rows_must_come_under_the_tables_name() {
        let below = |child: &str, kind: &str, via_root, expect| {
            let descendants = vec![(8, child.parse().unwrap())];
            let found = Found { kind: kind.to_owned(), descendants, ..outbox() };
            check(&found, &ColumnNames::default(), via_root, expect);
        };
        below("orders.part", "p", Some(true), None);
        below("orders.part", "p", None, None);
        below("orders.part", "p", Some(false), Some("publish_via_partition_root = true"));
        below("orders.child", "r", Some(false), None);
        below("orders.other", "r", Some(true), Some("under their own names: orders.other"));
    }
}
