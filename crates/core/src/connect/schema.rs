//! Schemas of Kafka Connect: what a value is, and how its JSON form describes that.

use indexmap::IndexMap;

use super::data::Data;
use super::json::{write_data, write_string};

/// What a value is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Schema {
    pub(crate) kind: Kind,
    pub(crate) optional: bool,
    /// A logical type, such as a date.
    pub(crate) name: Option<String>,
    pub(crate) version: Option<i32>,
    pub(crate) doc: Option<&'static str>,
    pub(crate) parameters: Vec<(&'static str, String)>,
    /// What NULL stands for.
    pub(crate) default: Option<Data<'static>>,
}

/// The kinds of values that Kafka Connect tells apart.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Boolean,
    Int16,
    Int32,
    Int64,
    Float32,
    Float64,
    Text,
    Bytes,
    Array(Box<Schema>),
    Struct(Fields),
}

/// The members of a struct, in their order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields(IndexMap<String, Schema>);

impl Fields {
    /// Adds a member, or replaces it where it is.
    pub(crate) fn insert(&mut self, name: String, schema: Schema) -> Option<Schema> {
        self.0.insert(name, schema)
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut Schema> {
        self.0.get_mut(name)
    }
}

/// In another order it is another struct.
impl PartialEq for Fields {
    fn eq(&self, other: &Self) -> bool {
        self.0.iter().eq(other.0.iter())
    }
}

impl FromIterator<(String, Schema)> for Fields {
    fn from_iter<T: IntoIterator<Item = (String, Schema)>>(fields: T) -> Self {
        Fields(fields.into_iter().collect())
    }
}

impl IntoIterator for Fields {
    type Item = (String, Schema);
    type IntoIter = indexmap::map::IntoIter<String, Schema>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl Schema {
    /// A value that must be there, of no logical type.
    pub(crate) fn of(kind: Kind) -> Self {
        Schema {
            kind,
            optional: false,
            name: None,
            version: None,
            doc: None,
            parameters: Vec::new(),
            default: None,
        }
    }

    /// The same for one that may be missing.
    pub(crate) fn optional(kind: Kind) -> Self {
        Schema { optional: true, ..Schema::of(kind) }
    }

    /// The first version of a logical type.
    pub(crate) fn logical(kind: Kind, name: &str) -> Self {
        Schema { name: Some(name.to_owned()), version: Some(1), ..Schema::of(kind) }
    }

    /// The members of a struct.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&String, &Schema)> {
        let fields = if let Kind::Struct(fields) = &self.kind { Some(fields) } else { None };
        fields.into_iter().flat_map(|fields| &fields.0)
    }

    /// As JSON converters write it. `member` is the name of the struct's member that it describes.
    pub(crate) fn write(&self, json: &mut String, member: Option<&str>) {
        json.push_str(r#"{"type":""#);
        json.push_str(self.kind.name());
        json.push('"');
        match &self.kind {
            Kind::Array(items) => {
                json.push_str(r#","items":"#);
                items.write(json, None);
            }
            Kind::Struct(fields) => {
                json.push_str(r#","fields":["#);
                for (number, (name, schema)) in fields.0.iter().enumerate() {
                    if number > 0 {
                        json.push(',');
                    }
                    schema.write(json, Some(name));
                }
                json.push(']');
            }
            _ => {}
        }
        json.push_str(&format!(r#","optional":{}"#, self.optional));
        if let Some(name) = &self.name {
            json.push_str(r#","name":"#);
            write_string(json, name);
        }
        if let Some(version) = self.version {
            json.push_str(&format!(r#","version":{version}"#));
        }
        if let Some(doc) = self.doc {
            json.push_str(r#","doc":"#);
            write_string(json, doc);
        }
        self.write_parameters(json);
        if let Some(default) = &self.default {
            json.push_str(r#","default":"#);
            write_data(json, self, default);
        }
        if let Some(member) = member {
            json.push_str(r#","field":"#);
            write_string(json, member);
        }
        json.push('}');
    }

    fn write_parameters(&self, json: &mut String) {
        if self.parameters.is_empty() {
            return;
        }
        json.push_str(r#","parameters":{"#);
        for (number, (name, value)) in self.parameters.iter().enumerate() {
            if number > 0 {
                json.push(',');
            }
            write_string(json, name);
            json.push(':');
            write_string(json, value);
        }
        json.push('}');
    }
}

impl Kind {
    fn name(&self) -> &'static str {
        match self {
            Kind::Boolean => "boolean",
            Kind::Int16 => "int16",
            Kind::Int32 => "int32",
            Kind::Int64 => "int64",
            Kind::Float32 => "float",
            Kind::Float64 => "double",
            Kind::Text => "string",
            Kind::Bytes => "bytes",
            Kind::Array(_) => "array",
            Kind::Struct(_) => "struct",
        }
    }
}
