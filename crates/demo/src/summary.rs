//! Compares what was committed with what was read, and prints the result.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

use crate::Run;
use crate::writer::Written;
use testkit::check::{Check, Expected, Verdict};
use testkit::percentiles::Percentiles;

/// From the kill until the new relay published.
struct Outage {
    killed_at: Instant,
    over_at: Instant,
}

impl Outage {
    fn of(run: &Run) -> Outage {
        // Before the new relay was ready, only what the old one had sent could arrive.
        let times = run.arrivals.iter().map(|arrival| arrival.at);
        let first = times.filter(|&at| at > run.ready_at).min();
        Outage { killed_at: run.killed_at, over_at: first.unwrap_or(run.ready_at) }
    }

    /// Whether an event had to wait for the new relay.
    fn delayed(&self, committed_at: Instant, arrived_at: Instant) -> bool {
        committed_at < self.over_at && arrived_at > self.killed_at
    }
}

pub(crate) struct Summary {
    transactions: usize,
    rolled_back: usize,
    verdict: Verdict,
    latency: Percentiles,
    latency_of_delayed: Percentiles,
    peak_memory_bytes: u64,
    duration: Duration,
}

impl Summary {
    pub(crate) fn of(topic: &str, run: Run, duration: Duration) -> Summary {
        let outage = Outage::of(&run);
        let transactions = run.ledgers.iter().map(|ledger| ledger.transactions).sum();
        let rolled_back = run.ledgers.iter().map(|ledger| ledger.rolled_back).sum();
        let mut committed: Vec<Written> =
            run.ledgers.into_iter().flat_map(|ledger| ledger.committed).collect();
        // The order of an account's commits; nothing is promised between accounts.
        committed.sort_unstable_by_key(|event| (event.account, event.version));
        let mut expected = Expected::default();
        let mut waiting = HashMap::new();
        for event in &committed {
            expected.push(topic, &format!("account-{}", event.account), event.id);
            waiting.insert(event.id.to_string(), event.committed_at);
        }

        let mut check = Check::new(expected);
        let (mut latency, mut latency_of_delayed) = (Vec::new(), Vec::new());
        for arrival in &run.arrivals {
            check.see(topic, arrival.partition, &arrival.key, &arrival.id);
            // Removed: later occurrences are duplicates.
            if let Some(committed_at) = waiting.remove(&arrival.id) {
                let delayed = outage.delayed(committed_at, arrival.at);
                let into = if delayed { &mut latency_of_delayed } else { &mut latency };
                into.push(arrival.at.saturating_duration_since(committed_at));
            }
        }
        Summary {
            transactions,
            rolled_back,
            verdict: check.verdict(),
            latency: Percentiles::of(latency),
            latency_of_delayed: Percentiles::of(latency_of_delayed),
            peak_memory_bytes: run.peak_memory_bytes,
            duration,
        }
    }

    pub(crate) fn promise_kept(&self) -> bool {
        let verdict = &self.verdict;
        [
            &verdict.lost,
            &verdict.unexpected,
            &verdict.misplaced,
            &verdict.out_of_order,
            &verdict.split,
        ]
        .iter()
        .all(|fault| fault.count == 0)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = &self.verdict;
        let count = |f: &mut fmt::Formatter<'_>, name: &str, count: usize, note: &str| {
            let line = format!("{name:<14}{:>10}   {note}", thousands(count));
            writeln!(f, "{}", line.trim_end())
        };
        let transactions = format!("events, in {} transactions", thousands(self.transactions));
        count(f, "written", verdict.expected, &transactions)?;
        count(f, "rolled back", self.rolled_back, "events, which must not be published")?;
        count(f, "published", verdict.received, "records in the topic")?;
        count(f, "lost", verdict.lost.count, "")?;
        let strangers = verdict.unexpected.count + verdict.misplaced.count;
        count(f, "unexpected", strangers, "rolled back, or under a wrong topic or key")?;
        let disorder = verdict.out_of_order.count + verdict.split.count;
        count(f, "out of order", disorder, "per account, in commit order")?;
        let repeated = "sent again after the kill: not yet confirmed to the slot";
        count(f, "duplicates", verdict.duplicates.count, repeated)?;
        self.fmt_latency(f)?;
        let mib = self.peak_memory_bytes as f64 / 1024.0 / 1024.0;
        writeln!(f, "peak memory {mib:>8.1} MiB   of the relay, the larger of its two processes")?;
        writeln!(f, "duration    {:>10.1} s", self.duration.as_secs_f64())?;
        if self.promise_kept() {
            write!(f, "\nEvery committed event arrived, in order, and nothing else.")
        } else {
            write!(f, "\nTHE PROMISE IS BROKEN: {verdict}")
        }
    }
}

impl Summary {
    fn fmt_latency(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |duration: Duration| duration.as_secs_f64() * 1_000.0;
        let (p50, p99) = (ms(self.latency.at(50)), ms(self.latency.at(99)));
        let how = "from just before COMMIT is sent until the consumer has the event";
        writeln!(f, "latency p50 {p50:>9.1} ms   {how}")?;
        writeln!(f, "latency p99 {p99:>9.1} ms")?;
        let delayed = &self.latency_of_delayed;
        writeln!(
            f,
            "{:>29}without the {} events delayed by the kill, the last of which took {:.0} ms",
            "",
            thousands(delayed.len()),
            ms(delayed.max()),
        )
    }
}

/// 1234567 as 1,234,567.
pub(crate) fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
