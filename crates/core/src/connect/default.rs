//! What Debezium makes of a column's DEFAULT: the value of a literal, a fixed value in place of a
//! function's, else none.

use std::borrow::Cow;

use super::column::ColumnType;
use super::data::{Data, Decimal};
use super::reader::Reader;

/// The default of a column of this type, from the catalog's expression.
pub(crate) fn default_of(
    expression: &str,
    column: &ColumnType,
    reader: Reader,
) -> Option<Data<'static>> {
    if !column.enum_labels.is_empty() {
        return read(reader, enum_literal(expression)?.to_owned());
    }
    let generated = generated(column)?;
    let text = if is_generated(expression) { generated } else { literal(expression)? };
    let text = match reader {
        // Whatever is not true is false.
        Reader::Boolean if text.eq_ignore_ascii_case("true") => "true",
        Reader::Boolean => "false",
        _ => text,
    };
    match reader {
        Reader::Decimal { scale } => decimal(text, scale),
        // Debezium has no default for a struct.
        Reader::VariableDecimal => None,
        Reader::Timestamp(_)
        | Reader::IsoTimestamp
        | Reader::ConnectTimestamp
        | Reader::ZonedTimestamp(_) => moment(text, reader),
        Reader::Time(_) | Reader::IsoTime | Reader::ConnectTime if text == "00:00" => {
            read(reader, "00:00:00".to_owned())
        }
        Reader::Interval if text == "epoch" => Some(Data::Integer(0)),
        _ => read(reader, text.to_owned()),
    }
}

fn read(reader: Reader, text: String) -> Option<Data<'static>> {
    reader.read(Cow::Owned(text)).map(Data::into_owned)
}

/// What stands for a function's value, by the type. None: the type's defaults are not read.
fn generated(column: &ColumnType) -> Option<&'static str> {
    Some(match column.type_name.as_str() {
        "bool" => "false",
        "bpchar" | "varchar" | "text" | "xml" => "",
        "numeric" | "float4" | "float8" => "0.0",
        "int2" | "int4" | "int8" => "0",
        "json" | "jsonb" => "{}",
        "uuid" => "00000000-0000-0000-0000-000000000000",
        "date" | "timestamp" | "timestamptz" => "1970-01-01",
        "time" => "00:00",
        "interval" => "epoch",
        _ => return None,
    })
}

/// Whether the expression calls a function: a name, and later a pair of parentheses.
fn is_generated(expression: &str) -> bool {
    const NAMES: [&str; 5] =
        ["current_timestamp", "current_time", "current_date", "localtime", "localtimestamp"];
    let call = expression.strip_prefix('(').unwrap_or(expression);
    let is_name = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '.');
    let arguments = call.trim_start_matches(is_name);
    let calls = arguments.len() < call.len()
        && arguments.starts_with('(')
        && arguments.lines().next().is_some_and(|line| line.contains(')'));
    calls || NAMES.contains(&expression.to_lowercase().as_str())
}

/// `'text'::type` or a bare number.
fn literal(expression: &str) -> Option<&str> {
    match expression.split_once('\'') {
        Some((_, quoted)) => quoted.split_once('\'').map(|(text, _)| text),
        None if expression.starts_with("NULL::") => None,
        None => Some(expression.trim()),
    }
}

/// `'text'::mood`.
fn enum_literal(expression: &str) -> Option<&str> {
    let (quoted, _) = expression.rsplit_once("::")?;
    quoted.strip_prefix('\'')?.strip_suffix('\'')
}

/// More digits than the column has would have to be rounded, which Debezium does not do.
fn decimal(text: &str, scale: u32) -> Option<Data<'static>> {
    let mut text = text;
    while Decimal::parse(text)?.scale > scale && text.ends_with('0') {
        text = text.strip_suffix('0')?.trim_end_matches('.');
    }
    read(Reader::Decimal { scale }, text.to_owned())
}

fn moment(text: &str, reader: Reader) -> Option<Data<'static>> {
    let time = if text.contains(' ') { "" } else { " 00:00:00" };
    let text = format!("{text}{time}");
    let has_zone = text.split_once(' ').is_some_and(|(_, time)| time.contains(['+', '-']));
    let needs_zone = matches!(reader, Reader::ZonedTimestamp(_)) && !has_zone;
    read(reader, format!("{text}{}", if needs_zone { "+00" } else { "" }))
}
