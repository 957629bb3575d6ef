//! One run of the relay through a backlog.

use std::fmt;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::mixed::Mixed;
use crate::running::{LOOK_EVERY, WITHIN, published_besides, stop, sum};

#[derive(Serialize)]
pub(super) struct Run {
    /// From the start of the process until the last of the counted events was acknowledged.
    pub(super) published_seconds: f64,
    /// Until all events were acknowledged or parked.
    pub(super) done_seconds: f64,
    pub(super) cpu_seconds: f64,
    restarts: usize,
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Run { published_seconds, done_seconds, cpu_seconds, restarts } = self;
        write!(
            f,
            "{published_seconds:.2} s (all done {done_seconds:.2} s, CPU {cpu_seconds:.2} s, \
             restarts {restarts})"
        )
    }
}

/// Drains the backlog through one of its slots. A session that restarts publishes some events
/// twice, so the moment of the last acknowledgement counts, not that of the n-th.
pub(super) fn drain(backlog: &mut Mixed, number: usize) -> Run {
    let slot = backlog.slots.get(number).expect("a slot for each run").clone();
    let left_out = backlog.left_out();
    let mut client = backlog.fixture.client();
    backlog.fixture.set("POSTRIDER_SLOT", &slot);
    let begun = Instant::now();
    let relay = backlog.fixture.start_relay();
    let (mut published, mut published_at, mut is_done) = (0, Duration::ZERO, false);
    // Reads the count once more after everything is done.
    while !is_done {
        assert!(
            relay.is_running() && begun.elapsed() < WITHIN,
            "the relay is not done after {published} events:\n{}",
            relay.log_tail(20)
        );
        std::thread::sleep(LOOK_EVERY);
        is_done = is_confirmed(&mut client, &slot, &backlog.end);
        // Nothing can be counted before it listens.
        let metrics = relay.http_get("/metrics").map_or(String::new(), |(_, text)| text);
        let now = published_besides(&metrics, left_out.as_deref());
        if now > published {
            (published, published_at) = (now, begun.elapsed());
        }
    }
    let done_at = begun.elapsed();
    let cpu_seconds = relay.cpu_time().as_secs_f64();
    let metrics = relay.http_get("/metrics").expect("the relay has no metrics").1;
    let restarts = sum(&metrics, "postrider_restarts_total");
    stop(relay);
    assert!(published >= backlog.counted_events(), "only {published} events were published");
    let sql = "SELECT count(*) FROM postrider.undelivered WHERE slot = $1 AND status = 'dead'";
    let dead: i64 = client.query_one(sql, &[&slot]).unwrap().get(0);
    assert_eq!(usize::try_from(dead), Ok(backlog.parked_events()), "dead events");
    Run {
        published_seconds: published_at.as_secs_f64(),
        done_seconds: done_at.as_secs_f64(),
        cpu_seconds,
        restarts,
    }
}

fn is_confirmed(client: &mut postgres::Client, slot: &str, end: &str) -> bool {
    let sql = "SELECT confirmed_flush_lsn >= $2::text::pg_lsn FROM pg_replication_slots
        WHERE slot_name = $1";
    client.query_one(sql, &[&slot, &end]).expect("cannot read the slot").get(0)
}
