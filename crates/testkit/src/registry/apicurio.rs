//! Apicurio Registry: everything in memory, on a free port.
//!
//! This version runs on Java 17, as the tests do; 3.3 needs 21. Neither has GUIDs, and neither can
//! answer `format=serialized`, with which Confluent's client for Python asks for protobuf schemas.

use std::net::SocketAddr;
use std::time::Duration;

use super::Registry;
use crate::cache::cache_folder;
use crate::guardian::{Ending, GuardedProcess};
use crate::http;
use crate::java::java;
use crate::port::free_port;
use crate::wait::poll_for;

/// What `scripts/setup` fetches: it reads the same file.
const VERSION: &str = include_str!("version").trim_ascii();

/// Where it is compatible with Confluent's.
const ROOT: &str = "/apis/ccompat/v7";

// It serves a handful of requests: a small heap, and no time spent on good code.
const JVM_FLAGS: &[&str] = &["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];

const START_WITHIN: Duration = Duration::from_secs(90);

pub struct Apicurio {
    process: GuardedProcess,
    registry: Registry,
}

impl Apicurio {
    /// Returns when it answers.
    pub fn start() -> Apicurio {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let folder = cache_folder().join(format!("apicurio-{VERSION}"));
        let jar = folder.join(format!("apicurio-registry-app-{VERSION}-runner.jar"));
        assert!(
            jar.is_file(),
            "Apicurio Registry {VERSION} is not in {}: \
             run `make setup` (or `make test`, which does)",
            folder.display()
        );
        let mut process = GuardedProcess::new("apicurio", Ending::Kill);
        let mut command = java();
        command.args(JVM_FLAGS);
        command.arg("-Dquarkus.http.host=127.0.0.1");
        command.arg(format!("-Dquarkus.http.port={}", address.port()));
        command.arg("-jar").arg(jar).current_dir(process.folder());
        process.start(command);
        let ready = poll_for(START_WITHIN, || {
            if let Some(status) = process.try_exit() {
                panic!("Apicurio ended while starting ({status}):\n{}", process.log_tail(20));
            }
            let (status, _) = http::get(address, &format!("{ROOT}/subjects")).ok()?;
            (status == 200).then_some(())
        });
        assert!(ready.is_some(), "Apicurio does not answer:\n{}", process.log_tail(20));
        Apicurio { process, registry: Registry { address, root: ROOT, login: None } }
    }

    pub fn registry(&self) -> &Registry {
        &self.registry
    }
}
