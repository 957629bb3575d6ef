//! The Event Router: from a row to key, value, headers and timestamp.

use std::borrow::Cow;

use super::expand::Expanded;
use super::options::{Options, Place, Profile};
use super::tracing::trace_context;
use crate::connect::{
    BinaryMode, ConnectColumn, Converter, Data, Fields, Kind, Schema, Typed, TypedColumns, convert,
    header_value, hex, is_blank,
};
use crate::order::Key;
use crate::pgoutput::{PgTime, Relation};
use crate::row::{
    Column, ColumnFault, ColumnNames, ColumnRef, LayoutError, PresentTable, Row, RowFault, Source,
};

/// The Event Router for one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRouter {
    options: Options,
    /// Schema and name of the table.
    table: (String, String),
    /// The columns that are read.
    fields: Vec<Field>,
    id: usize,
    key: usize,
    payload: usize,
    /// With the names that they have in the record.
    headers: Vec<(usize, String)>,
    envelope: Vec<(usize, String)>,
    timestamp: Option<usize>,
    schema_version: Option<usize>,
    tracing: Option<usize>,
}

/// A column that is read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    source: Source,
    /// The table's name for it.
    name: String,
    /// The table may lack it.
    may_be_missing: bool,
}

/// What becomes of a row.
#[derive(Debug, Clone)]
pub struct Converted<'a> {
    /// The record's key.
    pub(crate) key: Option<Cow<'a, [u8]>>,
    /// The record's value.
    pub(crate) value: Option<Cow<'a, [u8]>>,
    /// The record's headers: names and values.
    pub(crate) headers: Vec<NamedValue<'a>>,
    /// The record's timestamp, if a column decides it.
    pub(crate) timestamp: Option<PgTime>,
}

/// A header.
type NamedValue<'a> = (Cow<'a, str>, Option<Cow<'a, [u8]>>);

impl EventRouter {
    /// The router for a table, whose names learn of the columns that are read. `setting` is where an
    /// option was typed; none if it was not. An error is a column that the table is said not to
    /// have.
    pub fn new(
        options: &Options,
        table: (&str, &str),
        names: &mut ColumnNames,
        setting: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let mut fields = Fielder { fields: Vec::new(), names };
        let columns = &options.columns;
        let typed = |option: &str| setting(option);
        let id = fields.add(&columns.id, typed("table.field.event.id"), false)?;
        let key = fields.add(&columns.key, typed("table.field.event.key"), false)?;
        let payload = fields.add(&columns.payload, typed("table.field.event.payload"), false)?;
        let mut optional = |column: &Option<String>, option: &str| match column {
            Some(column) => fields.add(column, typed(option), false).map(Some),
            None => Ok(None),
        };
        let timestamp = optional(&columns.timestamp, "table.field.event.timestamp")?;
        let schema_version = optional(&columns.schema_version, "table.field.event.schema.version")?;
        let tracing = optional(&columns.tracing, "tracing.span.context.field")?;
        let (mut headers, mut envelope) = (Vec::new(), Vec::new());
        for placement in &options.placements {
            let ignores = options.ignores_missing;
            let by = typed("table.fields.additional.placement").filter(|_| !ignores);
            let place = match placement.place {
                Place::Header => &mut headers,
                Place::Envelope => &mut envelope,
                // Read as our partition column.
                Place::Partition => continue,
            };
            place.push((fields.add(&placement.column, by, ignores)?, placement.alias.clone()));
        }
        Ok(EventRouter {
            options: options.clone(),
            table: (table.0.to_owned(), table.1.to_owned()),
            fields: fields.fields,
            id,
            key,
            payload,
            headers,
            envelope,
            timestamp: timestamp.filter(|_| options.profile == Profile::Connect),
            schema_version,
            tracing,
        })
    }

