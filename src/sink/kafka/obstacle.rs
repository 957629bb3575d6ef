//! What keeps records from the brokers, and what to do about it. No I/O.
//!
//! librdkafka's codes are too coarse (a certificate that can't be verified is sometimes a "broker
//! transport failure"), so its messages are examined. Its version is pinned, and a test on a real
//! broker provokes each message.

use rdkafka::types::RDKafkaErrorCode as Code;

/// A problem between us and the brokers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClientError {
    pub(super) reason: String,
    /// What to do, if waiting alone can't help.
    pub(super) fix: Option<&'static str>,
    /// Whether nothing at all can be published before it is fixed. A closed connection, for
    /// example, can be due to the configuration or to a broker that restarts.
    pub(super) certain: bool,
    /// Whether it only sums up earlier errors.
    is_consequence: bool,
}

const CREDENTIALS: &str = "set the right kafka.properties.sasl.username and sasl.password for the \
     mechanism in sasl.mechanism (the password preferably with \
     POSTRIDER_KAFKA_PROPERTIES_SASL_PASSWORD_FILE)";
const MECHANISM: &str =
    "set kafka.properties.sasl.mechanism to one that the brokers' listener has enabled";
const TOKEN: &str = "check kafka.properties.sasl.oauthbearer.token.endpoint.url, client.id, \
     client.secret and scope; set https.ca.location to the CA of an https endpoint";
const TOKEN_REFUSED: &str = "the brokers reject the token: check the audience, scope and issuer \
     they expect against kafka.properties.sasl.oauthbearer.scope and the client at the token \
     endpoint";
const VERIFY: &str = "set kafka.properties.ssl.ca.location to the CA that signed the brokers' \
     certificates, and use host names (kafka.brokers, the brokers' advertised.listeners) that are \
     in the certificates";
const CLIENT_CERTIFICATE: &str = "the brokers require a client certificate that they trust: set \
     kafka.properties.ssl.certificate.location and ssl.key.location";
const NO_TLS_THERE: &str = "if this persists, the listener probably does not speak TLS: use the \
     TLS port in kafka.brokers, or set kafka.properties.security.protocol to plaintext or \
     sasl_plaintext";
const PROTOCOL: &str = "if this persists, set kafka.properties.security.protocol to what this \
     listener speaks (ssl, sasl_ssl, sasl_plaintext or plaintext), or use another port in \
     kafka.brokers";
const PRODUCER_ID: &str = "allow postrider's principal to WRITE to its topics; brokers older than \
     3.0 also require IDEMPOTENT_WRITE on the cluster";

/// If the broker closes a connection that is younger than this, it expected another protocol.
const EARLY_MS: u64 = 2000;

/// Whether the broker closed a connection before anything was exchanged, as a listener does that
/// expects another protocol. librdkafka's message ends with `(after 4ms in state UP)`.
pub(super) fn is_closed_early(reason: &str) -> bool {
    let Some((_, rest)) = reason.split_once("(after ") else { return false };
    let Some((age_ms, state)) = rest.split_once("ms in state ") else { return false };
    let is_early = age_ms.parse::<u64>().is_ok_and(|age_ms| age_ms < EARLY_MS);
    let has_begun = state.starts_with("APIVERSION_QUERY") || state.starts_with("UP");
    reason.contains("Disconnected") && is_early && has_begun
}

impl ClientError {
    pub(super) fn new(code: Code, reason: &str) -> Self {
        let says = |part: &str| reason.contains(part);
        let certain = |fix| (Some(fix), true);
        let likely = |fix| (Some(fix), false);
        let (fix, certain) = if code == Code::ClusterAuthorizationFailed {
            certain(PRODUCER_ID)
        } else if says("OAUTHBEARER token") {
            certain(TOKEN)
        } else if code == Code::Authentication || says("SASL authentication error") {
            certain(match () {
                () if says("nsupported SASL mechanism") || says("not enabled") => MECHANISM,
                () if says("OAUTHBEARER") || says("invalid_token") => TOKEN_REFUSED,
                () => CREDENTIALS,
            })
        } else if says("certificate verify failed") {
            certain(VERIFY)
        } else if says("alert") && (says("certificate") || says("unknown ca")) {
            certain(CLIENT_CERTIFICATE)
        } else if says("Disconnected") && says("in state SSL_HANDSHAKE")
            || says("wrong version number")
        {
            likely(NO_TLS_THERE)
        } else if is_closed_early(reason) {
            likely(PROTOCOL)
        } else {
            (None, false)
        };
        let is_consequence = code == Code::AllBrokersDown;
        ClientError { reason: reason.to_owned(), fix, certain, is_consequence }
    }

