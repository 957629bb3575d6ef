//! Whatever clients do, the relay has its file descriptors and its core, and probes are answered.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

use super::{BINARY, SOON, write_events};
use crate::metric::metric_sum;
use crate::support::fixture::Fixture;
use crate::support::wait::wait_until;

const CROWD: u64 = 5_000;
/// What the relay may open; it needs about forty of them for itself.
const FILES_MAX: u64 = 256;

fn address(fixture: &Fixture) -> SocketAddr {
    let listen = fixture.env().iter().find(|(name, _)| name == "POSTRIDER_HTTP_LISTEN");
    listen.unwrap().1.parse().unwrap()
}

/// As many idle connections as this process can have, up to the crowd.
fn crowd(address: SocketAddr) -> Vec<TcpStream> {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let room = limit.maximum.unwrap_or(u64::MAX).saturating_sub(500);
    let count = CROWD.min(room);
    assert!(count > 2 * FILES_MAX, "this process may open too few files: {limit:?}");
    let connect = |_| TcpStream::connect_timeout(&address, Duration::from_secs(2)).ok();
    (0..count).filter_map(connect).collect()
}

#[test]
fn idle_connections_keep_the_relay_neither_from_postgres_nor_from_answering() {
    let mut fixture = Fixture::new(BINARY, "crowd");
    let topic = fixture.create_topic("t", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let pid = Pid::from_raw(fixture.relay().pid().unwrap().cast_signed()).unwrap();
    let files = Rlimit { current: Some(FILES_MAX), maximum: Some(FILES_MAX) };
    prlimit(Some(pid), Resource::Nofile, files).unwrap();
    let crowd = crowd(address(&fixture));
    assert!(crowd.len() as u64 > FILES_MAX);
    // All sessions of the relay end, as when the server is started again.
    let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name LIKE 'postrider%'";
    assert!(fixture.client().query_one(sql, &[]).unwrap().get::<_, i64>(0) > 3);
    write_events(&fixture, &topic, 1);
    fixture.consumer().read_n(1, SOON);
    let relay = fixture.relay();
    relay.wait_ready(SOON);
    assert_eq!(relay.http_get("/livez").unwrap().0, 200);
    assert!(metric_sum(relay, "postrider_restarts_total") > 0.0);
    drop(crowd);
}

#[test]
fn who_says_nothing_is_not_waited_for() {
    let mut fixture = Fixture::new(BINARY, "mute");
    fixture.start_relay().wait_ready(SOON);
    let began = Instant::now();
    let mut mute = TcpStream::connect(address(&fixture)).unwrap();
    let mut half = TcpStream::connect(address(&fixture)).unwrap();
    half.write_all(b"GET /livez HTTP/1.1\r\nHost: ").unwrap();
    // One that has been answered, and then says nothing more.
    let mut idle = TcpStream::connect(address(&fixture)).unwrap();
    idle.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    for stream in [&mut mute, &mut half, &mut idle] {
        stream.set_read_timeout(Some(SOON)).unwrap();
        let mut said = Vec::new();
        stream.read_to_end(&mut said).expect("the connection stays open");
    }
    assert!(began.elapsed() < Duration::from_secs(40));
}

/// A scrape costs no more than the last one, if that was a moment ago.
#[test]
fn scrapes_do_not_take_the_relays_time() {
    let mut fixture = Fixture::new(BINARY, "scrapes");
    let topic = fixture.create_topic("t", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let address = address(&fixture);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let mut buffer = [0; 64 * 1024];
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until {
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert!(stream.read(&mut buffer).unwrap() > 0);
    }
    write_events(&fixture, &topic, 10);
    fixture.consumer().read_n(10, SOON);
    // What is cached is not old.
    let relay = fixture.relay();
    let series = format!("outbox_published_total{{table=\"public.outbox\",topic=\"{topic}\"}}");
    wait_until("the events in the metrics", SOON, || {
        crate::metric::metric(relay, &series) == Some(10.0)
    });
}
