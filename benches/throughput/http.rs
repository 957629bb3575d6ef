//! How HTTP clients slow down events: a backlog is drained with and without a crowd of idle
//! connections and a hundred scrapes a second.
//!
//! The crowd and its scraper are threads of this process, on the same cores as everything else, so
//! their own CPU time is in the ratio too.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::scope;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;

use crate::backlog::{Backlog, Kind};
use crate::drain::{RelayRun, run_relay};
use crate::options::Options;
use crate::report::median;
use crate::servers::Servers;
use crate::table::{Table, Target};
use crate::tell;
use testkit::http;

const ROWS_PER_TRANSACTION: usize = 10;
const RATIO_MIN: f64 = 0.95;
const SCRAPE_EVERY: Duration = Duration::from_millis(10);
/// Idle connections at most: fewer if this process is not allowed as many.
const CROWD_MAX: u64 = 5_000;
/// Files that this process needs for other things: servers, clients, logs.
const FILES_KEPT: u64 = 500;
const CONNECT_WITHIN: Duration = Duration::from_secs(1);
/// The pause while the relay does not listen yet.
const CONNECT_AGAIN: Duration = Duration::from_millis(20);
/// No crowd stays longer, whatever happens to the run.
const STAY_MAX: Duration = Duration::from_secs(600);

#[derive(Serialize)]
pub(crate) struct Http {
    rows: usize,
    rounds: Vec<Round>,
}

/// Both runs, one directly after the other.
#[derive(Serialize)]
struct Round {
    quiet: RelayRun,
    crowded: RelayRun,
    crowd: Crowd,
}

/// What the clients achieved.
#[derive(Serialize)]
struct Crowd {
    /// Connections that were made; the relay closes the oldest when it has too many.
    connections: usize,
    /// Scrapes that were answered.
    scrapes: usize,
}

impl Http {
    fn median(&self, value: impl Fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(value))
    }

    fn rate(&self, seconds: impl Fn(&Round) -> f64) -> f64 {
        self.rows as f64 / self.median(seconds)
    }

    /// The median of the rounds' ratios: runs of one round meet the same state of the machine.
    fn ratio(&self) -> f64 {
        self.median(|round| round.quiet.seconds / round.crowded.seconds)
    }

    pub(crate) fn add_to(&self, table: &mut Table) {
        let connections = self.median(|round| round.crowd.connections as f64);
        let scrapes = self.median(|round| round.crowd.scrapes as f64 / round.crowded.seconds);
        table.heading(format!(
            "drain {} rows with and without {connections:.0} idle HTTP connections and 100 scrapes a \
             second",
            self.rows
        ));
        table.row("scrapes answered a second", vec![scrapes], 0, Target::None);
        let quiet = self.rate(|round| round.quiet.seconds);
        table.row("without, events/s", vec![quiet], 0, Target::None);
        let crowded = self.rate(|round| round.crowded.seconds);
        table.row("with, events/s", vec![crowded], 0, Target::None);
        table.row("ratio", vec![self.ratio()], 2, Target::AtLeast(RATIO_MIN));
    }
}

pub(crate) fn measure(servers: &Servers, options: &Options) -> Http {
    let Options { rows, repeat, .. } = *options;
    tell(format!("writing {rows} rows, to drain them with and without HTTP clients"));
    let slots: Vec<String> =
        (0..repeat).flat_map(|round| [quiet_slot(round), crowded_slot(round)]).collect();
    let mut backlog = Backlog::write(servers, Kind::Rows, rows, ROWS_PER_TRANSACTION, &slots);
    let crowd_max = raise_file_limit();
    let rounds = (0..repeat).map(|round| play(&mut backlog, round, crowd_max)).collect();
    Http { rows, rounds }
}

fn play(backlog: &mut Backlog, round: usize, crowd_max: u64) -> Round {
    // The order alternates, because the second run finds warmer caches.
    let (quiet, (crowded, crowd)) = if round.is_multiple_of(2) {
        let quiet = run_relay(backlog, &quiet_slot(round));
        (quiet, run_crowded(backlog, round, crowd_max))
    } else {
        let crowded = run_crowded(backlog, round, crowd_max);
        (run_relay(backlog, &quiet_slot(round)), crowded)
    };
    tell(format!(
        "  quiet {:.2} s, with {} connections and {} scrapes {:.2} s",
        quiet.seconds, crowd.connections, crowd.scrapes, crowded.seconds
    ));
    assert!(crowd.connections > 0 && crowd.scrapes > 0, "there was no crowd");
    Round { quiet, crowded, crowd }
}

fn run_crowded(backlog: &mut Backlog, round: usize, crowd_max: u64) -> (RelayRun, Crowd) {
    let address = listen_address(backlog);
    let over = AtomicBool::new(false);
    scope(|scope| {
        let _ends = EndsOnDrop(&over);
        let idle = scope.spawn(|| stay_idle(address, crowd_max, &over));
        let scraping = scope.spawn(|| scrape(address, &over));
        let run = run_relay(backlog, &crowded_slot(round));
        over.store(true, Relaxed);
        let crowd = Crowd { connections: idle.join().unwrap(), scrapes: scraping.join().unwrap() };
        (run, crowd)
    })
}

/// Ends the clients, also when the run panics: the scope waits for its threads.
struct EndsOnDrop<'a>(&'a AtomicBool);

impl Drop for EndsOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Connects as often as it can, sends nothing, and stays until the run is over. Returns the number
/// of connections.
fn stay_idle(address: SocketAddr, crowd_max: u64, over: &AtomicBool) -> usize {
    let begun = Instant::now();
    let goes_on = || !over.load(Relaxed) && begun.elapsed() < STAY_MAX;
    let mut crowd = Vec::new();
    while goes_on() {
        if crowd.len() as u64 == crowd_max {
            std::thread::sleep(CONNECT_AGAIN);
            continue;
        }
        match TcpStream::connect_timeout(&address, CONNECT_WITHIN) {
            Ok(stream) => crowd.push(stream),
            Err(_) => std::thread::sleep(CONNECT_AGAIN),
        }
    }
    crowd.len()
}

/// Scrapes at a steady pace, each time on a new connection. If one takes too long, those that were
/// due meanwhile are left out. Returns how many were answered.
fn scrape(address: SocketAddr, over: &AtomicBool) -> usize {
    let (begun, mut answered) = (Instant::now(), 0);
    while !over.load(Relaxed) && begun.elapsed() < STAY_MAX {
        let next = Instant::now() + SCRAPE_EVERY;
        if http::get(address, "/metrics").is_ok_and(|(status, _)| status == 200) {
            answered += 1;
        }
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    answered
}

fn listen_address(backlog: &Backlog) -> SocketAddr {
    let mut env = backlog.fixture.env().iter();
    let listen = env.find(|(name, _)| name == "POSTRIDER_HTTP_LISTEN");
    let address: SocketAddr = listen.and_then(|(_, value)| value.parse().ok()).expect("no address");
    assert!(address.ip().is_loopback(), "{address} is not a loopback address");
    address
}

/// Raises the limit of open files as far as allowed. Returns how many connections that allows.
fn raise_file_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    // If the limit can't be raised, the crowd is smaller.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let room = CROWD_MAX.min(files.saturating_sub(FILES_KEPT));
    assert!(room > 0, "this process may open too few files: {limit:?}");
    room
}

fn quiet_slot(round: usize) -> String {
    format!("bench_http_quiet_{round}")
}

fn crowded_slot(round: usize) -> String {
    format!("bench_http_crowded_{round}")
}