    /// Whether a column of the table is read.
    pub fn reads(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field.name == name)
    }

    /// What is set for all tables.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Whether a record's value is the payload and nothing else.
    pub fn value_is_payload(&self) -> bool {
        let Options { value, expansion, modes, .. } = &self.options;
        let is_text_or_bytes = matches!(value, Converter::Text | Converter::Bytes);
        let is_plain = expansion.is_none() && modes.bytes == BinaryMode::Bytes;
        is_text_or_bytes && is_plain && self.envelope.is_empty()
    }

    /// The types of the columns that are read: those of the log's relation, else those that the
    /// table has now.
    pub fn columns(
        &self,
        present: &PresentTable,
        relation: Option<&Relation<'_>>,
    ) -> Result<TypedColumns, LayoutError> {
        let now = |name: &str| present.column(name).cloned();
        let typed = |field: &Field| {
            let then = relation.and_then(|relation| present.column_then(relation, &field.name));
            let types = || then.iter().cloned().chain(now(&field.name));
            let modes = self.options.modes;
            let found = types().find_map(|column| ConnectColumn::new(&column, modes));
            match (found, types().next()) {
                (None, Some(column)) => Err(self.misfit(&field.name, &column.type_name, "")),
                (found, _) => Ok(found),
            }
        };
        let columns = self.fields.iter().map(typed).collect::<Result<Vec<_>, LayoutError>>()?;
        let columns = TypedColumns::new(columns);
        if let Some(number) = self.timestamp
            && let (Some(field), Some(column)) = (self.fields.get(number), columns.get(number))
            && column.timestamp_unit().is_none()
        {
            let found = now(&field.name).unwrap_or_default();
            let why = "; table.field.event.timestamp takes a timestamp without time zone";
            return Err(self.misfit(&field.name, &found.type_name, why));
        }
        Ok(columns)
    }

    fn misfit(&self, column: &str, type_name: &str, why: &str) -> LayoutError {
        let (schema, table) = &self.table;
        LayoutError::NotLikeDebezium {
            table: format!("{schema}.{table}"),
            column: column.to_owned(),
            type_name: type_name.to_owned(),
            why: why.to_owned(),
        }
    }

    /// The record's key as text, for what is kept in order by it.
    pub fn key<'a>(&'a self, row: &Row<'a>) -> Result<Option<Key<'a>>, RowFault> {
        Ok(Reading { router: self, row }.key()?.map(|key| self.as_text(key)))
    }

    /// The same of a row that was converted.
    pub(crate) fn compared_key<'a>(&self, converted: &Converted<'a>) -> Option<Key<'a>> {
        converted.key.clone().map(|key| self.as_text(key))
    }

    /// Bytes that are not text become hexadecimal digits.
    fn as_text<'a>(&self, key: Cow<'a, [u8]>) -> Key<'a> {
        let text = match key {
            Cow::Borrowed(key) => match std::str::from_utf8(key) {
                Ok(text) => Cow::Borrowed(text),
                Err(_) => Cow::Owned(hex(key)),
            },
            Cow::Owned(key) => {
                Cow::Owned(String::from_utf8(key).unwrap_or_else(|error| hex(error.as_bytes())))
            }
        };
        let source = self.fields.get(self.key).map(|field| field.source);
        let ids = [Column::Id, Column::IdempotencyKey].map(Source::Ours);
        Key { text, is_unique: source.is_some_and(|source| ids.contains(&source)) }
    }

    /// What becomes of a row.
    pub fn convert<'a>(&'a self, row: &Row<'a>) -> Result<Converted<'a>, RowFault> {
        let reading = Reading { router: self, row };
        let headers = reading.headers()?;
        let value = reading.value()?;
        let key = reading.key()?;
        Ok(Converted { key, value, headers, timestamp: reading.timestamp()? })
    }
}

/// Debezium replaces what the name of a topic can't have.
fn legal_name(name: &str) -> String {
    let is_legal = |char: char| char.is_ascii_alphanumeric() || matches!(char, '.' | '_' | '-');
    name.chars().map(|char| if is_legal(char) { char } else { '_' }).collect()
}

/// Finds the columns that options name.
struct Fielder<'a> {
    fields: Vec<Field>,
    names: &'a mut ColumnNames,
}

impl Fielder<'_> {
    fn add(
        &mut self,
        column: &str,
        setting: Option<String>,
        may_be_missing: bool,
    ) -> Result<usize, String> {
        if let Some(known) = self.fields.iter().position(|field| field.name == column) {
            return Ok(known);
        }
        let reference = ColumnRef { name: column.to_owned(), is_quoted: true };
        let setting = setting.map(|option| format!("debezium.\"{option}\""));
        let source = self.names.source(&reference, setting.as_deref());
        let source = source.ok_or_else(|| column.to_owned())?;
        self.fields.push(Field { source, name: column.to_owned(), may_be_missing });
        Ok(self.fields.len() - 1)
    }
}

/// A row that is being converted.
struct Reading<'r, 'a> {
    router: &'a EventRouter,
    row: &'r Row<'a>,
}

impl<'r, 'a> Reading<'r, 'a> {
    /// A column's value; none if the row is older than the column.
    fn typed(&self, number: usize) -> Result<Option<Typed<'r, 'a>>, RowFault> {
        let (Some(field), Some(column)) = (self.router.fields.get(number), self.column(number))
        else {
            return Ok(None);
        };
        if !self.row.has(field.source) {
            return Ok(None);
        }
        let data = if column.reads_bytes() {
            Some(column.of_bytes(self.row.bytes_of(field.source, &field.name)?))
        } else {
            column.of_text(self.row.text_of(field.source, &field.name)?)
        };
        let unreadable = || self.column_fault(number, ColumnFault::Unreadable(column.expected()));
        Ok(Some(Typed::of_column(column, data.ok_or_else(unreadable)?)))
    }

