//! The connection to the brokers: whether the properties for TLS and SASL fit together, and which
//! of them reduce security.

use std::collections::BTreeMap;

use super::KAFKA_PROPERTIES;
use crate::config::problem::{Origin, Problem};
use crate::config::raw::Typed;
use crate::config::secrets;

const PROTOCOL: &str = "security.protocol";
const PROTOCOLS: [&str; 4] = ["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"];
/// `sasl.mechanism` is librdkafka's other name for it.
const MECHANISMS: [&str; 2] = ["sasl.mechanisms", "sasl.mechanism"];

/// Credentials that would not be used are a mistake: events would be sent unencrypted, or the
/// brokers would close connections without giving a reason.
pub(super) fn check(typed: &BTreeMap<String, Typed>, problems: &mut Vec<Problem>) {
    let mut report = |origin: &Origin, message: String| {
        let path = KAFKA_PROPERTIES.path();
        problems.push(Problem::at(origin, format!("{path}.{message}")));
    };
    let given = |name: &str| typed.get(name).map(|typed| typed.text.trim().to_lowercase());
    let first = |prefixes: &[&str]| {
        typed.iter().find(|(name, _)| prefixes.iter().any(|prefix| name.starts_with(prefix)))
    };
    let protocol = given(PROTOCOL).unwrap_or_else(|| "plaintext".to_owned());
    // librdkafka rejects any other value.
    if !PROTOCOLS.contains(&protocol.as_str()) {
        return;
    }
    let (sasl, tls) = (protocol.starts_with("sasl"), protocol.ends_with("ssl"));
    if let Some((name, Typed { origin, .. })) = first(&["sasl."])
        && !sasl
    {
        let message = format!(
            "{name} has no effect with {PROTOCOL}={protocol}; set {PROTOCOL} to sasl_ssl (or \
             sasl_plaintext)"
        );
        return report(origin, message);
    }
    if let Some((name, Typed { origin, .. })) = first(&["ssl.", "enable.ssl."])
        && !tls
    {
        let message = format!(
            "{name} has no effect with {PROTOCOL}={protocol}; set {PROTOCOL} to ssl, or sasl_ssl with \
             a user and password"
        );
        report(origin, message);
    }
    if let Some(Typed { origin, .. }) = typed.get(PROTOCOL)
        && sasl
    {
        let mechanism = MECHANISMS.iter().find_map(|name| given(name)).unwrap_or_default();
        let has = |name: &str| typed.contains_key(name);
        if let Some(missing) = missing(&mechanism, &given, &has) {
            report(origin, format!("{PROTOCOL}={protocol}: {missing}"));
        }
    }
}

/// Missing files are reported together with wrong values. librdkafka checks what they contain.
pub(in crate::config) fn check_files(typed: &BTreeMap<String, Typed>, problems: &mut Vec<Problem>) {
    // librdkafka's name for the system's certificate authorities.
    const PROBE: &str = "probe";
    let is_place = |name: &str| {
        (name.starts_with("ssl.") || name.starts_with("https.")) && name.ends_with(".location")
    };
    for (name, Typed { text, origin }) in typed.iter().filter(|(name, _)| is_place(name)) {
        if text == PROBE || text.is_empty() {
            continue;
        }
        // A directory can be opened too: certificate authorities may be in one.
        let Err(error) = std::fs::File::open(text) else { continue };
        // The value may be the certificate or the key itself.
        let shown = if text.contains("-----") { "the named file" } else { secrets::path(text) };
        let message = format!(
            "{}.{name}: can't read {shown}: {error}; name a readable file",
            KAFKA_PROPERTIES.path()
        );
        problems.push(Problem::at(origin, message));
    }
}

/// What SASL needs in addition to the protocol, if it is missing.
fn missing(
    mechanism: &str,
    given: &impl Fn(&str) -> Option<String>,
    has: &impl Fn(&str) -> bool,
) -> Option<String> {
    match mechanism {
        "plain" | "scram-sha-256" | "scram-sha-512" => {
            let absent = ["sasl.username", "sasl.password"].into_iter().find(|name| !has(name))?;
            Some(format!("{absent} is not set"))
        }
        "oauthbearer" => {
            let unsecured =
                given("enable.sasl.oauthbearer.unsecure.jwt").is_some_and(|it| it == "true");
            let oidc = given("sasl.oauthbearer.method").is_some_and(|it| it == "oidc");
            (!oidc && !unsecured)
                .then(|| "set sasl.oauthbearer.method to oidc, which fetches the tokens".to_owned())
        }
        "" => Some(
            "sasl.mechanism is not set; choose PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"
                .to_owned(),
        ),
        _ => Some(
            "this build has no such sasl.mechanism; choose PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or \
             OAUTHBEARER"
                .to_owned(),
        ),
    }
}

