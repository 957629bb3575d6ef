//! librdkafka's broker inside this process: the real protocol, no JVM, everything in memory.
//!
//! It has no topic settings, and it keeps at most 5 MiB of each partition: a test that writes more
//! must read at the same time, or the beginning is lost.

use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;

use super::broker::Broker;

pub type Cluster = MockCluster<'static, DefaultProducerContext>;

enum Order {
    Run(Box<dyn FnOnce(&Cluster) + Send>),
    End,
}

/// The cluster must not cross threads, so it has a thread of its own, to which jobs are sent.
pub struct MockBroker {
    handle: MockHandle,
    thread: Option<JoinHandle<()>>,
}

impl MockBroker {
    pub fn start(broker_count: i32) -> MockBroker {
        let (jobs, inbox) = channel::<Order>();
        let (announce, announced) = channel();
        let thread = std::thread::spawn(move || {
            let cluster = Cluster::new(broker_count).expect("cannot start the embedded broker");
            announce.send(cluster.bootstrap_servers()).expect("nobody waits for the broker");
            while let Ok(Order::Run(job)) = inbox.recv() {
                job(&cluster);
            }
        });
        let brokers = announced.recv().expect("the embedded broker did not start");
        MockBroker { handle: MockHandle { brokers, broker_count, jobs }, thread: Some(thread) }
    }

    pub fn brokers(&self) -> String {
        self.handle.brokers.clone()
    }

    /// How to reach the broker, as a copy.
    pub fn broker(&self) -> Broker {
        Broker::Mock(self.handle.clone())
    }

    #[track_caller]
    pub fn create_topic(&self, name: &str, partitions: i32) {
        self.handle.create_topic(name, partitions);
    }

    /// Runs something on the cluster: broker errors, delays, brokers that go down.
    #[track_caller]
    pub fn with<T: Send + 'static>(&self, job: impl FnOnce(&Cluster) -> T + Send + 'static) -> T {
        self.handle.with(job)
    }
}

impl Drop for MockBroker {
    fn drop(&mut self) {
        // Copies of the handle may exist, so the drop of all senders can't be the signal to end.
        let _ = self.handle.jobs.send(Order::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[derive(Clone)]
pub struct MockHandle {
    brokers: String,
    broker_count: i32,
    jobs: Sender<Order>,
}

impl MockHandle {
    pub fn brokers(&self) -> &str {
        &self.brokers
    }

    #[track_caller]
    pub fn create_topic(&self, name: &str, partitions: i32) {
        let (topic, replicas) = (name.to_owned(), self.broker_count);
        let created = self.with(move |cluster| cluster.create_topic(&topic, partitions, replicas));
        created.unwrap_or_else(|error| panic!("cannot create topic {name}: {error}"));
    }

    #[track_caller]
    pub fn with<T: Send + 'static>(&self, job: impl FnOnce(&Cluster) -> T + Send + 'static) -> T {
        let (answer, answered) = channel();
        let job = move |cluster: &Cluster| {
            let _ = answer.send(job(cluster));
        };
        self.jobs.send(Order::Run(Box::new(job))).expect("the embedded broker has ended");
        answered.recv().expect("the embedded broker has ended")
    }
}
