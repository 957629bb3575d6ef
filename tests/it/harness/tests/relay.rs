//! The relay's handle, tried on a script that behaves like one.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use testkit::relay::{NO_HOME, Relay};
use testkit::wait::wait_until;

const WITHIN: Duration = Duration::from_secs(20);

const SCRIPT: &str = r#"#!/bin/sh
trap 'echo stopping; exit 7' TERM
echo "$1 $POSTRIDER_SLOT $HOME"
while :; do sleep 0.02; done
"#;

fn script_in(folder: &Path) -> PathBuf {
    let path = folder.join("relay");
    // Written by another process: a file that we hold open for writing while another test forks
    // cannot be executed ("text file busy").
    let written = Command::new("sh")
        .args(["-c", r#"printf '%s' "$1" > "$0" && chmod +x "$0""#])
        .args([path.as_os_str(), SCRIPT.as_ref()])
        .status();
    assert!(written.unwrap().success());
    path
}

#[test]
fn a_relay_is_started_observed_and_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let env = [("POSTRIDER_SLOT".to_owned(), "s1".to_owned())];
    let mut relay = Relay::start(&script_in(folder.path()), &env);
    wait_until("its first line", WITHIN, || relay.log() == format!("run s1 {NO_HOME}\n"));
    assert!(!Path::new(NO_HOME).exists(), "the developer's files would be found there");
    assert!(relay.rss_bytes() > 0 && relay.peak_rss_bytes() >= relay.rss_bytes());
    assert!(relay.cpu_time() < WITHIN);

    relay.pause();
    relay.terminate();
    assert!(relay.is_running());
    relay.resume();
    assert_eq!(relay.wait_exit(WITHIN).code(), Some(7));
    assert_eq!(relay.log_tail(1), "stopping");

    let mut relay = Relay::start(&script_in(folder.path()), &env);
    relay.kill9();
    assert!(!relay.is_running());
}

#[test]
fn readiness_is_read_over_http() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let listen = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        let answers = [
            ("503 Service Unavailable", "connecting"),
            ("200 OK", "standby: ready to take over"),
            ("200 OK", "ready\n"),
            ("404 Not Found", "body"),
        ];
        for (status, body) in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]).unwrap();
            let length = body.len();
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let env = [("POSTRIDER_HTTP_LISTEN".to_owned(), listen)];
    let mut relay = Relay::start(&script_in(folder.path()), &env);
    relay.wait_ready(WITHIN);
    assert_eq!(relay.http_get("/nowhere").unwrap(), (404, "body".to_owned()));
    server.join().unwrap();
}
