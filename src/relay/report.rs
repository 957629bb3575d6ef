//! What a relay reports, and where: at its own HTTP server, or at an endpoint that it shares.

use std::sync::Arc;

use prometheus_client::registry::Registry;
use tracing::Span;

use super::endpoint::{Endpoint, Registration, refused};
use crate::config::Config;
use crate::ops::{HttpServer, Metrics, Overview, Vitals};
use crate::session_end::Fatal;

pub(super) struct Report {
    pub(super) metrics: Metrics,
    pub(super) vitals: Arc<Vitals>,
    place: Place,
    name: Option<String>,
}

enum Place {
    /// The server of the only relay, if it wants one. It ends with the relay.
    Own {
        _server: Option<HttpServer>,
    },
    Shared(Registration),
}

impl Report {
    /// For the only relay of a process.
    pub(super) fn alone(config: &Config) -> Result<Self, Fatal> {
        let mut registry = Registry::default();
        let (metrics, vitals) = register(config, &mut registry);
        let server = match config.http.listen {
            None => None,
            Some(address) => {
                let overview = Arc::new(Overview::of_one(Arc::clone(&vitals), registry));
                let server = HttpServer::start(address, overview);
                let fix = "name a free address in http.listen, or `off`";
                Some(server.map_err(|error| refused(&error, fix))?)
            }
        };
        Ok(Report { metrics, vitals, place: Place::Own { _server: server }, name: None })
    }

    /// For one of several relays.
    pub(super) fn to(endpoint: &Endpoint, name: &str, config: &Config) -> Result<Self, Fatal> {
        let label = ("relay".into(), name.to_owned().into());
        let mut registry = Registry::with_labels(std::iter::once(label));
        let (metrics, vitals) = register(config, &mut registry);
        let registration = endpoint.add(name, &vitals, registry)?;
        Ok(Report {
            metrics,
            vitals,
            place: Place::Shared(registration),
            name: Some(name.to_owned()),
        })
    }

    /// Names the relay in its log lines, if it has a name. The level is that of the most important
    /// lines: at any lower one, a filter for these would hide the name.
    pub(super) fn span(&self) -> Span {
        match &self.name {
            None => Span::none(),
            Some(name) => tracing::error_span!("relay", relay = %name),
        }
    }

    /// The relay has begun.
    pub(super) fn begin(&mut self) {
        if let Place::Shared(registration) = &mut self.place {
            registration.begin();
        }
    }

    /// The relay has ended.
    pub(super) fn end(&self, result: &Result<(), Fatal>) {
        if let Place::Shared(registration) = &self.place {
            registration.end(result);
        }
    }
}

fn register(config: &Config, registry: &mut Registry) -> (Metrics, Arc<Vitals>) {
    let metrics = Metrics::register(registry);
    let vitals = Vitals::register(&config.postgres.slot, registry);
    (metrics, Arc::new(vitals))
}
