//! Kafka Connect's `JsonConverter`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::data::{Data, JavaDate};
use super::java;
use super::schema::{Kind, Schema};

/// Writes a value that fits its schema.
pub(crate) fn write_data(json: &mut String, schema: &Schema, data: &Data<'_>) {
    match data {
        Data::Null => match &schema.default {
            Some(default) if *default != Data::Null => write_data(json, schema, default),
            _ => json.push_str("null"),
        },
        Data::Boolean(value) => json.push_str(if *value { "true" } else { "false" }),
        Data::Integer(value)
        | Data::Date(JavaDate::Day(value) | JavaDate::Time(value) | JavaDate::Moment(value)) => {
            json.push_str(&value.to_string());
        }
        Data::Float32(value) => write_float(json, &java::float(*value), value.is_finite()),
        Data::Float64(value) => write_float(json, &java::double(*value), value.is_finite()),
        Data::Text(text) => write_string(json, text),
        Data::Bytes(bytes) => write_bytes(json, bytes),
        Data::Decimal(decimal) => write_bytes(json, &decimal.bytes()),
        Data::Array(items) => {
            let Kind::Array(item_schema) = &schema.kind else { return };
            json.push('[');
            for (number, item) in items.iter().enumerate() {
                if number > 0 {
                    json.push(',');
                }
                write_data(json, item_schema, item);
            }
            json.push(']');
        }
        Data::Struct(members) => {
            json.push('{');
            for (number, ((name, schema), member)) in schema.fields().zip(members).enumerate() {
                if number > 0 {
                    json.push(',');
                }
                write_string(json, name);
                json.push(':');
                write_data(json, schema, member);
            }
            json.push('}');
        }
    }
}

/// JSON has no infinity, so Jackson writes its name in quotes.
fn write_float(json: &mut String, text: &str, is_finite: bool) {
    if is_finite { json.push_str(text) } else { write_string(json, text) }
}

fn write_bytes(json: &mut String, bytes: &[u8]) {
    json.push('"');
    STANDARD.encode_string(bytes, json);
    json.push('"');
}

/// A string with the escapes that Jackson uses, and no others.
pub(crate) fn write_string(json: &mut String, text: &str) {
    json.reserve(text.len() + 2);
    json.push('"');
    let mut rest = text;
    // Bytes from 0xF0 begin a character of more than 16 bits.
    let is_special = |byte: u8| byte < b' ' || matches!(byte, b'"' | b'\\' | 0xF0..);
    while let Some(at) = rest.bytes().position(is_special) {
        let Some((plain, from)) = rest.split_at_checked(at) else { break };
        json.push_str(plain);
        let mut chars = from.chars();
        match chars.next() {
            Some('"') => json.push_str("\\\""),
            Some('\\') => json.push_str("\\\\"),
            Some('\n') => json.push_str("\\n"),
            Some('\r') => json.push_str("\\r"),
            Some('\t') => json.push_str("\\t"),
            Some('\u{8}') => json.push_str("\\b"),
            Some('\u{c}') => json.push_str("\\f"),
            Some(other) => {
                for unit in other.encode_utf16(&mut [0; 2]) {
                    json.push_str(&format!("\\u{unit:04X}"));
                }
            }
            None => {}
        }
        rest = chars.as_str();
    }
    json.push_str(rest);
    json.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped_as_jackson_escapes_them() {
        let mut json = String::new();
        write_string(&mut json, "a\"b\\c/\n\r\t\u{8}\u{c}\u{1f}\u{7f}ü€😀");
        assert_eq!(json, "\"a\\\"b\\\\c/\\n\\r\\t\\b\\f\\u001F\u{7f}ü€\\uD83D\\uDE00\"");
    }
}