    /// librdkafka reports one problem in several ways, the vaguer ones later.
    pub(super) fn is_clearer_than(&self, other: &ClientError) -> bool {
        let weight = |error: &ClientError| (error.certain, error.fix.is_some());
        weight(self) > weight(other) || other.is_consequence
    }

    /// The problem and its fix, in one line.
    pub(super) fn text(&self) -> String {
        match self.fix {
            Some(fix) => format!("{}; fix: {fix}", self.reason),
            None => self.reason.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clearer_complaint_stays() {
        let refused = ClientError::new(Code::BrokerTransportFailure, "Connection refused");
        let down = ClientError::new(Code::AllBrokersDown, "1/1 brokers are down");
        let denied = ClientError::new(Code::Authentication, "SASL authentication error");
        let closed = "Disconnected (after 0ms in state UP)";
        let closed = ClientError::new(Code::BrokerTransportFailure, closed);
        assert!(refused.is_clearer_than(&down) && !down.is_clearer_than(&refused));
        assert!(denied.is_clearer_than(&closed) && closed.is_clearer_than(&refused));
        assert!(!refused.is_clearer_than(&refused) && !refused.is_clearer_than(&denied));
    }

    #[test]
    fn what_can_be_mended_has_its_fix() {
        #[track_caller]
        fn check(code: Code, reason: &str, fix: Option<&str>, certain: bool) {
            let error = ClientError::new(code, reason);
            assert_eq!((error.fix, error.certain), (fix, certain), "{reason}");
            assert!(error.text().starts_with(reason));
        }
        let link = Code::BrokerTransportFailure;
        check(link, "Connect to ipv4#127.0.0.1:1 failed: Connection refused", None, false);
        check(Code::AllBrokersDown, "1/1 brokers are down", None, false);
        let reason =
            "SASL authentication error: Authentication failed: Invalid username or password";
        check(Code::Authentication, reason, Some(CREDENTIALS), true);
        let reason = "SASL handshake failed: Unsupported SASL mechanism: broker's supported …";
        check(Code::Authentication, reason, Some(MECHANISM), true);
        let reason = "Failed to acquire SASL OAUTHBEARER token: 401";
        check(Code::Authentication, reason, Some(TOKEN), true);
        let reason = "SSL routines::certificate verify failed (after 12ms)";
        check(link, reason, Some(VERIFY), true);
        let reason =
            "Receive failed: SSL routines::sslv3 alert bad certificate: SSL alert number 42";
        check(link, reason, Some(CLIENT_CERTIFICATE), true);
        let reason =
            "Disconnected: SSL connection closed by peer (after 2ms in state SSL_HANDSHAKE)";
        check(link, reason, Some(NO_TLS_THERE), false);
        let reason = "SSL handshake failed: Disconnected: SSL connection closed by peer: connecting to a \
             PLAINTEXT broker listener? (after 1ms in state SSL_HANDSHAKE)";
        check(link, reason, Some(NO_TLS_THERE), false);
        let reason =
            "Disconnected: connection closed by peer (after 0ms in state APIVERSION_QUERY)";
        check(link, reason, Some(PROTOCOL), false);
        let reason =
            "Disconnected: SSL connection closed by peer (after 4ms in state UP, 1 identical";
        check(link, reason, Some(PROTOCOL), false);
        let reason = "Disconnected: connection closed by peer (after 600000ms in state UP)";
        check(link, reason, None, false);
        let reason = "Failed to acquire idempotence PID";
        check(Code::ClusterAuthorizationFailed, reason, Some(PRODUCER_ID), true);
    }
}
