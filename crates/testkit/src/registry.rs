//! Schema registries with the interface of Confluent's.
//!
//! Apicurio ([`apicurio`]) is software of others: what works with it works with a registry that we
//! have not written. It has no GUIDs, and it can't be made to fail. [`mock`] has and can.

pub mod apicurio;
pub mod mock;

use std::fmt;
use std::net::SocketAddr;

use openssl::base64::encode_block;
use serde_json::{Value, json};

use super::http::{self, Request};

/// What a schema is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Avro,
    Json,
    Protobuf,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Avro => "AVRO",
            Kind::Json => "JSON",
            Kind::Protobuf => "PROTOBUF",
        })
    }
}

/// What a client must present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Login {
    Basic { user: String, password: String },
    Bearer(String),
}

impl Login {
    /// The value of the header `Authorization`.
    pub fn header(&self) -> String {
        match self {
            Login::Basic { user, password } => {
                format!("Basic {}", encode_block(format!("{user}:{password}").as_bytes()))
            }
            Login::Bearer(token) => format!("Bearer {token}"),
        }
    }
}

/// How a registry names a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    pub id: u32,
    /// In registries that have GUIDs.
    pub guid: Option<String>,
}

/// How to reach a registry, as a copy.
#[derive(Clone, Debug)]
pub struct Registry {
    address: SocketAddr,
    /// The path below which its interface is.
    root: &'static str,
    login: Option<Login>,
}

impl Registry {
    /// What clients are configured with.
    pub fn url(&self) -> String {
        format!("http://{}{}", self.address, self.root)
    }

    /// The same with user and password, for clients that take them from there.
    pub fn url_with_login(&self) -> String {
        match &self.login {
            Some(Login::Basic { user, password }) => {
                self.url().replacen("://", &format!("://{user}:{password}@"), 1)
            }
            _ => self.url(),
        }
    }

    /// The port that a proxy must forward to.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The same through a proxy.
    #[must_use]
    pub fn at(&self, port: u16) -> Registry {
        Registry { address: SocketAddr::new(self.address.ip(), port), ..self.clone() }
    }

    /// The same for somebody else.
    #[must_use]
    pub fn with_login(&self, login: Option<Login>) -> Registry {
        Registry { login, ..self.clone() }
    }

    /// Registers a schema as the newest version of a subject, or finds it there.
    #[track_caller]
    pub fn register(&self, subject: &str, kind: Kind, schema: &str) -> Registered {
        let body = json!({ "schemaType": kind.to_string(), "schema": schema }).to_string();
        let path = format!("/subjects/{subject}/versions");
        let (status, answer) = self.send("POST", &path, &body);
        assert_eq!(status, 200, "cannot register a schema of {subject}: {answer}");
        let number = answer["id"].as_u64().and_then(|id| u32::try_from(id).ok());
        Registered {
            id: number.unwrap_or_else(|| panic!("no id for a schema of {subject}: {answer}")),
            guid: answer["guid"].as_str().map(str::to_owned),
        }
    }

    /// Status and body of a GET.
    #[track_caller]
    pub fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, "")
    }

    /// Status and body of any request; the body is null if it is not JSON.
    #[track_caller]
    pub fn send(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let answer = self.try_send(method, path, body);
        answer.unwrap_or_else(|error| panic!("{method} {path} at {}: {error}", self.url()))
    }

    /// The same for a registry that might not answer.
    pub fn try_send(&self, method: &str, path: &str, body: &str) -> std::io::Result<(u16, Value)> {
        let path = format!("{}{path}", self.root);
        let login = self.login.as_ref().map(Login::header);
        let request = Request { method, path: &path, authorization: login.as_deref(), body };
        let (status, body) = http::send(self.address, request)?;
        Ok((status, serde_json::from_str(&body).unwrap_or_default()))
    }
}
