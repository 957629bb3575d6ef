//! What the process has once, however many relays run in it: its version, and the `process_*`
//! metrics of Prometheus' own clients.

use std::fmt;

use procfs::process::Process;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

/// The metrics of this process.
pub(super) fn registry() -> Registry {
    let mut registry = Registry::default();
    let version = vec![("version", env!("CARGO_PKG_VERSION"))];
    registry.register("postrider_build", "The version of postrider", Info::new(version));
    registry.register_collector(Box::new(ProcessCollector));
    registry
}

/// Reads `/proc/self` when asked.
#[derive(Debug)]
struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        // A system without /proc has no such metrics.
        let Ok(process) = Process::myself() else {
            return Ok(());
        };
        let Ok(stat) = process.stat() else {
            return Ok(());
        };
        let ticks = procfs::ticks_per_second().max(1) as f64;
        let cpu = ConstCounter::new((stat.utime + stat.stime) as f64 / ticks);
        let family = encoder.encode_descriptor(
            "process_cpu_seconds",
            "User and system CPU time",
            None,
            cpu.metric_type(),
        )?;
        cpu.encode(family)?;
        let gauges = [
            ("process_resident_memory_bytes", "Resident memory", stat.rss * procfs::page_size()),
            ("process_virtual_memory_bytes", "Virtual memory", stat.vsize),
            ("process_open_fds", "Open file descriptors", process.fd_count().unwrap_or(0) as u64),
            ("process_threads", "Threads", u64::try_from(stat.num_threads).unwrap_or(0)),
        ];
        for (name, help, value) in gauges {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            let family = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            gauge.encode(family)?;
        }
        Ok(())
    }
}
