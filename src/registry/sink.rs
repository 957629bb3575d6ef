//! The sink in front of the sink.

use std::time::{Duration, Instant};

use super::client::Client;
use super::subjects::{Asking, Found, Subjects};
use crate::config::Config;
use crate::sink::{
    Broken, Destination, Lsn, NotTaken, Obstacle, ReadyTopics, Reason, Record, Refusal, Report,
    Sink, SinkFactory, SinkOptions, Ticket,
};

/// Makes sinks that add the schemas that records need.
#[derive(Clone)]
pub(crate) struct SchemaSinks<F> {
    factory: F,
    client: Option<(String, Client)>,
}

impl<F> SchemaSinks<F> {
    pub(crate) fn new(factory: F, config: &Config) -> Self {
        let client = config.registry.as_ref().map(|it| (it.shown(), Client::new(it)));
        SchemaSinks { factory, client }
    }
}

impl<F: SinkFactory> SinkFactory for SchemaSinks<F> {
    type Sink = SchemaSink<F::Sink>;

    fn make(&self, options: SinkOptions) -> Result<Self::Sink, Broken> {
        let subjects = self.client.clone().map(|(registry, client)| {
            let ask = move |subject: String| {
                let client = client.clone();
                Box::pin(async move {
                    let answer = client.latest(&subject).await;
                    (subject, answer)
                }) as Asking
            };
            Subjects::new(registry, Box::new(ask))
        });
        Ok(SchemaSink { inner: self.factory.make(options)?, subjects })
    }
}

/// Adds the schema that a record needs, then passes it on. Lives as long as the sink behind it.
pub(crate) struct SchemaSink<S> {
    inner: S,
    /// None: there is no registry.
    subjects: Option<Subjects>,
}

impl<S> SchemaSink<S> {
    fn abandon_waiting(&mut self) {
        if let Some(subjects) = &mut self.subjects {
            subjects.abandon();
        }
    }
}

impl<S: Sink> Sink for SchemaSink<S> {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    async fn restart(&mut self) -> Result<(), Broken> {
        self.abandon_waiting();
        self.inner.restart().await
    }

    async fn stop(&mut self) {
        self.abandon_waiting();
        self.inner.stop().await;
    }

    async fn check_destination(&mut self, limit: Duration) -> Result<(), Broken> {
        self.abandon_waiting();
        self.inner.check_destination(limit).await
    }

    fn destination(&mut self, topic: &str) -> Option<&Destination> {
        self.inner.destination(topic)
    }

    fn ready_topics(&mut self) -> ReadyTopics {
        let mut ready = self.inner.ready_topics();
        if let Some(subjects) = &mut self.subjects {
            match subjects.ready_topics().topics() {
                None => return ReadyTopics::all(),
                Some(topics) => topics.iter().for_each(|topic| ready.push(topic)),
            }
        }
        ready
    }

    fn partitions_in_use(&self) -> usize {
        self.inner.partitions_in_use()
    }

    fn hurry(&mut self) {
        self.inner.hurry();
    }

    fn enqueue(&mut self, record: &Record<'_>, ticket: Ticket) -> Result<(), NotTaken> {
        let Some(need) = &record.schema else { return self.inner.enqueue(record, ticket) };
        let lacks = |detail: &str| {
            let detail = detail.to_owned();
            Err(NotTaken::Retry(Refusal { reason: Reason::SchemaMissing, detail }))
        };
        // It was parked when there was one.
        let Some(subjects) = &mut self.subjects else {
            return lacks("the event needs a schema of a registry, and format.registry is not set");
        };
        match subjects.find(need, record.topic) {
            Found::Schema(schema) => match record.with_schema(&schema) {
                Some(record) => self.inner.enqueue(&record, ticket),
                None => lacks("the schema registry reports no GUID for the event's subject"),
            },
            Found::Refused(refusal) => Err(NotTaken::Retry(refusal)),
            Found::Asked => Err(NotTaken::TopicBusy),
            Found::Unreachable => Err(NotTaken::Unreachable),
        }
    }

    fn boundary(&mut self, commit_end: Lsn) {
        self.inner.boundary(commit_end);
    }

    async fn receive(&mut self, reports: &mut Vec<Report>) {
        match &mut self.subjects {
            Some(subjects) if !subjects.is_idle() => tokio::select! {
                biased;
                // First, because it is rarely ready.
                () = subjects.next_event() => {}
                () = self.inner.receive(reports) => {}
            },
            _ => self.inner.receive(reports).await,
        }
    }

    /// What keeps all records away comes first; else events may wait for both.
    fn obstacle(&self) -> Option<Obstacle> {
        let inner = self.inner.obstacle();
        if inner.as_ref().is_some_and(|obstacle| obstacle.certain) {
            return inner;
        }
        let Some(of_registry) = self.subjects.as_ref().and_then(Subjects::obstacle) else {
            return inner;
        };
        let text = match inner {
            None => of_registry,
            Some(Obstacle { text, .. }) => format!("{of_registry}; also: {text}"),
        };
        // Records whose schema is known can be sent.
        Some(Obstacle { text, certain: false })
    }

    fn answered_at(&self) -> Option<Instant> {
        self.inner.answered_at()
    }
}

#[cfg(test)]
mod tests;
