//! Whatever clients do, the relay keeps its file descriptors and its CPU time, and probes are
//! answered.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use procfs::process::Process;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

use super::{BINARY, SOON, write_events};
use crate::harness::metrics::metric_sum;
use testkit::fixture::Fixture;
use testkit::wait::wait_until;

const CONNECTIONS_MAX: u64 = 5_000;
/// How many files the relay may open; it needs about forty itself.
const FILES_MAX: u64 = 256;
/// CPU ticks (a hundred per second) that thousands of scrapes take, and probes never do.
const TICKS_MIN: u64 = 20;

fn address(fixture: &Fixture) -> SocketAddr {
    let listen = fixture.env().iter().find(|(name, _)| name == "POSTRIDER_HTTP_LISTEN");
    listen.unwrap().1.parse().unwrap()
}

/// As many idle connections as this process can have, up to the maximum.
fn open_idle_connections(address: SocketAddr) -> Vec<TcpStream> {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let room = limit.maximum.unwrap_or(u64::MAX).saturating_sub(500);
    let count = CONNECTIONS_MAX.min(room);
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
    let open_idle_connections = open_idle_connections(address(&fixture));
    assert!(open_idle_connections.len() as u64 > FILES_MAX);
    // All sessions of the relay end, as when the server restarts.
    let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name LIKE 'postrider%'";
    assert!(fixture.client().query_one(sql, &[]).unwrap().get::<_, i64>(0) > 3);
    write_events(&fixture, &topic, 1);
    fixture.consumer().read_n(1, SOON);
    let relay = fixture.relay();
    relay.wait_ready(SOON);
    assert_eq!(relay.http_get("/livez").unwrap().0, 200);
    assert!(metric_sum(relay, "postrider_restarts_total") > 0.0);
    drop(open_idle_connections);
}

#[test]
fn silent_clients_are_not_waited_for() {
    let mut fixture = Fixture::new(BINARY, "mute");
    fixture.start_relay().wait_ready(SOON);
    let began = Instant::now();
    let mut mute = TcpStream::connect(address(&fixture)).unwrap();
    let mut half = TcpStream::connect(address(&fixture)).unwrap();
    half.write_all(b"GET /livez HTTP/1.1\r\nHost: ").unwrap();
    // A client that has been answered and then sends nothing more.
    let mut idle = TcpStream::connect(address(&fixture)).unwrap();
    idle.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    for stream in [&mut mute, &mut half, &mut idle] {
        stream.set_read_timeout(Some(SOON)).unwrap();
        let mut response = Vec::new();
        stream.read_to_end(&mut response).expect("the connection stays open");
    }
    assert!(began.elapsed() < Duration::from_secs(40));
}

/// Scrapes use the time of a separate thread, not of the one that publishes. That most of them get
/// a cached answer is tested next to the cache: from here a cached answer looks like a new one.
#[test]
fn scrapes_take_no_time_from_publishing() {
    let mut fixture = Fixture::new(BINARY, "scrapes");
    let topic = fixture.create_topic("t", 1, &[]);
    fixture.start_relay().wait_ready(SOON);
    let (address, pid) = (address(&fixture), fixture.relay().pid().unwrap().cast_signed());
    let scraping = std::thread::spawn(move || scrape_until_closed(address));
    let mut written = 0;
    wait_until("the scrapes to use the time of the HTTP thread", SOON, || {
        write_events(&fixture, &topic, 10);
        written += 10;
        ticks_of_thread(pid, "http") >= TICKS_MIN
    });
    fixture.consumer().read_n(written, SOON);
    // The cached answer is not old.
    let relay = fixture.relay();
    let series = format!("outbox_published_total{{table=\"public.outbox\",topic=\"{topic}\"}}");
    wait_until("the events in the metrics", SOON, || {
        crate::harness::metrics::metric(relay, &series) == Some(written as f64)
    });
    assert!(!scraping.is_finished(), "a scrape was not answered");
    relay.kill9();
    assert!(scraping.join().unwrap() > 0);
}

/// Scrapes without a pause until the relay has ended. Returns the number of scrapes.
fn scrape_until_closed(address: SocketAddr) -> usize {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let mut buffer = [0; 64 * 1024];
    let scrape = || {
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").is_ok()
            && stream.read(&mut buffer).is_ok_and(|bytes| bytes > 0)
    };
    std::iter::repeat_with(scrape).take_while(|answered| *answered).count()
}

/// The CPU time of the process's thread with this name; 0 if there is no such thread.
fn ticks_of_thread(pid: i32, name: &str) -> u64 {
    let tasks = Process::new(pid).unwrap().tasks().unwrap();
    let stats = tasks.flatten().filter_map(|task| task.stat().ok());
    stats.filter(|stat| stat.comm == name).map(|stat| stat.utime + stat.stime).sum()
}
