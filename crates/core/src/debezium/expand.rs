//! `table.expand.json.payload`: JSON text becomes a struct whose schema is inferred from it.
//!
//! Debezium infers the schema first, then fills it. What fails in the first step leaves the payload
//! as it is. What fails in the second one leaves the text with a schema that it does not fit, which
//! only the string converter can still write.

use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::connect::{Data, Fields, Kind, Schema};

/// Objects and arrays inside each other. Debezium reads some more, which nobody writes.
const DEPTH_MAX: usize = 128;

/// What is left out of an expanded payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expansion {
    /// Members that are null are kept (`table.json.payload.null.behavior = optional_bytes`).
    pub keeps_nulls: bool,
    /// Members that are empty arrays are kept
    /// (`table.json.payload.empty.array.behavior = optional_string`).
    pub keeps_empty_arrays: bool,
}

/// What became of a payload.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expanded {
    /// A struct and its schema.
    Struct(Schema, Data<'static>),
    /// It stays as it is.
    Unchanged,
    /// It stays text, with this schema; none: it has none.
    Misfit(Option<Schema>),
}

/// JSON as Jackson reads it.
#[derive(Debug, Clone, PartialEq)]
enum Node {
    Null,
    Boolean(bool),
    Int(i32),
    Long(i64),
    /// More than 64 bits.
    BigInteger,
    Double(f64),
    Text(String),
    Array(Vec<Node>),
    /// Of members with the same name, the last one's value, in the place of the first.
    Object(IndexMap<String, Node>),
}

/// Kafka Connect has no schema for it.
struct Impossible;

impl Expansion {
    /// Expands a payload that is text. `name` is that of its column.
    pub(super) fn expand(self, name: &str, payload: &str) -> Expanded {
        // Other JSON is not expanded, nor is any with a space before it.
        if !payload.starts_with(['{', '[']) {
            return Expanded::Unchanged;
        }
        let Some(node) = parse(payload) else { return Expanded::Unchanged };
        match self.schema(Some(name), &node) {
            Err(Impossible) => Expanded::Unchanged,
            Ok(Some(schema)) if matches!(node, Node::Object(_)) => {
                match fill_struct(&node, &schema) {
                    Some(data) => Expanded::Struct(schema, data),
                    None => Expanded::Misfit(Some(schema)),
                }
            }
            Ok(schema) => Expanded::Misfit(schema),
        }
    }

    fn schema(self, name: Option<&str>, node: &Node) -> Result<Option<Schema>, Impossible> {
        Ok(match node {
            Node::Null if self.keeps_nulls => Some(Schema::optional(Kind::Bytes)),
            Node::Null => None,
            Node::Boolean(_) => Some(Schema::optional(Kind::Boolean)),
            Node::Int(_) => Some(Schema::optional(Kind::Int32)),
            Node::Long(_) => Some(Schema::optional(Kind::Int64)),
            Node::BigInteger | Node::Double(_) => Some(Schema::optional(Kind::Float64)),
            Node::Text(_) => Some(Schema::optional(Kind::Text)),
            Node::Array(items) if items.is_empty() => self.keeps_empty_arrays.then(|| {
                let items = Schema::optional(Kind::Text);
                Schema::optional(Kind::Array(Box::new(items)))
            }),
            Node::Array(items) => {
                let items = self.schema_of_items(name, items)?;
                Some(Schema::optional(Kind::Array(Box::new(items))))
            }
            Node::Object(members) => {
                let mut fields = Fields::default();
                for (member, value) in members {
                    let path = match name {
                        Some(name) if !name.trim().is_empty() => format!("{name}.{member}"),
                        _ => member.clone(),
                    };
                    if let Some(schema) = self.schema(Some(&path), value)? {
                        if member.is_empty() {
                            return Err(Impossible);
                        }
                        fields.insert(member.clone(), schema);
                    }
                }
                let name = name.map(ToOwned::to_owned);
                Some(Schema { name, ..Schema::optional(Kind::Struct(fields)) })
            }
        })
    }

