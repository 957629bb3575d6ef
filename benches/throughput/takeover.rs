//! How long a standby takes to take over: from the end of the first instance until an event that was
//! written after it is consumed.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::running::stop;
use crate::servers::Servers;
use crate::{BINARY, tell};
use testkit::fixture::Fixture;
use testkit::port::free_port;
use testkit::proxy::Proxy;
use testkit::relay::Relay;
use testkit::wait::wait_until;

const ROUNDS: usize = 3;
const SOON: Duration = Duration::from_secs(90);

/// Milliseconds of each round.
#[derive(Serialize)]
pub(crate) struct Takeover {
    pub(crate) killed: Vec<f64>,
    pub(crate) stopped: Vec<f64>,
    pub(crate) unplugged: Vec<f64>,
}

pub(crate) fn measure(servers: &Servers) -> Takeover {
    let rounds = |name: &str, end: fn(&mut Relay, &Proxy)| -> Vec<f64> {
        tell(format!("takeover after {name}"));
        (0..ROUNDS).map(|_| round(servers, end)).collect()
    };
    Takeover {
        killed: rounds("SIGKILL", |relay, _| relay.kill9()),
        stopped: rounds("SIGTERM", |relay, _| stop(relay)),
        unplugged: rounds("network loss", |_, proxy| proxy.unplug()),
    }
}

fn round(servers: &Servers, end: fn(&mut Relay, &Proxy)) -> f64 {
    let address = servers.postgres.address();
    let proxy = Proxy::to(address.port());
    let mut fixture = Fixture::on(BINARY, "bench", &address, &servers.broker);
    let topic = fixture.create_topic("events", 1, &[]);
    let mut env = fixture.env().to_vec();
    let url = address.url_via(proxy.port(), fixture.database());
    fixture.set("POSTRIDER_DATABASE_URL", &url);
    fixture.start_relay().wait_ready(SOON);
    env.push(("POSTRIDER_HTTP_LISTEN".to_owned(), format!("127.0.0.1:{}", free_port())));
    let standby = Relay::start(Path::new(BINARY), &env);
    wait_until("the standby", SOON, || {
        standby.http_get("/readyz").is_ok_and(|(_, body)| body.starts_with("standby"))
    });
    let (consumer, mut client) = (fixture.consumer(), fixture.client());
    let begun = Instant::now();
    end(fixture.relay(), &proxy);
    let sql = "INSERT INTO outbox (topic, payload) VALUES ($1, '1')";
    client.execute(sql, &[&topic]).unwrap();
    assert!(consumer.next(SOON).is_some(), "nobody took over:\n{}", standby.log_tail(20));
    let milliseconds = begun.elapsed().as_secs_f64() * 1_000.0;
    tell(format!("  {milliseconds:.0} ms"));
    milliseconds
}
