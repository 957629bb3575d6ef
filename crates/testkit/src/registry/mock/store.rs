//! Subjects, versions, ids and GUIDs, as Confluent's registry gives them out.
//!
//! Nothing is normalised, every schema is compatible, and schemas do not refer to others.

use std::collections::BTreeMap;

use openssl::base64::encode_block;
use openssl::hash::{MessageDigest, hash};
use prost::Message;
use protox::Compiler;
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver};
use serde_json::{Value, json};

use crate::registry::Kind;

/// An answer other than 200, with the registry's own code for it.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) code: u32,
    pub(super) message: String,
}

pub(super) type Answer = Result<Value, Refusal>;

#[derive(Default)]
pub(super) struct Store {
    /// The first one has the id 1.
    schemas: Vec<Schema>,
    /// Ids of the versions, the first of which is 1.
    subjects: BTreeMap<String, Vec<usize>>,
}

#[derive(Clone, PartialEq, Eq)]
struct Schema {
    kind: Kind,
    text: String,
}

impl Store {
    pub(super) fn subjects(&self) -> Value {
        self.subjects.keys().cloned().collect()
    }

    /// A schema has one id, also if several subjects have it.
    pub(super) fn register(&mut self, subject: &str, request: &Value) -> Answer {
        let schema = Schema::requested(request)?;
        let known = self.schemas.iter().position(|known| *known == schema);
        let id = known.unwrap_or(self.schemas.len()) + 1;
        if known.is_none() {
            self.schemas.push(schema);
        }
        let versions = self.subjects.entry(subject.to_owned()).or_default();
        if !versions.contains(&id) {
            versions.push(id);
        }
        self.describe(subject, id, "")
    }

    /// The version of a subject that is this schema.
    pub(super) fn look_up(&self, subject: &str, request: &Value) -> Answer {
        let schema = Schema::requested(request)?;
        let versions = self.versions_of(subject)?;
        let id = versions.iter().find(|id| self.schemas[**id - 1] == schema);
        self.describe(subject, *id.ok_or_else(|| not_found(40403, "Schema not found"))?, "")
    }

    pub(super) fn versions(&self, subject: &str) -> Answer {
        Ok((1..=self.versions_of(subject)?.len()).collect())
    }

    pub(super) fn version(&self, subject: &str, version: &str, format: &str) -> Answer {
        let versions = self.versions_of(subject)?;
        let number = match version {
            "latest" => versions.len(),
            number => number.parse().map_err(|_| unprocessable(42202, "Invalid version"))?,
        };
        let id = number.checked_sub(1).and_then(|at| versions.get(at));
        let id = id.ok_or_else(|| not_found(40402, &format!("Version {version} not found.")))?;
        self.describe(subject, *id, format)
    }

    pub(super) fn schema_of_id(&self, id: &str, format: &str) -> Answer {
        let at = id.parse::<usize>().ok().and_then(|id| id.checked_sub(1));
        let schema = at.and_then(|at| self.schemas.get(at));
        schema.ok_or_else(|| not_found(40403, &format!("Schema {id} not found")))?.show(format)
    }

    pub(super) fn schema_of_guid(&self, guid: &str, format: &str) -> Answer {
        let schema = self.schemas.iter().find(|schema| schema.guid() == guid);
        schema.ok_or_else(|| not_found(40403, &format!("Schema {guid} not found")))?.show(format)
    }

    fn versions_of(&self, subject: &str) -> Result<&Vec<usize>, Refusal> {
        let versions = self.subjects.get(subject);
        versions.ok_or_else(|| not_found(40401, &format!("Subject '{subject}' not found.")))
    }

    fn describe(&self, subject: &str, id: usize, format: &str) -> Answer {
        let version = self.subjects[subject].iter().position(|known| *known == id).unwrap() + 1;
        let mut answer = self.schemas[id - 1].show(format)?;
        answer["subject"] = json!(subject);
        answer["version"] = json!(version);
        answer["id"] = json!(id);
        Ok(answer)
    }
}

impl Schema {
    fn requested(request: &Value) -> Result<Schema, Refusal> {
        let kind = match request["schemaType"].as_str().unwrap_or("AVRO") {
            "AVRO" => Kind::Avro,
            "JSON" => Kind::Json,
            "PROTOBUF" => Kind::Protobuf,
            other => return Err(invalid(&format!("Invalid schema type {other}"))),
        };
        let text = request["schema"].as_str().unwrap_or_default().to_owned();
        if request["references"].as_array().is_some_and(|references| !references.is_empty()) {
            return Err(invalid("the registry of the tests has no references"));
        }
        if kind == Kind::Protobuf {
            compile(&text)?;
        } else {
            serde_json::from_str::<Value>(&text).map_err(|error| invalid(&error.to_string()))?;
        }
        Ok(Schema { kind, text })
    }

    /// Of what makes up the schema, which is only the text here: Confluent's is an MD5 too.
    fn guid(&self) -> String {
        let digest = hash(MessageDigest::md5(), self.text.as_bytes()).unwrap();
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        parts.join("-")
    }

    fn show(&self, format: &str) -> Answer {
        let is_serialized = self.kind == Kind::Protobuf && format == "serialized";
        let text = if is_serialized { compile(&self.text)? } else { self.text.clone() };
        Ok(json!({ "guid": self.guid(), "schemaType": self.kind.to_string(), "schema": text }))
    }
}

/// The text of a protobuf schema, and as its imports what every compiler has.
struct OneFile(String);

const FILE: &str = "schema.proto";

impl FileResolver for OneFile {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        if name == FILE {
            File::from_source(name, &self.0)
        } else {
            Err(protox::Error::file_not_found(name))
        }
    }
}

/// The file's descriptor, in base64.
fn compile(text: &str) -> Result<String, Refusal> {
    let mut files = ChainFileResolver::new();
    files.add(OneFile(text.to_owned()));
    files.add(GoogleFileResolver::new());
    let mut compiler = Compiler::with_file_resolver(files);
    compiler.open_file(FILE).map_err(|error| invalid(&error.to_string()))?;
    let file = compiler.file_descriptor_set().file.pop().expect("it was compiled");
    Ok(encode_block(&file.encode_to_vec()))
}

fn not_found(code: u32, message: &str) -> Refusal {
    Refusal { status: 404, code, message: message.to_owned() }
}

fn unprocessable(code: u32, message: &str) -> Refusal {
    Refusal { status: 422, code, message: message.to_owned() }
}

fn invalid(message: &str) -> Refusal {
    unprocessable(42201, message)
}
