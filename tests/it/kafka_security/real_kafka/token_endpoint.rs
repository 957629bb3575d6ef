//! A server that issues tokens to clients with the secret: the client credentials grant of OAuth
//! 2.0.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use openssl::base64::encode_block;

pub(super) const CLIENT: &str = "postrider-client";
pub(super) const SECRET: &str = "client-m4rker-secret";

pub(super) struct TokenEndpoint {
    port: u16,
    given: Arc<AtomicUsize>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl TokenEndpoint {
    pub(super) fn giving(token: String) -> TokenEndpoint {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let given = Arc::new(AtomicUsize::new(0));
        let ended = Arc::new(AtomicBool::new(false));
        let (count, end) = (Arc::clone(&given), Arc::clone(&ended));
        let thread = std::thread::spawn(move || {
            for socket in listener.incoming() {
                if end.load(Ordering::Relaxed) {
                    return;
                }
                // A client may hang up.
                if let Ok(socket) = socket
                    && answer(socket, &token).is_ok_and(|given| given)
                {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        TokenEndpoint { port, given, ended, thread: Some(thread) }
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/token", self.port)
    }

    /// How many tokens it has issued.
    pub(super) fn given(&self) -> usize {
        self.given.load(Ordering::Relaxed)
    }
}

impl Drop for TokenEndpoint {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // Wakes it up.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Answers one request, and returns whether a token was issued.
fn answer(mut socket: TcpStream, token: &str) -> std::io::Result<bool> {
    let mut reader = BufReader::new(socket.try_clone()?);
    let mut length = 0;
    let mut authorized = false;
    let expected = format!("basic {}", encode_block(format!("{CLIENT}:{SECRET}").as_bytes()));
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').unwrap_or_default();
        match name.to_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap_or(0),
            "authorization" => {
                let (scheme, secret) = value.trim().split_once(' ').unwrap_or_default();
                authorized = format!("{} {secret}", scheme.to_lowercase()) == expected;
            }
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let asked = String::from_utf8_lossy(&body).contains("grant_type=client_credentials");
    let (status, body) = if authorized && asked {
        (
            "200 OK",
            serde_json::json!({"access_token": token, "token_type": "Bearer",
        "expires_in": 3600}),
        )
    } else {
        (
            "401 Unauthorized",
            serde_json::json!({"error": "invalid_client",
        "error_description": "wrong client id or secret"}),
        )
    };
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    socket.write_all(head.as_bytes())?;
    socket.write_all(body.as_bytes())?;
    Ok(authorized && asked)
}
