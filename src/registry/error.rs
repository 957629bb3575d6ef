//! Why a registry gave no answer that can be used, and what to do about it.

use std::io;
use std::time::Duration;

use crate::postgres::HandshakeError;

/// No usable answer. Never contains the registry's words, or credentials.
#[derive(Debug, thiserror::Error)]
pub(super) enum LookupError {
    #[error("can't connect: {0}")]
    Connect(#[source] io::Error),
    #[error("no connection within {} s", .0.as_secs())]
    ConnectTimeout(Duration),
    /// The certificate authorities can't be read.
    #[error("its certificate can't be verified: {0}")]
    Authorities(String),
    #[error("no TLS connection: {0}")]
    Tls(#[source] HandshakeError),
    #[error("no request can be made: {0}")]
    Request(#[source] hyper::http::Error),
    #[error("the connection broke: {0}")]
    Broken(#[source] hyper::Error),
    #[error("no answer within {} s", .0.as_secs())]
    AnswerTimeout(Duration),
    #[error("it answers with status {0}")]
    Status(u16),
    #[error("its answer is longer than {} KiB", .0 / 1024)]
    TooLong(usize),
    #[error("its answer is not that of a schema registry")]
    NotARegistry,
}

const ADDRESS: &str = "check that the registry runs, and that format.registry is its address";
const PATH: &str = "correct format.registry: the address of the registry, with the path that comes \
     before /subjects";
const AUTHORITIES: &str = "set format.registry_ca to a readable file with PEM certificates, or leave it out to trust the \
     system's authorities";
const TLS: &str = "set format.registry_ca to the authority that signed the registry's certificate, \
     and use a host name that is in the certificate; if the registry does not speak TLS, write \
     http:// in format.registry";
const CREDENTIALS: &str = "put the right user and password into format.registry, as in \
     https://user:password@host (preferably with POSTRIDER_FORMAT_REGISTRY_FILE)";
const PERMISSION: &str = "allow the user in format.registry to read the registry's subjects";
const REDIRECT: &str = "redirects are not followed: put the address that it redirects to into \
     format.registry";
const ITS_LOG: &str = "the registry's log shows why";

impl LookupError {
    /// Whether it would be the same for any subject.
    pub(super) fn concerns_all(&self) -> bool {
        match self {
            Self::Connect(_)
            | Self::ConnectTimeout(_)
            | Self::Authorities(_)
            | Self::Tls(_)
            | Self::Request(_)
            | Self::Broken(_) => true,
            Self::Status(status) => matches!(status, 401 | 502..=504),
            Self::AnswerTimeout(_) | Self::TooLong(_) | Self::NotARegistry => false,
        }
    }

    /// What an operator can do.
    pub(super) fn fix(&self) -> &'static str {
        match self {
            Self::Connect(_) | Self::ConnectTimeout(_) => ADDRESS,
            Self::Authorities(_) => AUTHORITIES,
            Self::Tls(_) => TLS,
            Self::Broken(_) | Self::AnswerTimeout(_) => ADDRESS,
            Self::Status(300..=399) => REDIRECT,
            Self::Status(401) => CREDENTIALS,
            Self::Status(403) => PERMISSION,
            Self::Status(404) | Self::Request(_) | Self::NotARegistry | Self::TooLong(_) => PATH,
            Self::Status(_) => ITS_LOG,
        }
    }
}
