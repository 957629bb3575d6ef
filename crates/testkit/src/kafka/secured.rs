//! A Kafka as companies run it: TLS, client certificates, users with passwords, tokens,
//! permissions.
//!
//! Its plain listener is for the test itself: its clients are super users.

use openssl::base64::encode_block;
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::sign::Signer;
use serde_json::{Value, json};

use super::acl::{Acl, Operation, create_acl};
use super::{KafkaOptions, KafkaServer, Listener};
use crate::broker::Broker;
use crate::certificates::{Authority, Issued, Wanted};
use crate::port::free_port;

/// The password of users that have one. It must not appear in any log.
pub const PASSWORD: &str = "right-m4rker-password";
pub const USERS: [&str; 3] = ["writer", "newcomer", "describer"];
/// The name in the client certificate.
pub const CERTIFIED: &str = "certified";

const SETTINGS: &[(&str, &str)] = &[
    ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
    ("super.users", "User:ANONYMOUS"),
    ("ssl.keystore.type", "PEM"),
    ("ssl.keystore.location", "{folder}/server.pem"),
    ("ssl.truststore.type", "PEM"),
    ("ssl.truststore.location", "{folder}/ca.pem"),
    ("listener.name.mtls.ssl.client.auth", "required"),
    ("listener.name.sasl.sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"),
    ("listener.name.sasl.scram-sha-256.sasl.jaas.config", SCRAM),
    ("listener.name.sasl.scram-sha-512.sasl.jaas.config", SCRAM),
    ("listener.name.oauth.sasl.enabled.mechanisms", "OAUTHBEARER"),
    (
        "listener.name.oauth.oauthbearer.sasl.jaas.config",
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
    ),
    (
        "listener.name.oauth.oauthbearer.sasl.server.callback.handler.class",
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
    ),
    ("sasl.oauthbearer.jwks.endpoint.url", "file:{folder}/jwks.json"),
    // The default one accepts any signature if the keys are set for one listener only.
    (
        "sasl.oauthbearer.jwt.validator.class",
        "org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator",
    ),
];
const SCRAM: &str = "org.apache.kafka.common.security.scram.ScramLoginModule required;";
const PLAIN: &str = "org.apache.kafka.common.security.plain.PlainLoginModule required";
/// The broker reads keys of tokens only from URLs that are allowed.
const MAY_READ_KEYS: &str =
    "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file:{folder}/jwks.json";

pub struct SecuredKafka {
    server: KafkaServer,
    tls: u16,
    mtls: u16,
    sasl: u16,
    oauth: u16,
    token_key: PKey<Private>,
}

impl SecuredKafka {
    pub fn start() -> SecuredKafka {
        let authority = Authority::new("kafka's own");
        let hosts = &["localhost"];
        let broker = authority.issue(Wanted { name: "kafka", hosts, days_left: 30 });
        let client = authority.issue(Wanted { name: CERTIFIED, hosts: &[], days_left: 30 });
        let token_key = Rsa::generate(2048).unwrap();
        let [tls, mtls, sasl, oauth] = std::array::from_fn(|_| free_port());
        let mut options = KafkaOptions {
            listeners: vec![
                Listener { name: "TLS", protocol: "SSL", port: tls },
                Listener { name: "MTLS", protocol: "SSL", port: mtls },
                Listener { name: "SASL", protocol: "SASL_SSL", port: sasl },
                Listener { name: "OAUTH", protocol: "SASL_SSL", port: oauth },
            ],
            files: vec![
                ("ca.pem", authority.pem()),
                ("other-ca.pem", Authority::new("somebody else's").pem()),
                ("server.pem", key_and_certificate(&broker)),
                ("client.crt", client.certificate),
                ("client.key", client.key),
                ("jwks.json", key_set(&token_key).to_string().into_bytes()),
            ],
            format_arguments: scram_users(),
            jvm_flags: vec![MAY_READ_KEYS.to_owned()],
            ..KafkaOptions::default()
        };
        for (name, value) in SETTINGS {
            options = options.setting(name, value);
        }
        let users = USERS.map(|user| format!(" user_{user}=\"{PASSWORD}\"")).concat();
        options = options
            .setting("listener.name.sasl.plain.sasl.jaas.config", &format!("{PLAIN}{users};"));
        let token_key = PKey::from_rsa(token_key).unwrap();
        SecuredKafka { server: KafkaServer::start(options), tls, mtls, sasl, oauth, token_key }
    }

    /// The plain listener, for tests.
    pub fn broker(&self) -> Broker {
        self.server.broker()
    }

    /// Listeners by host name, because certificates contain no addresses.
    pub fn tls(&self) -> String {
        format!("localhost:{}", self.tls)
    }

    pub fn mtls(&self) -> String {
        format!("localhost:{}", self.mtls)
    }

    pub fn sasl(&self) -> String {
        format!("localhost:{}", self.sasl)
    }

    pub fn oauth(&self) -> String {
        format!("localhost:{}", self.oauth)
    }

    /// The TLS listener under a name that its certificate does not have.
    pub fn tls_by_address(&self) -> String {
        format!("127.0.0.1:{}", self.tls)
    }

    /// The path of `ca.pem`, `other-ca.pem`, `client.crt` or `client.key`.
    pub fn file(&self, name: &str) -> String {
        self.server.folder().join(name).display().to_string()
    }

    #[track_caller]
    pub fn allow(&self, user: &str, operation: Operation, topic: &str) {
        let principal = &format!("User:{user}");
        create_acl(&self.broker(), Acl { topic, principal, operation, allow: true });
    }

    /// A token that the broker accepts.
    pub fn token(&self, user: &str) -> String {
        token(user, &self.token_key)
    }
}

/// A token that looks valid, but has another signer.
pub fn forged_token(user: &str) -> String {
    token(user, &PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap())
}

fn token(user: &str, key: &PKey<Private>) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let (issued, ends) = (now.as_secs(), now.as_secs() + 3600);
    let head = json!({"alg": "RS256", "typ": "JWT", "kid": "one"});
    let claims = json!({"sub": user, "iss": "tests", "scope": "write", "iat": issued, "exp": ends});
    let signed = format!("{}.{}", url_safe(head.to_string()), url_safe(claims.to_string()));
    let mut signer = Signer::new(MessageDigest::sha256(), key).unwrap();
    let signature = signer.sign_oneshot_to_vec(signed.as_bytes()).unwrap();
    format!("{signed}.{}", url_safe(signature))
}

fn key_and_certificate(issued: &Issued) -> Vec<u8> {
    [issued.key.as_slice(), issued.certificate.as_slice()].concat()
}

fn scram_users() -> Vec<String> {
    let mechanisms = ["SCRAM-SHA-256", "SCRAM-SHA-512"];
    let of = |user: &str| {
        mechanisms.map(|it| format!("--add-scram={it}=[name={user},password={PASSWORD}]"))
    };
    USERS.iter().flat_map(|user| of(user)).collect()
}

fn key_set(key: &Rsa<Private>) -> Value {
    let (n, e) = (url_safe(key.n().to_vec()), url_safe(key.e().to_vec()));
    json!({"keys": [{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "one", "n": n, "e": e}]})
}

/// Base64 in the form that tokens use.
fn url_safe(bytes: impl AsRef<[u8]>) -> String {
    encode_block(bytes.as_ref()).replace('+', "-").replace('/', "_").replace('=', "")
}