/// Warnings about settings that are allowed but reduce security.
pub(in crate::config) fn cautions(properties: &BTreeMap<String, String>) -> Vec<&'static str> {
    let is = |name: &str, value: &str| {
        properties.get(name).is_some_and(|given| given.trim().eq_ignore_ascii_case(value))
    };
    let mut cautions = Vec::new();
    if is("enable.ssl.certificate.verification", "false") {
        cautions.push(
            "kafka.properties.enable.ssl.certificate.verification=false: anybody in between can \
             impersonate the brokers; name their CA in ssl.ca.location instead",
        );
    }
    if is("ssl.endpoint.identification.algorithm", "none") {
        cautions.push(
            "kafka.properties.ssl.endpoint.identification.algorithm=none: any holder of a \
             certificate of the same CA can impersonate the brokers; use names from their \
             certificates instead",
        );
    }
    let clear = MECHANISMS.iter().any(|name| is(name, "PLAIN") || is(name, "OAUTHBEARER"));
    if is(PROTOCOL, "sasl_plaintext") && clear {
        cautions.push(
            "kafka.properties.security.protocol=sasl_plaintext: the password or token crosses the \
             network unencrypted; use sasl_ssl instead",
        );
    }
    if is("enable.sasl.oauthbearer.unsecure.jwt", "true") {
        cautions.push(
            "kafka.properties.enable.sasl.oauthbearer.unsecure.jwt=true: tokens are not signed, \
             which is only for tests; use sasl.oauthbearer.method=oidc instead",
        );
    }
    cautions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(properties: &[(&str, &str)]) -> BTreeMap<String, Typed> {
        let typed = |text: &str| Typed { text: text.to_owned(), origin: Origin::Default };
        properties.iter().map(|(name, text)| ((*name).to_owned(), typed(text))).collect()
    }

    #[track_caller]
    fn check(properties: &[(&str, &str)], expect: Option<&str>) {
        let mut problems = Vec::new();
        super::check(&typed(properties), &mut problems);
        let messages: Vec<_> = problems.iter().map(|problem| problem.message.as_str()).collect();
        match (messages.as_slice(), expect) {
            ([], None) => {}
            ([message], Some(part)) => assert!(message.contains(part), "{message}"),
            (messages, expect) => panic!("{messages:?}, not {expect:?}"),
        }
    }

    const USER: (&str, &str) = ("sasl.username", "postrider");
    const PASSWORD: (&str, &str) = ("sasl.password", "hunter2");
    const SASL_SSL: (&str, &str) = (PROTOCOL, "SASL_SSL");
    const SCRAM: (&str, &str) = ("sasl.mechanism", "SCRAM-SHA-512");
    const OAUTH: (&str, &str) = ("sasl.mechanisms", "OAUTHBEARER");

    #[test]
    fn credentials_that_would_not_be_used_are_refused() {
        check(&[], None);
        check(&[USER, PASSWORD], Some("no effect with security.protocol=plaintext"));
        check(
            &[(PROTOCOL, "ssl"), USER, PASSWORD, SCRAM],
            Some("set security.protocol to sasl_ssl"),
        );
        check(&[("ssl.ca.location", "/ca.pem")], Some("set security.protocol to ssl"));
        let ca = ("ssl.ca.location", "/ca.pem");
        check(&[(PROTOCOL, "sasl_plaintext"), SCRAM, USER, PASSWORD, ca], Some("ssl.ca.location"));
        check(&[(PROTOCOL, "ssl"), ("ssl.ca.location", "/ca.pem")], None);
        check(&[("https.ca.location", "/ca.pem")], None);
    }

    #[test]
    fn files_must_be_there() {
        #[track_caller]
        fn check(name: &str, text: &str, expect: Option<&str>) {
            let mut problems = Vec::new();
            check_files(&typed(&[(name, text)]), &mut problems);
            let message = problems.first().map(|problem| problem.message.as_str());
            match (message, expect) {
                (Some(message), Some(part)) => assert!(message.contains(part), "{message}"),
                (message, expect) => assert_eq!(message, expect, "{name}={text}"),
            }
        }
        for name in [
            "ssl.ca.location",
            "ssl.certificate.location",
            "ssl.key.location",
            "ssl.keystore.location",
            "ssl.crl.location",
            "https.ca.location",
        ] {
            let expect = format!("kafka.properties.{name}: can't read /no/such: ");
            check(name, "/no/such", Some(&expect));
            check(name, concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"), None);
        }
        check("ssl.ca.location", "probe", None);
        check("ssl.ca.location", "/", None);
        check("ssl.key.location", "-----BEGIN PRIVATE KEY-----", Some("can't read the named file"));
        check("ssl.key.password", "/no/such", None);
    }

    #[test]
    fn what_sasl_needs_is_asked_for() {
        check(&[SASL_SSL, SCRAM, USER, PASSWORD], None);
        check(&[SASL_SSL, SCRAM, USER], Some("sasl.password is not set"));
        check(&[SASL_SSL, USER, PASSWORD], Some("sasl.mechanism is not set; choose PLAIN"));
        check(&[SASL_SSL, ("sasl.mechanism", "GSSAPI")], Some("no such sasl.mechanism"));
        check(&[SASL_SSL, OAUTH], Some("sasl.oauthbearer.method to oidc"));
        check(&[SASL_SSL, OAUTH, ("sasl.oauthbearer.method", "oidc")], None);
        check(&[SASL_SSL, OAUTH, ("enable.sasl.oauthbearer.unsecure.jwt", "true")], None);
    }

    #[test]
    fn giving_up_safety_is_allowed_and_said() {
        #[track_caller]
        fn check(properties: &[(&str, &str)], expect: &[&str]) {
            let owned = properties.iter().map(|(name, text)| ((*name).into(), (*text).into()));
            let cautions = cautions(&owned.collect());
            assert_eq!(cautions.len(), expect.len(), "{cautions:?}");
            for (caution, part) in cautions.iter().zip(expect) {
                assert!(caution.contains(part), "{caution}");
            }
        }
        check(&[SASL_SSL, SCRAM, USER, PASSWORD], &[]);
        check(&[("enable.ssl.certificate.verification", "false")], &["ssl.ca.location"]);
        check(&[("ssl.endpoint.identification.algorithm", "none")], &["any holder"]);
        check(&[("enable.sasl.oauthbearer.unsecure.jwt", "true")], &["not signed"]);
        check(&[(PROTOCOL, "sasl_plaintext"), ("sasl.mechanism", "PLAIN")], &["unencrypted"]);
        check(&[(PROTOCOL, "sasl_plaintext"), SCRAM], &[]);
    }
}
