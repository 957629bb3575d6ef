//! All cases: Debezium's records against the recorded ones, and postrider's against those.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use testkit::debezium::comparison::{Difference, differences, judge, read_known_differences};
use testkit::debezium::connect::ConnectWorker;
use testkit::debezium::record::{self, RecordedFile, topics};
use testkit::debezium::{Case, CaseFile, Profile, Publisher, Recorded};

use crate::observe::observe;
use crate::servers::Servers;
use crate::table::{Line, Table};

/// Connectors that work at the same time: each mostly waits.
const CONNECTORS: usize = 3;
const RELAYS: usize = 3;

/// Returns whether everything is equal or known.
pub(crate) fn compare(servers: &Servers) -> bool {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/debezium");
    let only = std::env::var("CASES").unwrap_or_default();
    let files = CaseFile::read_all(&folder.join("cases"));
    let mut cases: Vec<Case> = files.iter().flat_map(CaseFile::cases).collect();
    cases.retain(|case| case.full_name().starts_with(&only));
    assert!(!cases.is_empty(), "no case has a name that begins with {only:?}");

    let recorded = folder.join("recorded");
    let observed = match std::env::var("DEBEZIUM").as_deref() {
        Ok("recorded") => recorded_cases(&recorded, &cases),
        _ => observe_cases(servers, &cases),
    };
    if std::env::var("RECORD").is_ok_and(|value| value == "1") {
        write(&recorded, &files, &observed);
    }
    let is_as_recorded = compare_with_recorded(&recorded, &cases, &observed);

    println!("postrider");
    let of_files: Vec<&[Case]> = cases.chunk_by(|a, b| a.file == b.file).collect();
    let lines = in_parallel(RELAYS, &of_files, |cases| judge_postrider(servers, cases, &observed));
    let lines = lines.into_iter().flatten().collect();
    let known = read_known_differences(&folder.join("known-differences.json"));
    let table = Table { lines, known };
    println!("\n{table}");
    is_as_recorded && table.unknown_count() == 0 && table.unused().is_empty()
}

type Observed = BTreeMap<String, Recorded>;

fn of<'a>(observed: &'a Observed, case: &Case) -> &'a Recorded {
    observed.get(&case.full_name()).expect("every case has an outcome")
}

/// What Debezium does in each case, by the case's full name.
fn observe_cases(servers: &Servers, cases: &[Case]) -> Observed {
    println!("Debezium, {} cases", cases.len());
    let of = |kind: Kind| cases.iter().filter(|case| Kind::of(case) == kind).collect();
    let observe = |cases: Vec<&Case>, at_a_time: usize, worker: Option<&ConnectWorker>| {
        in_parallel(at_a_time, &cases, |case| {
            let outcomes = observe(servers, worker, case);
            println!("  {}: {} rows, {} stops", case.full_name(), outcomes.len(), stops(&outcomes));
            (case.full_name(), outcomes)
        })
    };
    std::thread::scope(|scope| {
        // Servers need a JVM each, so one at a time.
        let by_server = scope.spawn(|| observe(of(Kind::Server), 1, None));
        let brokers = servers.broker().brokers().to_owned();
        let worker = ConnectWorker::start(&brokers);
        let mut observed = observe(of(Kind::Connect), CONNECTORS, Some(&worker));
        drop(worker);
        let worker = ConnectWorker::start_tracing(&brokers);
        observed.extend(observe(of(Kind::Tracing), CONNECTORS, Some(&worker)));
        observed.extend(by_server.join().expect("a case of Debezium Server failed"));
        observed.into_iter().collect()
    })
}

/// Which Debezium a case is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Connect,
    Tracing,
    Server,
}

impl Kind {
    fn of(case: &Case) -> Kind {
        match case.configuration.profile() {
            Profile::Server => Kind::Server,
            Profile::Connect if case.configuration.traces() => Kind::Tracing,
            Profile::Connect => Kind::Connect,
        }
    }
}

fn stops(outcomes: &Recorded) -> usize {
    outcomes.iter().filter(|outcome| outcome.published().is_none()).count()
}

/// What is recorded of the cases.
fn recorded_cases(folder: &Path, cases: &[Case]) -> Observed {
    let of = |case: &Case| {
        let mut file = record::read(&recorded_file(folder, &case.file)).unwrap_or_default();
        (case.full_name(), file.remove(&case.name).unwrap_or_default())
    };
    cases.iter().map(of).collect()
}

/// Whether Debezium does what it did before; prints what it does not.
fn compare_with_recorded(folder: &Path, cases: &[Case], observed: &Observed) -> bool {
    let mut is_equal = true;
    let before = recorded_cases(folder, cases);
    for case in cases {
        for difference in differences(case, of(&before, case), of(observed, case)) {
            is_equal = false;
            let Difference { case, id, what } = difference;
            println!("Debezium does not do what is recorded: {case} {id}: {what}");
        }
    }
    is_equal
}

/// Publishes the cases of a file.
fn judge_postrider(servers: &Servers, cases: &[Case], observed: &Observed) -> Vec<Line> {
    let mut publisher = Publisher::new(&binary(), &servers.postgres(), &servers.broker());
    let judged = cases.iter().map(|case| {
        let expected = of(observed, case);
        let differences = judge(case, expected, publisher.publish(case, &topics(expected)));
        println!("  {}: {} different", case.full_name(), differences.len());
        let (rows, stops) = (expected.len(), stops(expected));
        Line { case: case.full_name(), rows, stops, differences }
    });
    judged.collect()
}

/// The program, which cargo puts beside this one.
pub(crate) fn binary() -> PathBuf {
    let own = std::env::current_exe().expect("no path of this program");
    let binary = own.with_file_name("postrider");
    assert!(binary.exists(), "{} is missing: `make compare-debezium` builds it", binary.display());
    binary
}

/// Works on several items at a time, in the order of the items.
fn in_parallel<T: Sync, R: Send>(
    at_a_time: usize,
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..at_a_time {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(number) else { break };
                    let result = work(item);
                    done.lock().unwrap().insert(number, result);
                }
            });
        }
    });
    done.into_inner().unwrap().into_values().collect()
}

fn recorded_file(folder: &Path, file: &str) -> PathBuf {
    folder.join(format!("{file}.json"))
}

fn write(folder: &Path, files: &[CaseFile], observed: &Observed) {
    for file in files {
        let path = recorded_file(folder, file.name());
        // What was left out stays, what no longer exists goes.
        let before = record::read(&path).unwrap_or_default();
        let mut after = RecordedFile::new();
        for case in file.cases() {
            let now = observed.get(&case.full_name()).or(before.get(&case.name));
            after.extend(now.map(|outcomes| (case.name.clone(), outcomes.clone())));
        }
        if !after.is_empty() {
            record::write(&path, &after);
        }
    }
    println!("recorded in {}", folder.display());
}
