//! SASL: what Java's client has in one text, librdkafka has in properties.

use std::collections::BTreeMap;

use super::client::secret;
use crate::import::connector::Settings;
use crate::import::draft::Draft;
use crate::import::finding::Kind;
use crate::import::setting::Setting;

const CONFIG: &str = "sasl.jaas.config";
const MECHANISM: &str = "sasl.mechanism";
const TOKENS: &str = "sasl.oauthbearer.token.endpoint.url";

/// What librdkafka calls the options of a login module that are not secret. Two modules are common.
const TOKEN_OPTIONS: [(&str, &str); 6] = [
    ("clientId", "sasl.oauthbearer.client.id"),
    ("oauth.client.id", "sasl.oauthbearer.client.id"),
    ("scope", "sasl.oauthbearer.scope"),
    ("oauth.scope", "sasl.oauthbearer.scope"),
    ("oauth.token.endpoint.uri", TOKENS),
    ("oauth.token.endpoint.url", TOKENS),
];
const TOKEN_SECRETS: [&str; 2] = ["clientSecret", "oauth.client.secret"];

pub(super) fn write(properties: &mut Settings, draft: &mut Draft) {
    let mechanism = properties.remove(MECHANISM);
    let Some(config) = properties.remove(CONFIG) else {
        if let Some(mechanism) = mechanism {
            super::router::copy_text(MECHANISM, &mechanism, draft);
        }
        return;
    };
    let Some(mechanism) = mechanism else {
        // The default of Java's client.
        return unsupported("GSSAPI", &config, draft);
    };
    let name = mechanism.text().unwrap_or_default().trim().to_uppercase();
    match name.as_str() {
        "PLAIN" | "SCRAM-SHA-256" | "SCRAM-SHA-512" => {
            draft.copy(MECHANISM, name, &mechanism);
            user(&config, draft);
        }
        "OAUTHBEARER" => {
            draft.copy(MECHANISM, name, &mechanism);
            tokens(&config, properties, draft);
        }
        "" => {
            super::router::copy_text(MECHANISM, &mechanism, draft);
            user(&config, draft);
        }
        other => unsupported(other, &mechanism, draft),
    }
}

fn unsupported(mechanism: &str, setting: &Setting, draft: &mut Draft) {
    draft.fill_in(MECHANISM, "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER");
    let meaning = format!(
        "postrider has no SASL mechanism {mechanism}; choose one of those that the brokers have too"
    );
    draft.find(Kind::FillIn, &setting.place(), &meaning);
}

fn user(config: &Setting, draft: &mut Draft) {
    let user = config.text().and_then(|text| options(text).remove("username"));
    match user {
        Some(user) => draft.copy("sasl.username", user, config),
        None => {
            draft.fill_in("sasl.username", &format!("the user, which {} has", config.place()));
        }
    }
    secret("sasl.password", config, draft);
}

fn tokens(config: &Setting, properties: &mut Settings, draft: &mut Draft) {
    draft.set("sasl.oauthbearer.method", "oidc", "librdkafka's way to fetch tokens");
    let mut options = config.text().map(options).unwrap_or_default();
    let mut written: Vec<&str> = Vec::new();
    for (option, property) in TOKEN_OPTIONS {
        if let Some(value) = options.remove(option)
            && !written.contains(&property)
        {
            if value.contains("://") && value.contains('@') {
                secret(property, config, draft);
            } else {
                draft.copy(property, value, config);
            }
            written.push(property);
        }
    }
    if written.contains(&TOKENS) {
        properties.remove(TOKENS);
    } else if !properties.contains_key(TOKENS) {
        draft.fill_in(TOKENS, "where tokens are fetched");
    }
    if TOKEN_SECRETS.iter().any(|name| options.contains_key(*name)) {
        secret("sasl.oauthbearer.client.secret", config, draft);
    }
}

/// The options of a login module: `Class required name="value" name=value;`
/// (<https://docs.oracle.com/en/java/javase/21/docs/api/java.base/javax/security/auth/login/Configuration.html>).
fn options(text: &str) -> BTreeMap<String, String> {
    let mut options = BTreeMap::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('=') {
        let name = before.split_whitespace().next_back().unwrap_or_default().to_owned();
        let (value, after) = value(after.trim_start());
        options.insert(name, value);
        rest = after;
    }
    options
}

/// The value at the beginning, and what follows it.
fn value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(|c: char| c.is_whitespace() || c == ';').unwrap_or(text.len());
        let (value, after) = text.split_at_checked(end).unwrap_or((text, ""));
        return (value.to_owned(), after);
    };
    let mut value = String::new();
    let mut chars = quoted.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => value.extend(chars.next()),
            c => value.push(c),
        }
    }
    (value, chars.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_login_modules() {
        #[track_caller]
        fn check(text: &str, expect: &[(&str, &str)]) {
            let options = options(text);
            let pairs: Vec<_> = options.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            assert_eq!(pairs, expect, "{text}");
        }
        let class = "org.apache.kafka.common.security.scram.ScramLoginModule required";
        check(class, &[]);
        check(
            &format!("{class} username=\"shop\" password=\"a=b;\\\"c\";"),
            &[("password", "a=b;\"c"), ("username", "shop")],
        );
        check(
            &format!("{class}\n  username = shop\n  password=x;"),
            &[("password", "x"), ("username", "shop")],
        );
        check("x required username=\"open", &[("username", "open")]);
    }
}
