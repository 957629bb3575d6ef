//! Free TCP ports for servers that are stopped and started again.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::Mutex;

// Below the kernel's ephemeral range (32768 and up by default): while a server is down, no
// outgoing connection of another test can get its port.
const PORTS: std::ops::Range<u16> = 17_000..32_000;

// A port is free until its server listens, so two tests could get the same one.
static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// A port of 127.0.0.1 that nothing listens on and that this process has not returned before.
pub fn free_port() -> u16 {
    let mut given = GIVEN.lock().unwrap();
    for _ in 0..1_000 {
        // Random, so that two test runs on one machine do not use the same sequence.
        let port = rand::random_range(PORTS);
        if !given.contains(&port) && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            given.insert(port);
            return port;
        }
    }
    panic!("found no free TCP port in {PORTS:?} on 127.0.0.1");
}
