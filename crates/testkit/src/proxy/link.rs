//! The connections of a proxy, and what they forward.

use std::collections::{HashMap, HashSet};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use socket2::{SockFilter, SockRef};

/// A program of one instruction for the kernel's packet filter: "return 0", accept no byte.
const TAKE_NOTHING: SockFilter = SockFilter::new(0x06, 0, 0, 0);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Pass,
    BlackHole,
    Refuse,
    End,
}

/// What happens to all connections when their allowance of bytes is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Ended,
    Stranded,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    ToServer,
    ToClient,
}

/// Bytes that are left in one direction before that happens.
#[derive(Clone, Copy)]
struct Allowance {
    direction: Direction,
    bytes_left: u64,
    fate: Fate,
}

#[derive(Default)]
pub(super) struct Link {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    mode: Mode,
    accepted_mode: Option<Mode>,
    target_port: Option<u16>,
    allowance: Option<Allowance>,
    bytes_to_clients: u64,
    next_id: u64,
    // Both ends of every connection; one that is cut is removed.
    open: HashMap<u64, Vec<TcpStream>>,
    // Connections on which nothing passes any more.
    stranded: HashSet<u64>,
}

impl Link {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(super) fn mode(&self) -> Mode {
        self.state().mode
    }

    pub(super) fn set_mode(&self, mode: Mode) {
        self.state().mode = mode;
        self.changed.notify_all();
    }

    pub(super) fn accepted_mode(&self) -> Option<Mode> {
        self.state().accepted_mode
    }

    pub(super) fn note_accepted_mode(&self, mode: Mode) {
        self.state().accepted_mode = Some(mode);
    }

    pub(super) fn set_target(&self, port: u16) {
        self.state().target_port = Some(port);
        self.changed.notify_all();
    }

    pub(super) fn after_bytes(&self, direction: Direction, bytes_left: u64, fate: Fate) {
        self.state().allowance = Some(Allowance { direction, bytes_left, fate });
    }

    pub(super) fn is_cut_pending(&self) -> bool {
        self.state().allowance.is_some()
    }

    pub(super) fn bytes_to_clients(&self) -> u64 {
        self.state().bytes_to_clients
    }

    pub(super) fn open_connections(&self) -> usize {
        self.state().open.len()
    }

    /// Resets every connection.
    pub(super) fn cut(&self) {
        for stream in self.state().open.drain().flat_map(|(_, streams)| streams) {
            // With a linger time of zero, closing sends RST instead of FIN; and shutting down
            // only the reading half wakes the blocked pump without sending anything.
            let _ = set_socket_linger(&stream, Some(Duration::ZERO));
            let _ = stream.shutdown(Shutdown::Read);
        }
        self.changed.notify_all();
    }

    /// Silences every open connection permanently.
    pub(super) fn strand(&self) {
        let state = &mut *self.state();
        state.allowance = None;
        state.stranded.extend(state.open.keys());
    }

    /// Silences every open connection permanently, and lets nothing in on their sockets any more:
    /// no data, no keepalive, no reset.
    pub(super) fn deafen(&self) {
        self.strand();
        for stream in self.state().open.values().flatten() {
            SockRef::from(stream).attach_filter(&[TAKE_NOTHING]).expect("cannot filter a socket");
        }
    }

    /// Connects to the target and forwards both ways until either side or a cut ends it.
    pub(super) fn serve(&self, client: TcpStream) {
        let id = self.register(&client);
        let Some(port) = self.wait_for_target(id) else {
            return;
        };
        if let Ok(server) = TcpStream::connect(("127.0.0.1", port))
            && self.add(id, &server)
        {
            for stream in [&client, &server] {
                // Small frames must not be delayed: the proxy would add latency.
                let _ = stream.set_nodelay(true);
                // A cut wakes a blocked read, but not a write to a peer that does not read it.
                let _ = stream.set_write_timeout(Some(Duration::from_millis(50)));
            }
            std::thread::scope(|scope| {
                scope.spawn(|| self.pump(id, &client, &server, Direction::ToServer));
                self.pump(id, &server, &client, Direction::ToClient);
            });
        }
        self.state().open.remove(&id);
    }

