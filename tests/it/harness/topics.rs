//! What an operator does to topics apart from creating them.

use std::sync::OnceLock;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, NewPartitions, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;

use testkit::broker::Broker;
use testkit::fixture::Fixture;
use testkit::kafka::acl::{Acl, Operation, create_acl};
use testkit::kafka::{KafkaOptions, KafkaServer};
use testkit::wait::wait_until;

const SOON: Duration = Duration::from_secs(30);

/// A broker with an authorizer, shared by all tests that add rules. Without a rule everything is
/// allowed.
pub fn kafka_with_rules() -> &'static KafkaServer {
    static SERVER: OnceLock<KafkaServer> = OnceLock::new();
    SERVER.get_or_init(|| {
        let class = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
        let options = KafkaOptions::default()
            .setting("authorizer.class.name", class)
            .setting("allow.everyone.if.no.acl.found", "true");
        KafkaServer::start(options)
    })
}

fn client(broker: &Broker) -> AdminClient<DefaultClientContext> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", broker.brokers());
    config.create().unwrap()
}

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(future)
}

/// Gives a topic more partitions, and waits for their leaders.
#[track_caller]
pub fn add_partitions(broker: &Broker, topic: &str, partitions: i32) {
    let count = usize::try_from(partitions).unwrap();
    let wanted = [&NewPartitions::new(topic, count)];
    let done = block_on(client(broker).create_partitions(wanted, &AdminOptions::new()));
    done.unwrap().pop().unwrap().unwrap();
    wait_until("the new partitions", SOON, || broker.partition_count(topic) == Some(partitions));
}

/// Changes one setting of a topic; all others fall back to their defaults.
#[track_caller]
pub fn alter_topic(broker: &Broker, topic: &str, name: &str, value: &str) {
    let wanted = [&AlterConfig::new(ResourceSpecifier::Topic(topic)).set(name, value)];
    let done = block_on(client(broker).alter_configs(wanted, &AdminOptions::new()));
    done.unwrap().pop().unwrap().unwrap();
    wait_until("the new setting", SOON, || {
        let asked = [&ResourceSpecifier::Topic(topic)];
        let answer = block_on(client(broker).describe_configs(asked, &AdminOptions::new()));
        let resource = answer.unwrap().pop().unwrap().unwrap();
        resource.get(name).and_then(|entry| entry.value.as_deref()) == Some(value)
    });
}

/// Allows everybody everything on a topic except reading its settings.
#[track_caller]
pub fn deny_describe_configs(broker: &Broker, topic: &str) {
    let all = Acl { topic, principal: "User:*", operation: Operation::All, allow: true };
    create_acl(broker, all);
    create_acl(broker, Acl { operation: Operation::DescribeConfigs, allow: false, ..all });
}

/// Checks that the relay was denied the limits of a topic. Otherwise a test with
/// [`deny_describe_configs`] would only cover known limits.
#[track_caller]
pub fn assert_was_denied(fixture: &mut Fixture) {
    let log = fixture.relay().log();
    let denied = log.contains("can't read this topic's limits");
    assert!(denied, "this does not test what it should:\n{log}");
}
