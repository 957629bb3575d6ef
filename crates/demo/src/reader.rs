//! The independent consumer. It reads all the time: the embedded broker keeps only the last few
//! megabytes of a partition.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rdkafka::Message;
use rdkafka::message::{BorrowedMessage, Headers};

use testkit::broker::Broker;
use testkit::consumer::Consumer;

/// The embedded broker answers an empty fetch only after this wait, even if records come meanwhile.
const FETCH_WAIT_MS: &str = "2";
/// How long a record of the topic may take; a later one counts as lost.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK_UP_EVERY: Duration = Duration::from_millis(50);

/// A record as the consumer received it.
pub(crate) struct Arrival {
    pub(crate) id: String,
    pub(crate) key: String,
    pub(crate) partition: i32,
    pub(crate) at: Instant,
}

pub(crate) struct Reader {
    consumer: Consumer,
    /// Different events read so far.
    pub(crate) distinct: AtomicUsize,
    /// How many records the topic has, once nobody writes to it any more.
    total: AtomicUsize,
}

impl Reader {
    pub(crate) fn new(broker: &Broker, topic: &str) -> Reader {
        let properties = [("fetch.wait.max.ms", FETCH_WAIT_MS)];
        Reader {
            consumer: Consumer::with_properties(broker, &[topic], &properties),
            distinct: AtomicUsize::new(0),
            total: AtomicUsize::new(usize::MAX),
        }
    }

    /// Sets where [`Self::read`] ends. Nobody must write to the topic any more.
    pub(crate) fn finish(&self, topic: &str) {
        let total: i64 = self.consumer.end_offsets(topic).iter().sum();
        self.total.store(usize::try_from(total).unwrap(), Relaxed);
    }

    /// Reads until [`Self::finish`], and then to the end of the topic.
    pub(crate) fn read(&self) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        let mut ids = HashSet::new();
        let mut last_read = Instant::now();
        loop {
            let total = self.total.load(Relaxed);
            let waited_in_vain = total != usize::MAX && last_read.elapsed() > PATIENCE;
            if arrivals.len() >= total || waited_in_vain {
                return arrivals;
            }
            self.consumer.for_each(LOOK_UP_EVERY, |message| {
                last_read = Instant::now();
                let arrival = arrival(message, last_read);
                if ids.insert(arrival.id.clone()) {
                    self.distinct.fetch_add(1, Relaxed);
                }
                arrivals.push(arrival);
                if arrivals.len() >= self.total.load(Relaxed) {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            });
        }
    }
}

fn arrival(message: &BorrowedMessage<'_>, at: Instant) -> Arrival {
    let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into();
    let mut headers = message.headers().into_iter().flat_map(|headers| headers.iter());
    let id = headers.find(|header| header.key == "id");
    Arrival {
        id: text(id.and_then(|header| header.value)),
        key: text(message.key()),
        partition: message.partition(),
        at,
    }
}
