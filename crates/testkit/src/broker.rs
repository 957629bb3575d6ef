//! How to reach a broker, real or embedded: a value that can be copied.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::metadata::MetadataTopic;
use rdkafka::producer::{BaseProducer, Producer};

use super::mock::MockHandle;
use super::wait::wait_until;

const ANSWER_WITHIN: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub enum Broker {
    /// An Apache Kafka, our own or the one of TEST_BROKERS.
    Kafka {
        brokers: String,
    },
    Mock(MockHandle),
}

impl Broker {
    pub fn at(brokers: &str) -> Broker {
        Broker::Kafka { brokers: brokers.to_owned() }
    }

    pub fn brokers(&self) -> &str {
        match self {
            Broker::Kafka { brokers } => brokers,
            Broker::Mock(handle) => handle.brokers(),
        }
    }

    pub fn is_mock(&self) -> bool {
        matches!(self, Broker::Mock(_))
    }

    /// Creates a topic and returns when every partition has a leader.
    #[track_caller]
    pub fn create_topic(&self, name: &str, partitions: i32, settings: &[(&str, &str)]) {
        match self {
            Broker::Kafka { .. } => self.create_on_kafka(name, partitions, settings),
            Broker::Mock(handle) => {
                assert!(
                    settings.is_empty(),
                    "the embedded broker has no topic settings ({name}): \
                     such a test belongs in a module named real_kafka",
                );
                handle.create_topic(name, partitions);
            }
        }
        wait_until(&format!("leaders of topic {name}"), ANSWER_WITHIN, || {
            self.partition_count(name) == Some(partitions)
        });
    }

    /// Creates a topic with one partition, on the broker with this number.
    #[track_caller]
    pub fn create_topic_at(&self, number: i32, name: &str, settings: &[(&str, &str)]) {
        let replicas: &[i32] = &[number];
        self.create_with(NewTopic::new(name, 1, TopicReplication::Variable(&[replicas])), settings);
        wait_until(&format!("the leader of topic {name}"), ANSWER_WITHIN, || {
            self.partition_count(name) == Some(1)
        });
    }

    #[track_caller]
    fn create_on_kafka(&self, name: &str, partitions: i32, settings: &[(&str, &str)]) {
        self.create_with(NewTopic::new(name, partitions, TopicReplication::Fixed(1)), settings);
    }

    #[track_caller]
    fn create_with<'a>(&self, mut topic: NewTopic<'a>, settings: &[(&'a str, &'a str)]) {
        let name = topic.name;
        for &(key, value) in settings {
            topic = topic.set(key, value);
        }
        let options = admin_options(ANSWER_WITHIN);
        let created = block_on(self.admin().create_topics([&topic], &options));
        let outcome = created.unwrap_or_else(|error| panic!("cannot create {name}: {error}"));
        if let Some(Err((_, code))) = outcome.first() {
            panic!("cannot create topic {name}: {code}");
        }
    }

    /// Best effort, for the broker of TEST_BROKERS, which keeps running. Others may be down.
    pub fn delete_topics(&self, names: &[&str]) {
        if !self.is_mock() && !names.is_empty() {
            let options = admin_options(Duration::from_secs(3));
            let _ = block_on(self.admin().delete_topics(names, &options));
        }
    }

    /// How many partitions with a leader the topic has; `None` if it does not exist.
    pub fn partition_count(&self, topic: &str) -> Option<i32> {
        let client = self.client();
        let metadata = client.client().fetch_metadata(Some(topic), Duration::from_secs(5)).ok()?;
        let found = metadata.topics().iter().find(|it| it.name() == topic)?;
        count_led(found)
    }

    /// The names of all topics.
    #[track_caller]
    pub fn topics(&self) -> Vec<String> {
        let metadata = self.client().client().fetch_metadata(None, Duration::from_secs(5));
        let metadata = metadata.expect("the broker does not list its topics");
        metadata.topics().iter().map(|topic| topic.name().to_owned()).collect()
    }

    /// Whether a metadata request is answered.
    pub fn answers(&self) -> bool {
        let metadata = self.client().client().fetch_metadata(None, Duration::from_secs(1));
        metadata.is_ok_and(|metadata| !metadata.brokers().is_empty())
    }

    fn client(&self) -> BaseProducer {
        self.config().create().expect("cannot create a Kafka client")
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.config().create().expect("cannot create a Kafka admin client")
    }

    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.brokers());
        // Servers that are just starting should be found quickly.
        config.set("reconnect.backoff.ms", "20").set("reconnect.backoff.max.ms", "200");
        // A query whether a topic exists must not create it.
        config.set("allow.auto.create.topics", "false");
        config
    }
}

fn count_led(topic: &MetadataTopic) -> Option<i32> {
    let led = topic.partitions().iter().filter(|it| it.leader() >= 0).count();
    (topic.error().is_none() && led > 0).then(|| i32::try_from(led).unwrap())
}

fn admin_options(timeout: Duration) -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(timeout)).request_timeout(Some(timeout))
}

// The admin client answers with futures even where no runtime is wanted.
fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("cannot create a runtime").block_on(future)
}
