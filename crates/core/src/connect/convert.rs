//! Values with their schemas, and the converters of Kafka Connect that make bytes of them.

use std::borrow::Cow;

use super::column::ConnectColumn;
use super::data::Data;
use super::json::write_data;
use super::schema::{Kind, Schema};
use super::text;

/// What makes bytes of a key or value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Converter {
    /// `StringConverter`.
    #[default]
    Text,
    /// `JsonConverter` without schemas.
    Json,
    /// `JsonConverter` with schemas.
    JsonWithSchemas,
    /// `ByteArrayConverter`.
    Bytes,
}

/// What makes bytes of a header.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HeaderConverter {
    /// `SimpleHeaderConverter`.
    #[default]
    Simple,
    /// `JsonConverter` without schemas.
    Json,
    /// `JsonConverter` with schemas.
    JsonWithSchemas,
}

impl Converter {
    /// All of them, as they are typed.
    pub const ALL: [(&'static str, Self); 4] = [
        ("string", Self::Text),
        ("json", Self::Json),
        ("json-with-schemas", Self::JsonWithSchemas),
        ("bytes", Self::Bytes),
    ];
}

impl HeaderConverter {
    /// All of them, as they are typed.
    pub const ALL: [(&'static str, Self); 3] = [
        ("simple", Self::Simple),
        ("json", Self::Json),
        ("json-with-schemas", Self::JsonWithSchemas),
    ];
}

/// A value and what it is.
pub(crate) struct Typed<'s, 'a> {
    schema: Option<Cow<'s, Schema>>,
    pub(crate) data: Data<'a>,
    /// What a JSON converter with schemas writes before it, if that is known already.
    json_head: Option<&'s str>,
    /// It does not fit its schema.
    is_misfit: bool,
}

impl<'s, 'a> Typed<'s, 'a> {
    pub(crate) fn of_column(column: &'s ConnectColumn, data: Data<'a>) -> Self {
        let json_head = Some(column.json_head());
        Typed { schema: Some(Cow::Borrowed(column.schema())), data, json_head, is_misfit: false }
    }

    pub(crate) fn of_schema(schema: &'s Schema, data: Data<'a>) -> Self {
        Typed { schema: Some(Cow::Borrowed(schema)), data, json_head: None, is_misfit: false }
    }

    pub(crate) fn inferred(schema: Option<Schema>, data: Data<'a>) -> Self {
        Typed { schema: schema.map(Cow::Owned), data, json_head: None, is_misfit: false }
    }

    pub(crate) fn misfit(schema: Option<Schema>, data: Data<'a>) -> Self {
        Typed { is_misfit: true, ..Typed::inferred(schema, data) }
    }

    /// Schema and value, if they fit each other.
    pub(crate) fn into_fitting(self) -> Option<(Schema, Data<'a>)> {
        if self.is_misfit { None } else { Some((self.schema?.into_owned(), self.data)) }
    }

    /// Whether it is bytes, or stands for them.
    fn is_bytes(&self) -> bool {
        self.schema.as_ref().is_none_or(|schema| schema.kind == Kind::Bytes)
    }

    fn json(&self, with_schema: bool) -> String {
        let mut json = String::new();
        if with_schema {
            match (self.json_head, &self.schema) {
                (Some(head), _) => json.push_str(head),
                (None, Some(schema)) => {
                    json.push_str(r#"{"schema":"#);
                    schema.write(&mut json, None);
                    json.push_str(r#","payload":"#);
                }
                (None, None) => json.push_str(r#"{"schema":null,"payload":"#),
            }
        }
        match &self.schema {
            Some(schema) => write_data(&mut json, schema, &self.data),
            None => write_data(&mut json, &Schema::of(Kind::Text), &self.data),
        }
        if with_schema {
            json.push('}');
        }
        json
    }
}

/// What becomes of a key or a value. An error says why Debezium would stop there.
pub(crate) fn convert<'a>(
    converter: Converter,
    typed: Typed<'_, 'a>,
) -> Result<Option<Cow<'a, [u8]>>, &'static str> {
    let with_schema = converter == Converter::JsonWithSchemas;
    match converter {
        Converter::Text | Converter::Bytes => match typed.data {
            // Kafka Connect looks at the schema first.
            Data::Null if converter == Converter::Text || typed.is_bytes() => Ok(None),
            // Debezium's string converter would publish the name of a Java object.
            Data::Bytes(bytes) => Ok(Some(bytes)),
            data if converter == Converter::Text => {
                Ok(text::converted(typed.schema.as_deref(), data)?.map(bytes))
            }
            _ => Err("the bytes converter takes only bytea; choose another one in [debezium]"),
        },
        Converter::Json | Converter::JsonWithSchemas => {
            if typed.is_misfit && typed.schema.is_some() {
                return Err("the schema that was inferred from it does not fit it");
            }
            Ok(Some(Cow::Owned(typed.json(with_schema).into_bytes())))
        }
    }
}

/// What becomes of a header.
pub(crate) fn header_value<'a>(
    converter: HeaderConverter,
    typed: Typed<'_, 'a>,
) -> Option<Cow<'a, [u8]>> {
    match converter {
        HeaderConverter::Simple => {
            let schema = typed.schema?;
            text::header(&schema, typed.data).map(bytes)
        }
        HeaderConverter::Json | HeaderConverter::JsonWithSchemas => {
            let with_schema = converter == HeaderConverter::JsonWithSchemas;
            Some(Cow::Owned(typed.json(with_schema).into_bytes()))
        }
    }
}

fn bytes(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}