    fn register(&self, client: &TcpStream) -> u64 {
        let mut state = self.state();
        let id = state.next_id;
        state.next_id += 1;
        state.open.insert(id, vec![duplicate(client)]);
        id
    }

    fn add(&self, id: u64, server: &TcpStream) -> bool {
        let mut state = self.state();
        let Some(streams) = state.open.get_mut(&id) else {
            return false;
        };
        streams.push(duplicate(server));
        true
    }

    // `None` if the connection was cut meanwhile.
    fn wait_for_target(&self, id: u64) -> Option<u16> {
        let state =
            self.wait_while(id, |state| state.is_silent(id) || state.target_port.is_none())?;
        state.target_port
    }

    fn wait_while(
        &self,
        id: u64,
        mut blocked: impl FnMut(&State) -> bool,
    ) -> Option<MutexGuard<'_, State>> {
        let is_open = |state: &State| state.open.contains_key(&id) && state.mode != Mode::End;
        let state = self.changed.wait_while(self.state(), |state| is_open(state) && blocked(state));
        Some(state.unwrap()).filter(|state| is_open(state))
    }

    fn pump(&self, id: u64, mut from: &TcpStream, to: &TcpStream, direction: Direction) {
        let mut buffer = [0; 64 * 1024];
        loop {
            let read = from.read(&mut buffer).unwrap_or(0);
            // In a black hole, data is held here, and so is the end of a connection.
            let Some(mut state) = self.wait_while(id, |state| state.is_silent(id)) else {
                return;
            };
            let (allowed, fate) = state.let_through(read, direction);
            drop(state);
            let Some(sent) = self.send(id, to, &buffer[..allowed]) else {
                return;
            };
            if !sent || read == 0 {
                // The whole connection ends with one direction: neither Postgres nor Kafka
                // clients continue on a half-closed one.
                let _ = from.shutdown(Shutdown::Both);
                let _ = to.shutdown(Shutdown::Both);
                return;
            }
            match fate {
                None => {}
                Some(Fate::Stranded) => self.strand(),
                Some(Fate::Ended) => {
                    self.end_all();
                    return;
                }
            }
        }
    }

    // Whether all bytes were sent; `None` if the connection was cut while its reader slept.
    fn send(&self, id: u64, mut to: &TcpStream, mut bytes: &[u8]) -> Option<bool> {
        while !bytes.is_empty() {
            match to.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if is_timeout(&error) => drop(self.wait_while(id, |_| false)?),
                Err(_) => return Some(false),
            }
        }
        Some(true)
    }

    // An orderly end, unlike a reset, delivers exactly the bytes that were let through.
    fn end_all(&self) {
        let mut state = self.state();
        state.allowance = None;
        for stream in state.open.drain().flat_map(|(_, streams)| streams) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(state);
        self.changed.notify_all();
    }
}

impl State {
    fn is_silent(&self, id: u64) -> bool {
        self.mode == Mode::BlackHole || self.stranded.contains(&id)
    }

    // How many of `bytes` can pass, and what happens after them if they are the last.
    fn let_through(&mut self, bytes: usize, direction: Direction) -> (usize, Option<Fate>) {
        let allowance = self.allowance.as_mut().filter(|it| it.direction == direction);
        let (passed, fate) = match allowance {
            None => (bytes as u64, None),
            Some(allowance) => {
                let passed = (bytes as u64).min(allowance.bytes_left);
                allowance.bytes_left -= passed;
                (passed, Some(allowance.fate).filter(|_| allowance.bytes_left == 0))
            }
        };
        if direction == Direction::ToClient {
            self.bytes_to_clients += passed;
        }
        (usize::try_from(passed).unwrap(), fate)
    }
}

fn duplicate(stream: &TcpStream) -> TcpStream {
    stream.try_clone().expect("cannot duplicate a socket")
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