    fn column(&self, number: usize) -> Option<&'r ConnectColumn> {
        self.row.typed_columns()?.get(number)
    }

    /// The same for a column that the configuration places.
    fn placed(&self, number: usize) -> Result<Option<Typed<'r, 'a>>, RowFault> {
        let may_be_missing = self.router.fields.get(number).is_some_and(|it| it.may_be_missing);
        match self.typed(number)? {
            None if !may_be_missing => Err(self.absent(number)),
            found => Ok(found),
        }
    }

    fn key(&self) -> Result<Option<Cow<'a, [u8]>>, RowFault> {
        let number = self.router.key;
        let key = self.typed(number)?.ok_or_else(|| self.absent(number))?;
        convert(self.router.options.key, key).map_err(|why| self.fault(number, why))
    }

    fn absent(&self, number: usize) -> RowFault {
        self.column_fault(number, ColumnFault::Absent)
    }

    fn fault(&self, number: usize, why: &'static str) -> RowFault {
        self.column_fault(number, ColumnFault::NotEncodable(why))
    }

    fn column_fault(&self, number: usize, fault: ColumnFault) -> RowFault {
        match self.router.fields.get(number) {
            Some(field) => RowFault::of_source(field.source, &field.name, fault),
            None => RowFault::UnknownTable,
        }
    }

    fn headers(&self) -> Result<Vec<NamedValue<'a>>, RowFault> {
        let converter = self.router.options.header;
        let mut headers = Vec::with_capacity(1 + self.router.headers.len());
        if let Some(number) = self.router.tracing
            && let Some(Typed { data: Data::Text(text), .. }) = self.typed(number)?
        {
            let schema = Schema::of(Kind::Text);
            for (name, value) in trace_context(&text) {
                let typed = Typed::of_schema(&schema, Data::Text(Cow::Owned(value)));
                let value = header_value(converter, typed);
                headers.push((Cow::Borrowed(name), value));
            }
        }
        let id = self.typed(self.router.id)?.ok_or_else(|| self.absent(self.router.id))?;
        headers.push((Cow::Borrowed("id"), header_value(converter, id)));
        for (number, name) in &self.router.headers {
            if let Some(typed) = self.placed(*number)? {
                let value = header_value(converter, typed);
                headers.push((Cow::Borrowed(name), value));
            }
        }
        Ok(headers)
    }

    fn value(&self) -> Result<Option<Cow<'a, [u8]>>, RowFault> {
        let router = self.router;
        let number = router.payload;
        let mut payload = self.typed(number)?.ok_or_else(|| self.absent(number))?;
        let is_blank = match &payload.data {
            Data::Null => true,
            Data::Text(text) => is_blank(text),
            _ => false,
        };
        if is_blank && router.options.tombstone_on_blank {
            return Ok(None);
        }
        if let (Some(expansion), Data::Text(text)) = (router.options.expansion, &payload.data) {
            match expansion.expand(&router.options.columns.payload, text) {
                Expanded::Unchanged => {}
                Expanded::Struct(schema, data) => payload = Typed::inferred(Some(schema), data),
                Expanded::Misfit(schema) => payload = Typed::misfit(schema, payload.data),
                Expanded::TooLarge => {
                    return Err(self.fault(number, "expanding it takes more than 32 MiB of memory"));
                }
            }
        }
        if !router.envelope.is_empty() {
            payload = self.envelope(payload)?;
        }
        convert(router.options.value, payload).map_err(|why| self.fault(number, why))
    }

    /// The payload and other columns as a struct.
    fn envelope(&self, payload: Typed<'_, 'a>) -> Result<Typed<'static, 'a>, RowFault> {
        let router = self.router;
        let why = "the schema that was inferred from it does not fit it";
        let (schema, data) =
            payload.into_fitting().ok_or_else(|| self.fault(router.payload, why))?;
        let mut fields = Fields::from_iter([("payload".to_owned(), schema)]);
        let mut members = vec![data];
        for (number, name) in &router.envelope {
            let Some(typed) = self.placed(*number)? else { continue };
            let Some((schema, data)) = typed.into_fitting() else { continue };
            fields.insert(name.clone(), schema);
            members.push(data);
        }
        let version = match router.schema_version {
            None => None,
            Some(number) => match self.typed(number)?.map(|typed| typed.data) {
                Some(Data::Integer(version)) => i32::try_from(version).ok(),
                _ => None,
            },
        };
        let name = Some(self.schema_name()?);
        let schema = Schema { name, version, ..Schema::of(Kind::Struct(fields)) };
        Ok(Typed::inferred(Some(schema), Data::Struct(members)))
    }

    fn schema_name(&self) -> Result<String, RowFault> {
        let routed = self.row.text(Column::Topic)?.unwrap_or_default();
        let (schema, table) = &self.router.table;
        let prefix = &self.router.options.topic_prefix;
        Ok(format!("{}.{routed}.Value", legal_name(&format!("{prefix}.{schema}.{table}"))))
    }

    fn timestamp(&self) -> Result<Option<PgTime>, RowFault> {
        let Some(number) = self.router.timestamp else { return Ok(None) };
        let unit = self.column(number).and_then(ConnectColumn::timestamp_unit);
        let data = self.placed(number)?.map(|typed| typed.data);
        let (Some(unit), Some(Data::Integer(count))) = (unit, data) else { return Ok(None) };
        Ok(unit.to_micros(count).map(PgTime::from_unix_micros))
    }
}
