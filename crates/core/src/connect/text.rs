//! Kafka Connect's `StringConverter` and `SimpleHeaderConverter`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::borrow::Cow;

use super::data::{Data, JavaDate};
use super::java;
use super::schema::{Kind, Schema};
use super::times;

const MILLIS_PER_DAY: i64 = 86_400_000;

/// What `StringConverter` makes of a value: its `toString()`. An error says what Java would write
/// in place of the value.
pub(crate) fn converted<'a>(
    schema: Option<&Schema>,
    data: Data<'a>,
) -> Result<Option<Cow<'a, str>>, &'static str> {
    let mut text = String::new();
    match data {
        Data::Null => return Ok(None),
        Data::Text(text) => return Ok(Some(text)),
        other => write_object(&mut text, schema, &other)?,
    }
    Ok(Some(Cow::Owned(text)))
}

/// Java writes an address in place of a byte array.
fn has_byte_array(schema: &Schema) -> bool {
    let name = schema.name.as_deref();
    matches!(name, Some("io.debezium.data.Bits" | "io.debezium.data.VariableScaleDecimal"))
}

fn write_object(
    text: &mut String,
    schema: Option<&Schema>,
    data: &Data<'_>,
) -> Result<(), &'static str> {
    match data {
        Data::Null => text.push_str("null"),
        Data::Boolean(value) => text.push_str(if *value { "true" } else { "false" }),
        Data::Integer(value) => text.push_str(&value.to_string()),
        Data::Float32(value) => text.push_str(&java::float(*value)),
        Data::Float64(value) => text.push_str(&java::double(*value)),
        Data::Text(value) => text.push_str(value),
        Data::Decimal(value) => text.push_str(&value.text()),
        Data::Bytes(_) | Data::Struct(_) if schema.is_some_and(has_byte_array) => {
            return Err("the string converter writes such a value differently each time");
        }
        // The object that holds them.
        Data::Bytes(bytes) => {
            let count = bytes.len();
            text.push_str(&format!("java.nio.HeapByteBuffer[pos=0 lim={count} cap={count}]"));
        }
        Data::Date(_) => {
            return Err("the string converter's form of a date depends on its machine");
        }
        Data::Array(items) => {
            let items_schema = schema.and_then(|schema| match &schema.kind {
                Kind::Array(items) => Some(items.as_ref()),
                _ => None,
            });
            text.push('[');
            for (number, item) in items.iter().enumerate() {
                if number > 0 {
                    text.push_str(", ");
                }
                write_object(text, items_schema, item)?;
            }
            text.push(']');
        }
        Data::Struct(members) => {
            text.push_str("Struct{");
            let fields = schema.into_iter().flat_map(Schema::fields);
            let mut is_first = true;
            for ((name, schema), member) in fields.zip(members) {
                if *member == Data::Null {
                    continue;
                }
                if !std::mem::take(&mut is_first) {
                    text.push(',');
                }
                text.push_str(name);
                text.push('=');
                write_object(text, Some(schema), member)?;
            }
            text.push('}');
        }
    }
    Ok(())
}

/// What `SimpleHeaderConverter` makes of a value: `Values.convertToString`.
pub(crate) fn header<'a>(schema: &Schema, data: Data<'a>) -> Option<Cow<'a, str>> {
    match data {
        Data::Null => None,
        Data::Text(text) => Some(text),
        other => {
            let mut text = String::new();
            write_value(&mut text, schema, &other, false);
            Some(Cow::Owned(text))
        }
    }
}

fn write_value(text: &mut String, schema: &Schema, data: &Data<'_>, is_inside: bool) {
    let quote = if is_inside { "\"" } else { "" };
    match data {
        Data::Null => text.push_str("null"),
        Data::Boolean(value) => text.push_str(if *value { "true" } else { "false" }),
        Data::Integer(value) => text.push_str(&value.to_string()),
        Data::Float32(value) => text.push_str(&java::float(*value)),
        Data::Float64(value) => text.push_str(&java::double(*value)),
        Data::Text(value) if is_inside => {
            let escaped = value.replace('\\', "\\\\").replace('"', "\\\"");
            text.push_str(&format!("\"{escaped}\""));
        }
        Data::Text(value) => text.push_str(value),
        Data::Bytes(bytes) => text.push_str(&format!("{quote}{}{quote}", STANDARD.encode(bytes))),
        Data::Decimal(value) => text.push_str(&value.text()),
        Data::Date(date) => text.push_str(&times::header(match *date {
            JavaDate::Day(days) => days.saturating_mul(MILLIS_PER_DAY),
            JavaDate::Time(millis) | JavaDate::Moment(millis) => millis,
        })),
        Data::Array(items) => {
            let Kind::Array(items_schema) = &schema.kind else { return };
            text.push('[');
            for (number, item) in items.iter().enumerate() {
                if number > 0 {
                    text.push(',');
                }
                write_value(text, items_schema, item, true);
            }
            text.push(']');
        }
        Data::Struct(members) => {
            text.push('{');
            for (number, ((name, schema), member)) in schema.fields().zip(members).enumerate() {
                if number > 0 {
                    text.push(',');
                }
                text.push_str(&format!("\"{name}\":"));
                write_value(text, schema, member, true);
            }
            text.push('}');
        }
    }
}
