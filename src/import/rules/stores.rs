//! TLS to the brokers: Java's stores of keys and certificates, and the files that librdkafka reads.

use super::client::secret;
use crate::import::connector::Settings;
use crate::import::draft::Draft;
use crate::import::finding::Kind;
use crate::import::setting::Setting;

const AUTHORITIES: &str = "ssl.ca.location";
const KEYS: &str = "ssl.keystore.location";

/// What a store is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Pem,
    Pkcs12,
    /// Only Java reads it.
    Jks,
}

/// Java's choices within TLS, for which librdkafka has other names and formats.
const OF_JAVA: [&str; 8] = [
    "ssl.protocol",
    "ssl.enabled.protocols",
    "ssl.cipher.suites",
    "ssl.provider",
    "ssl.engine.factory.class",
    "ssl.keymanager.algorithm",
    "ssl.trustmanager.algorithm",
    "ssl.secure.random.implementation",
];

pub(super) fn write(properties: &mut Settings, draft: &mut Draft) {
    authorities(properties, draft);
    keys(properties, draft);
    if let Some(setting) = properties.get("ssl.endpoint.identification.algorithm")
        && setting.is("")
    {
        draft.copy("ssl.endpoint.identification.algorithm", "none", setting);
        properties.remove("ssl.endpoint.identification.algorithm");
    }
    for name in OF_JAVA {
        if let Some(setting) = properties.remove(name) {
            let meaning = "it is for Java's TLS; OpenSSL's defaults apply here";
            draft.find(Kind::Operators, &setting.place(), meaning);
        }
    }
}

fn format(location: &Setting, store_type: Option<&Setting>) -> Format {
    let path = location.text().unwrap_or_default().to_lowercase();
    let ends = |endings: &[&str]| endings.iter().any(|ending| path.ends_with(ending));
    match store_type.and_then(Setting::text).map(|text| text.trim().to_uppercase()).as_deref() {
        Some("PEM") => Format::Pem,
        Some("PKCS12") => Format::Pkcs12,
        Some(_) => Format::Jks,
        None if ends(&[".pem", ".crt", ".cer"]) => Format::Pem,
        None if ends(&[".p12", ".pfx", ".pkcs12"]) => Format::Pkcs12,
        None => Format::Jks,
    }
}

/// The certificates that the brokers' are checked against.
fn authorities(properties: &mut Settings, draft: &mut Draft) {
    let store_type = properties.remove("ssl.truststore.type");
    // It protects what is public.
    properties.remove("ssl.truststore.password");
    if let Some(certificates) = properties.remove("ssl.truststore.certificates") {
        super::router::copy_text("ssl.ca.pem", &certificates, draft);
    }
    let Some(location) = properties.remove("ssl.truststore.location") else { return };
    if format(&location, store_type.as_ref()) == Format::Pem {
        return super::router::copy_text(AUTHORITIES, &location, draft);
    }
    let place = location.place();
    draft.fill_in(AUTHORITIES, &format!("a PEM file with the certificates of {place}"));
    let meaning = format!(
        "postrider reads PEM: write the store's certificates into a file (`keytool -list -rfc`), and \
         name it in {AUTHORITIES}"
    );
    draft.find(Kind::FillIn, &place, &meaning);
}

/// The client's own certificate and key.
fn keys(properties: &mut Settings, draft: &mut Draft) {
    let store_type = properties.remove("ssl.keystore.type");
    let store_password = properties.remove("ssl.keystore.password");
    let key_password = properties.remove("ssl.key.password");
    if let Some(chain) = properties.remove("ssl.keystore.certificate.chain") {
        super::router::copy_text("ssl.certificate.pem", &chain, draft);
    }
    if let Some(key) = properties.remove("ssl.keystore.key") {
        secret("ssl.key.pem", &key, draft);
    }
    let Some(location) = properties.remove(KEYS) else {
        if let Some(password) = key_password {
            secret("ssl.key.password", &password, draft);
        }
        return;
    };
    match format(&location, store_type.as_ref()) {
        Format::Pem => {
            // One file has both.
            super::router::copy_text("ssl.certificate.location", &location, draft);
            super::router::copy_text("ssl.key.location", &location, draft);
            if let Some(password) = key_password {
                secret("ssl.key.password", &password, draft);
            }
        }
        Format::Pkcs12 => {
            super::router::copy_text(KEYS, &location, draft);
            if let Some(password) = store_password {
                secret("ssl.keystore.password", &password, draft);
            }
        }
        Format::Jks => {
            let place = location.place();
            draft.fill_in(KEYS, &format!("a PKCS#12 file with the key and certificate of {place}"));
            let meaning = format!(
                "postrider reads PKCS#12 and PEM: convert the store (`keytool -importkeystore \
                 -deststoretype PKCS12`), and name the file in {KEYS}"
            );
            draft.find(Kind::FillIn, &place, &meaning);
            if let Some(password) = store_password {
                secret("ssl.keystore.password", &password, draft);
            }
        }
    }
}