    fn schema_of_items(self, name: Option<&str>, items: &[Node]) -> Result<Schema, Impossible> {
        let mut present = items.iter().filter(|item| **item != Node::Null);
        let sample = present.next().unwrap_or(&Node::Null);
        if present.any(|item| !is_alike(sample, item)) {
            return Err(Impossible);
        }
        if !matches!(sample, Node::Object(_)) {
            return self.schema(None, sample)?.ok_or(Impossible);
        }
        let first = self.schema(name, sample)?.ok_or(Impossible)?;
        let mut merged = first.clone();
        for item in items.iter().filter(|item| matches!(item, Node::Object(_))) {
            match self.schema(name, item)? {
                Some(schema) if schema != first => merged = merge(merged, schema),
                _ => {}
            }
        }
        Ok(merged)
    }
}

/// Numbers of different kinds are not alike.
fn is_alike(one: &Node, other: &Node) -> bool {
    let is_float = |node: &Node| matches!(node, Node::BigInteger | Node::Double(_));
    std::mem::discriminant(one) == std::mem::discriminant(other)
        || (is_float(one) && is_float(other))
}

/// The members of both; one that was only ever null takes the other's schema. Debezium forgets that
/// the struct is optional.
fn merge(mut left: Schema, right: Schema) -> Schema {
    let (Kind::Struct(fields), Kind::Struct(others)) = (&mut left.kind, right.kind) else {
        return left;
    };
    for (name, other) in others {
        match fields.get_mut(&name) {
            None => drop(fields.insert(name, other)),
            Some(known) if known.kind == Kind::Bytes => *known = other,
            Some(_) => {}
        }
    }
    left.optional = false;
    left
}

/// The struct of an object; none: a value does not fit the schema.
fn fill_struct(node: &Node, schema: &Schema) -> Option<Data<'static>> {
    let Node::Object(members) = node else { return None };
    let value = |(name, schema): (&String, &Schema)| match members.get(name) {
        None => Some(Data::Null),
        Some(value) => fill(value, schema),
    };
    schema.fields().map(value).collect::<Option<Vec<_>>>().map(Data::Struct)
}

fn fill(node: &Node, schema: &Schema) -> Option<Data<'static>> {
    Some(match (node, &schema.kind) {
        (Node::Null, _) => Data::Null,
        (Node::Boolean(value), Kind::Boolean) => Data::Boolean(*value),
        (Node::Int(value), Kind::Int32) => Data::Integer(i64::from(*value)),
        (Node::Long(value), Kind::Int64) => Data::Integer(*value),
        (Node::Double(value), Kind::Float64) => Data::Float64(*value),
        (Node::Text(value), Kind::Text) => Data::Text(value.clone().into()),
        (Node::Array(items), Kind::Array(schema)) => {
            Data::Array(items.iter().map(|item| fill(item, schema)).collect::<Option<_>>()?)
        }
        (Node::Object(_), Kind::Struct(_)) => fill_struct(node, schema)?,
        _ => return None,
    })
}

/// The first JSON value of a text; what follows it is not read.
fn parse(text: &str) -> Option<Node> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let raw = <&RawValue>::deserialize(&mut deserializer).ok()?;
    node(raw.get(), DEPTH_MAX)
}

/// None: not JSON, or too deep.
fn node(json: &str, depth_max: usize) -> Option<Node> {
    let depth_left = || depth_max.checked_sub(1);
    Some(match json.bytes().next()? {
        b'{' => {
            let depth_left = depth_left()?;
            let Members(members) = serde_json::from_str(json).ok()?;
            let read =
                |(name, value): (String, &RawValue)| Some((name, node(value.get(), depth_left)?));
            Node::Object(members.into_iter().map(read).collect::<Option<_>>()?)
        }
        b'[' => {
            let depth_left = depth_left()?;
            let items: Vec<&RawValue> = serde_json::from_str(json).ok()?;
            let read = |item: &&RawValue| node(item.get(), depth_left);
            Node::Array(items.iter().map(read).collect::<Option<_>>()?)
        }
        b'"' => Node::Text(serde_json::from_str(json).ok()?),
        b't' => Node::Boolean(true),
        b'f' => Node::Boolean(false),
        b'n' => Node::Null,
        _ => number(json),
    })
}

fn number(json: &str) -> Node {
    if json.contains(['.', 'e', 'E']) {
        return Node::Double(json.parse().unwrap_or(f64::NAN));
    }
    match (json.parse::<i32>(), json.parse::<i64>()) {
        (Ok(int), _) => Node::Int(int),
        (_, Ok(long)) => Node::Long(long),
        _ => Node::BigInteger,
    }
}

/// An object's members in their order, values unread.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Members(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}
