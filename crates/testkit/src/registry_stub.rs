//! A schema registry whose answers the test decides. It knows one request: for the newest schema of
//! a subject.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use openssl::base64::encode_block;
use openssl::pkey::PKey;
use openssl::ssl::{SslAcceptor, SslMethod};
use openssl::x509::X509;

use super::certificates::Issued;
use super::port::free_port;

/// How long a client may take to send its request.
const REQUEST_WITHIN: Duration = Duration::from_secs(10);

/// What it does with requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// What a registry does.
    Answers,
    /// The same status for each.
    Status(u16),
    /// Bytes that are not HTTP, or not an answer.
    Says(&'static str),
    /// Nothing: the connection stays open.
    Silent,
}

/// A registry on a port of its own.
pub struct RegistryStub {
    port: u16,
    tls: Option<SslAcceptor>,
    shared: Arc<Shared>,
    listening: Option<Listening>,
}

struct Listening {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

struct Shared {
    state: Mutex<State>,
}

struct State {
    behaviour: Behaviour,
    /// By subject: its newest schema.
    schemas: HashMap<String, (u32, Option<String>)>,
    /// What a request must have in its header.
    authorization: Option<String>,
    /// The subjects asked about, in order.
    asked: Vec<String>,
    /// Connections that get no answer.
    silent: Vec<TcpStream>,
}

impl RegistryStub {
    #[track_caller]
    pub fn start() -> RegistryStub {
        RegistryStub::start_with(None)
    }

    /// The same with TLS.
    #[track_caller]
    pub fn start_tls(issued: &Issued) -> RegistryStub {
        let mut acceptor = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls_server()).unwrap();
        acceptor.set_certificate(&X509::from_pem(&issued.certificate).unwrap()).unwrap();
        acceptor.set_private_key(&PKey::private_key_from_pem(&issued.key).unwrap()).unwrap();
        RegistryStub::start_with(Some(acceptor.build()))
    }

    #[track_caller]
    fn start_with(tls: Option<SslAcceptor>) -> RegistryStub {
        let state = State {
            behaviour: Behaviour::Answers,
            schemas: HashMap::new(),
            authorization: None,
            asked: Vec::new(),
            silent: Vec::new(),
        };
        let shared = Arc::new(Shared { state: Mutex::new(state) });
        let mut stub = RegistryStub { port: free_port(), tls, shared, listening: None };
        stub.resume();
        stub
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// For `format.registry`.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://localhost:{}", self.port)
    }

    /// The same with credentials.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        self.url().replacen("://", &format!("://{user}:{password}@"), 1)
    }

    /// From now on requests need these credentials.
    pub fn require(&self, user: &str, password: &str) {
        let encoded = encode_block(format!("{user}:{password}").as_bytes());
        self.shared.lock().authorization = Some(format!("Basic {encoded}"));
    }

    /// Registers a schema as the newest of its subject.
    pub fn register(&self, subject: &str, id: u32, guid: Option<&str>) {
        let schema = (id, guid.map(str::to_owned));
        self.shared.lock().schemas.insert(subject.to_owned(), schema);
    }

    /// Changes what it does with requests; those without an answer lose their connection.
    pub fn behave(&self, behaviour: Behaviour) {
        let mut state = self.shared.lock();
        state.behaviour = behaviour;
        state.silent.clear();
    }

    /// How often it was asked about a subject.
    pub fn asked(&self, subject: &str) -> usize {
        self.shared.lock().asked.iter().filter(|asked| *asked == subject).count()
    }

    /// Refuses connections from now on.
    pub fn stop(&mut self) {
        self.shared.lock().silent.clear();
        if let Some(Listening { ended, thread }) = self.listening.take() {
            ended.store(true, Ordering::Relaxed);
            // Wakes it up.
            drop(TcpStream::connect(("127.0.0.1", self.port)));
            thread.join().unwrap();
        }
    }

    /// Accepts them again.
    #[track_caller]
    pub fn resume(&mut self) {
        let listener = TcpListener::bind(("127.0.0.1", self.port)).unwrap();
        let (shared, tls) = (Arc::clone(&self.shared), self.tls.clone());
        let ended = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&ended);
        let thread = std::thread::spawn(move || {
            for socket in listener.incoming() {
                if end.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(socket) = socket else { continue };
                let (shared, tls) = (Arc::clone(&shared), tls.clone());
                std::thread::spawn(move || shared.serve(socket, tls.as_ref()));
            }
        });
        self.listening = Some(Listening { ended, thread });
    }
}

impl Drop for RegistryStub {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Serves one request. A client may hang up at any time.
    fn serve(&self, socket: TcpStream, tls: Option<&SslAcceptor>) {
        let Ok(kept) = socket.try_clone() else { return };
        let limited = socket.set_read_timeout(Some(REQUEST_WITHIN)).is_ok();
        match tls {
            _ if !limited => {}
            None => drop(self.answer(socket, kept)),
            Some(acceptor) => {
                if let Ok(stream) = acceptor.accept(socket) {
                    drop(self.answer(stream, kept));
                }
            }
        }
    }

    fn answer(&self, mut stream: impl Read + Write, kept: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(&mut stream);
        let mut request = String::new();
        reader.read_line(&mut request)?;
        let mut authorization = None;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("authorization")
            {
                authorization = Some(value.trim().to_owned());
            }
        }
        let subject = subject(&request);
        let answer = {
            let mut state = self.lock();
            state.asked.extend(subject.clone());
            match state.behaviour {
                Behaviour::Silent => {
                    state.silent.push(kept);
                    return Ok(());
                }
                Behaviour::Says(text) => text.to_owned(),
                Behaviour::Status(status) => http(status, "{}"),
                Behaviour::Answers => state.look_up(subject.as_deref(), authorization),
            }
        };
        stream.write_all(answer.as_bytes())?;
        stream.flush()
    }
}

impl State {
    fn look_up(&self, subject: Option<&str>, authorization: Option<String>) -> String {
        if self.authorization.is_some() && self.authorization != authorization {
            return http(401, r#"{"error_code":40101,"message":"Unauthorized"}"#);
        }
        let Some(subject) = subject else {
            return http(404, r#"{"error_code":404,"message":"HTTP 404 Not Found"}"#);
        };
        let Some((id, guid)) = self.schemas.get(subject) else {
            return http(404, r#"{"error_code":40401,"message":"Subject not found."}"#);
        };
        let body = serde_json::json!({
            "subject": subject, "version": 1, "id": id, "guid": guid, "schemaType": "JSON",
            "schema": r#"{"type":"object"}"#,
        });
        http(200, &body.to_string())
    }
}

/// The subject of `GET /subjects/{subject}/versions/latest`.
fn subject(request: &str) -> Option<String> {
    let path = request.strip_prefix("GET /subjects/")?.split(' ').next()?;
    decode(path.strip_suffix("/versions/latest")?)
}

fn decode(encoded: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = encoded.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

fn http(status: u16, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} Scripted\r\nContent-Type: application/vnd.schemaregistry.v1+json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}
