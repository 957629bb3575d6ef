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
/// What expanding a payload may take in memory: schemas repeat the names of what they are in, and
/// each object of an array has room for the members of all of them.
const MEMORY_BYTES_MAX: usize = 32 * 1024 * 1024;
/// What a value takes, about, and what a member of a schema takes in addition to its name.
const VALUE_BYTES: usize = 64;
const MEMBER_BYTES: usize = 256;

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
    /// That would take too much memory.
    TooLarge,
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

/// Why there is no schema.
enum Stop {
    /// Kafka Connect has none for it.
    Impossible,
    /// It takes too much memory.
    TooLarge,
}

/// A payload that is being expanded.
struct Work {
    expansion: Expansion,
    /// What it may still take in memory.
    bytes_left: usize,
}

impl Expansion {
    /// Expands a payload that is text. `name` is that of its column.
    pub(super) fn expand(self, name: &str, payload: &str) -> Expanded {
        // Other JSON is not expanded, nor is any with a space before it.
        if !payload.starts_with(['{', '[']) {
            return Expanded::Unchanged;
        }
        let mut work = Work { expansion: self, bytes_left: MEMORY_BYTES_MAX };
        let begins_value = |byte: &u8| matches!(byte, b',' | b'[' | b'{');
        let values_max = payload.bytes().filter(|byte| begins_value(byte)).count();
        if work.take(payload.len() + values_max * VALUE_BYTES).is_err() {
            return Expanded::TooLarge;
        }
        let Some(node) = parse(payload) else { return Expanded::Unchanged };
        let schema = match work.schema(Some(name), &node) {
            Ok(schema) => schema,
            Err(Stop::Impossible) => return Expanded::Unchanged,
            Err(Stop::TooLarge) => return Expanded::TooLarge,
        };
        match schema {
            Some(schema) if matches!(node, Node::Object(_)) => {
                match work.fill_struct(&node, &schema) {
                    Ok(data) => Expanded::Struct(schema, data),
                    Err(Stop::Impossible) => Expanded::Misfit(Some(schema)),
                    Err(Stop::TooLarge) => Expanded::TooLarge,
                }
            }
            schema => Expanded::Misfit(schema),
        }
    }
}

impl Work {
    fn take(&mut self, bytes: usize) -> Result<(), Stop> {
        self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or(Stop::TooLarge)?;
        Ok(())
    }

    fn schema(&mut self, name: Option<&str>, node: &Node) -> Result<Option<Schema>, Stop> {
        let Expansion { keeps_nulls, keeps_empty_arrays } = self.expansion;
        Ok(match node {
            Node::Null if keeps_nulls => Some(Schema::optional(Kind::Bytes)),
            Node::Null => None,
            Node::Boolean(_) => Some(Schema::optional(Kind::Boolean)),
            Node::Int(_) => Some(Schema::optional(Kind::Int32)),
            Node::Long(_) => Some(Schema::optional(Kind::Int64)),
            Node::BigInteger | Node::Double(_) => Some(Schema::optional(Kind::Float64)),
            Node::Text(_) => Some(Schema::optional(Kind::Text)),
            Node::Array(items) if items.is_empty() => keeps_empty_arrays.then(|| {
                let items = Schema::optional(Kind::Text);
                Schema::optional(Kind::Array(Box::new(items)))
            }),
            Node::Array(items) => {
                let items = self.schema_of_items(name, items)?;
                Some(Schema::optional(Kind::Array(Box::new(items))))
            }
            Node::Object(members) => Some(self.schema_of_object(name, members)?),
        })
    }

    fn schema_of_object(
        &mut self,
        name: Option<&str>,
        members: &IndexMap<String, Node>,
    ) -> Result<Schema, Stop> {
        let mut fields = Fields::default();
        for (member, value) in members {
            self.take(MEMBER_BYTES + member.len())?;
            // Only structs have names.
            let path = match (name, value) {
                (Some(name), Node::Object(_) | Node::Array(_)) if !name.trim().is_empty() => {
                    self.take(name.len() + member.len())?;
                    format!("{name}.{member}")
                }
                _ => member.clone(),
            };
            if let Some(schema) = self.schema(Some(&path), value)? {
                if member.is_empty() {
                    return Err(Stop::Impossible);
                }
                fields.insert(member.clone(), schema);
            }
        }
        let name = name.map(ToOwned::to_owned);
        Ok(Schema { name, ..Schema::optional(Kind::Struct(fields)) })
    }

    fn schema_of_items(&mut self, name: Option<&str>, items: &[Node]) -> Result<Schema, Stop> {
        let mut present = items.iter().filter(|item| **item != Node::Null);
        let sample = present.next().unwrap_or(&Node::Null);
        if present.any(|item| !is_alike(sample, item)) {
            return Err(Stop::Impossible);
        }
        if !matches!(sample, Node::Object(_)) {
            return self.schema(None, sample)?.ok_or(Stop::Impossible);
        }
        // Each object is looked at once: there can be arrays of objects in it.
        let mut objects = items.iter().filter(|item| matches!(item, Node::Object(_)));
        let first = objects.next().map(|object| self.schema(name, object)).transpose()?;
        let first = first.flatten().ok_or(Stop::Impossible)?;
        let mut merged = first.clone();
        for object in objects {
            match self.schema(name, object)? {
                Some(schema) if schema != first => merged = merge(merged, schema),
                _ => {}
            }
        }
        Ok(merged)
    }

    /// The struct of an object; impossible if a value does not fit the schema.
    fn fill_struct(&mut self, node: &Node, schema: &Schema) -> Result<Data<'static>, Stop> {
        let Node::Object(members) = node else { return Err(Stop::Impossible) };
        let mut values = Vec::new();
        for (name, schema) in schema.fields() {
            self.take(VALUE_BYTES)?;
            values.push(match members.get(name) {
                None => Data::Null,
                Some(value) => self.fill(value, schema)?,
            });
        }
        Ok(Data::Struct(values))
    }

    fn fill(&mut self, node: &Node, schema: &Schema) -> Result<Data<'static>, Stop> {
        Ok(match (node, &schema.kind) {
            (Node::Null, _) => Data::Null,
            (Node::Boolean(value), Kind::Boolean) => Data::Boolean(*value),
            (Node::Int(value), Kind::Int32) => Data::Integer(i64::from(*value)),
            (Node::Long(value), Kind::Int64) => Data::Integer(*value),
            (Node::Double(value), Kind::Float64) => Data::Float64(*value),
            (Node::Text(value), Kind::Text) => Data::Text(value.clone().into()),
            (Node::Array(items), Kind::Array(schema)) => {
                let items = items.iter().map(|item| self.fill(item, schema));
                Data::Array(items.collect::<Result<_, Stop>>()?)
            }
            (Node::Object(_), Kind::Struct(_)) => self.fill_struct(node, schema)?,
            _ => return Err(Stop::Impossible),
        })
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
