//! One HTTP request, on a connection of its own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const ANSWER_WITHIN: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    pub method: &'a str,
    /// With the query.
    pub path: &'a str,
    /// The header `Authorization`.
    pub authorization: Option<&'a str>,
    pub body: &'a str,
}

/// Status and body of a GET.
pub fn get(address: SocketAddr, path: &str) -> std::io::Result<(u16, String)> {
    send(address, Request { method: "GET", path, ..Request::default() })
}

/// Status and body of the answer.
pub fn send(address: SocketAddr, request: Request<'_>) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_WITHIN)?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    let Request { method, path, authorization, body } = request;
    let login = authorization.map_or(String::new(), |it| format!("Authorization: {it}\r\n"));
    let content = if body.is_empty() {
        String::new()
    } else {
        format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len())
    };
    // HTTP/1.0: the answer ends with the connection and never comes in chunks.
    let head = format!("{method} {path} HTTP/1.0\r\nHost: {address}\r\n{login}{content}\r\n");
    stream.write_all((head + body).as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let parse = || {
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
    };
    parse().ok_or_else(|| std::io::Error::other(format!("not an HTTP answer: {answer:?}")))
}
