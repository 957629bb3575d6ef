//! Each fault of the proxy, seen from a Postgres session.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use postgres::{Client, NoTls};

use testkit::proxy::Proxy;
use testkit::shared;

const WITHIN: Duration = Duration::from_secs(20);

fn postgres_behind_proxy() -> (Proxy, impl Fn() -> Result<Client, postgres::Error>) {
    let address = shared::postgres().address();
    let proxy = Proxy::to(address.port());
    let url = address.url_via(proxy.port(), "postgres");
    (proxy, move || Client::connect(&url, NoTls))
}

#[test]
fn a_cut_ends_sessions_and_lets_new_ones_in() {
    let (proxy, connect) = postgres_behind_proxy();
    let mut client = connect().unwrap();
    client.simple_query("SELECT 1").unwrap();
    assert_eq!(proxy.open_connections(), 1);
    proxy.cut();
    assert!(client.simple_query("SELECT 1").is_err());
    connect().unwrap().simple_query("SELECT 1").unwrap();
}

#[test]
fn connections_are_refused_until_the_proxy_passes_again() {
    let (proxy, connect) = postgres_behind_proxy();
    let mut client = connect().unwrap();
    proxy.refuse();
    let error = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    client.simple_query("SELECT 1").expect("open connections continue");
    proxy.pass();
    connect().unwrap().simple_query("SELECT 1").unwrap();
}

#[test]
fn a_black_hole_is_silent_and_loses_nothing() {
    let (proxy, connect) = postgres_behind_proxy();
    let mut client = connect().unwrap();
    client.simple_query("SELECT 1").unwrap();
    proxy.black_hole();
    let (answer, answered) = channel();
    let session = std::thread::spawn(move || {
        answer.send(client.simple_query("SELECT 1").is_ok()).unwrap();
    });
    let (met, meeting) = channel();
    let newcomer = std::thread::spawn(move || met.send(connect().is_ok()).unwrap());
    let silence = Duration::from_millis(300);
    assert_eq!(answered.recv_timeout(silence), Err(RecvTimeoutError::Timeout));
    assert_eq!(meeting.recv_timeout(silence), Err(RecvTimeoutError::Timeout));
    proxy.pass();
    assert_eq!(answered.recv_timeout(WITHIN), Ok(true));
    assert_eq!(meeting.recv_timeout(WITHIN), Ok(true));
    session.join().unwrap();
    newcomer.join().unwrap();
}

#[test]
fn a_black_hole_can_be_cut() {
    let (proxy, connect) = postgres_behind_proxy();
    let mut client = connect().unwrap();
    proxy.black_hole();
    let session = std::thread::spawn(move || client.simple_query("SELECT 1").is_err());
    proxy.cut();
    assert!(session.join().unwrap());
}

// A server that sends endlessly and never reads.
fn chatterbox() -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        while stream.write_all(&[b'x'; 1000]).is_ok() {}
    });
    (port, thread)
}

#[test]
fn exactly_the_allowed_bytes_arrive_before_the_cut() {
    let (port, server) = chatterbox();
    let proxy = Proxy::to(port);
    proxy.cut_after_bytes(12_345);
    let mut stream = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    assert_eq!(received.len(), 12_345);
    assert_eq!(proxy.bytes_to_clients(), 12_345);
    proxy.wait_cut(WITHIN);
    server.join().unwrap();
}

#[test]
fn exactly_the_allowed_bytes_reach_the_server_before_the_cut() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // What goes to the client is not counted.
        stream.write_all(&[b'x'; 50_000]).unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        received.len()
    });
    let proxy = Proxy::to(port);
    proxy.cut_after_bytes_to_server(12_345);
    let mut stream = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
    stream.read_exact(&mut [0; 50_000]).unwrap();
    while stream.write_all(&[b'y'; 1000]).is_ok() {}
    proxy.wait_cut(WITHIN);
    assert_eq!(server.join().unwrap(), 12_345);
}

#[test]
fn a_cut_reaches_a_client_that_does_not_read() {
    let (port, server) = chatterbox();
    let proxy = Proxy::to(port);
    let stream = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
    testkit::wait::wait_until("full buffers", WITHIN, || proxy.bytes_to_clients() > 100_000);
    proxy.cut();
    server.join().unwrap();
    let outcome = (&stream).read_to_end(&mut Vec::new());
    assert_eq!(outcome.map_err(|error| error.kind()), Err(ErrorKind::ConnectionReset));
}

#[test]
fn a_stranded_session_stays_silent_and_new_ones_pass() {
    let (proxy, connect) = postgres_behind_proxy();
    let mut client = connect().unwrap();
    proxy.strand();
    let (answer, answered) = channel();
    let session = std::thread::spawn(move || {
        answer.send(client.simple_query("SELECT 1").is_ok()).unwrap();
    });
    connect().unwrap().simple_query("SELECT 1").unwrap();
    let silence = Duration::from_millis(300);
    assert_eq!(answered.recv_timeout(silence), Err(RecvTimeoutError::Timeout));
    proxy.cut();
    assert_eq!(answered.recv_timeout(WITHIN), Ok(false));
    session.join().unwrap();
}
