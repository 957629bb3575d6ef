//! The two requests about topics, and what the brokers answer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier};
use rdkafka::error::KafkaError;
use rdkafka::metadata::Metadata;
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::time::sleep;

use crate::sink::kafka::log::ClientLog;

/// How long an answer may take, and how long to wait before asking again if nobody answers.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);
const ASK_AGAIN: Duration = Duration::from_millis(500);

pub(in crate::sink::kafka) type Admin = AdminClient<ClientLog>;

/// What is known of one topic's settings.
pub(super) type TopicSettings = Result<ConfigResource, KafkaError>;

/// What the brokers answer about a topic.
pub(super) enum Answer {
    /// No broker has answered.
    NoBroker,
    /// It has this many partitions, and these settings.
    Exists(usize, TopicSettings),
    Missing,
    /// We are not allowed to know.
    Denied,
}

/// Whether a topic exists, according to one broker.
pub(super) enum Existence {
    NoBroker,
    Exists { partitions: usize, answered_by: Option<i32> },
    Missing,
    Denied,
}

/// An existing topic whose settings are to be requested.
pub(super) struct FoundTopic {
    pub(super) topic: String,
    pub(super) partitions: usize,
    pub(super) answered_by: Option<i32>,
}

/// If the brokers create topics automatically, this question does it.
pub(super) async fn look_for(admin: Arc<Admin>, topic: String) -> (String, Existence) {
    let name = topic.clone();
    let metadata =
        tokio::task::spawn_blocking(move || admin.inner().fetch_metadata(Some(&name), ASK_TIMEOUT));
    let existence = match metadata.await {
        Ok(Ok(metadata)) => existence(&metadata, &topic),
        Ok(Err(_)) | Err(_) => {
            sleep(ASK_AGAIN).await;
            Existence::NoBroker
        }
    };
    (topic, existence)
}

fn existence(metadata: &Metadata, topic: &str) -> Existence {
    let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else {
        return Existence::Missing;
    };
    match (found.error().map(Code::from), found.partitions().len()) {
        (Some(Code::TopicAuthorizationFailed), _) => Existence::Denied,
        (_, 0) => Existence::Missing,
        (_, partitions) => {
            // Any broker knows a topic's settings; the one that has just answered is reachable. By
            // default librdkafka waits for the controller, forever if the metadata names one that
            // is not in the cluster.
            let answering = Some(metadata.orig_broker_id()).filter(|id| *id >= 0);
            let first = || metadata.brokers().first().map(|broker| broker.id());
            Existence::Exists { partitions, answered_by: answering.or_else(first) }
        }
    }
}

pub(super) async fn describe(admin: Arc<Admin>, found: Vec<FoundTopic>) -> Vec<(String, Answer)> {
    let answered_by = found.first().and_then(|it| it.answered_by);
    let options = AdminOptions::new().request_timeout(Some(ASK_TIMEOUT)).broker_id(answered_by);
    let topics: Vec<_> = found.iter().map(|it| ResourceSpecifier::Topic(&it.topic)).collect();
    let answer = admin.describe_configs(&topics, &options).await;
    let (mut settings, error) = match answer {
        Ok(answers) => (by_topic(answers), None),
        Err(error) => (HashMap::new(), Some(error)),
    };
    let answer = |FoundTopic { topic, partitions, .. }: FoundTopic| {
        let described = settings.remove(&topic).ok_or_else(|| {
            // rdkafka does not pass on the error of a single resource; a resource without settings
            // had an error.
            error.clone().unwrap_or(KafkaError::AdminOp(Code::TopicAuthorizationFailed))
        });
        (topic, Answer::Exists(partitions, described))
    };
    found.into_iter().map(answer).collect()
}

fn by_topic(answers: Vec<rdkafka::admin::ConfigResourceResult>) -> HashMap<String, ConfigResource> {
    let answers = answers.into_iter().flatten().filter(|it| !it.entries.is_empty());
    let named = answers.filter_map(|it| match &it.specifier {
        rdkafka::admin::OwnedResourceSpecifier::Topic(name) => Some((name.clone(), it)),
        _ => None,
    });
    named.collect()
}
