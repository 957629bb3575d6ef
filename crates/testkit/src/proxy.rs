//! A TCP proxy whose link can be cut, cut in the middle of a frame, silenced, forgotten,
//! unplugged or refused.

mod link;

use std::io::ErrorKind;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use socket2::SockRef;

use self::link::{Direction, Fate, Link, Mode};
use super::port::free_port;
use super::wait::wait_until;

/// Listens on its own port and forwards to a target's port, in its own threads.
pub struct Proxy {
    port: u16,
    link: Arc<Link>,
    acceptor: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts without a target: connections wait until [`Self::set_target`].
    pub fn start() -> Proxy {
        let port = free_port();
        let link = Arc::new(Link::default());
        let shared = Arc::clone(&link);
        let acceptor = std::thread::spawn(move || accept(port, &shared));
        let proxy = Proxy { port, link, acceptor: Some(acceptor) };
        proxy.pass();
        proxy
    }

    /// Starts in front of a port of this machine.
    pub fn to(target_port: u16) -> Proxy {
        let proxy = Proxy::start();
        proxy.set_target(target_port);
        proxy
    }

    pub fn set_target(&self, port: u16) {
        self.link.set_target(port);
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Forwards everything, including what a black hole has held back.
    pub fn pass(&self) {
        self.enter(Mode::Pass);
    }

    /// Resets all connections now; new ones are served in the current mode.
    pub fn cut(&self) {
        self.link.cut();
    }

    /// Lets `bytes` more through from the server to its clients, then ends all connections.
    /// New ones are served.
    pub fn cut_after_bytes(&self, bytes: u64) {
        self.link.after_bytes(Direction::ToClient, bytes, Fate::Ended);
    }

    /// Lets `bytes` more through from the clients to their server, then ends all connections.
    /// New ones are served.
    pub fn cut_after_bytes_to_server(&self, bytes: u64) {
        self.link.after_bytes(Direction::ToServer, bytes, Fate::Ended);
    }

    /// Forgets all connections, like a firewall that has lost its state: nothing passes on them
    /// any more, not even their end. New ones are served.
    pub fn strand(&self) {
        self.link.strand();
    }

    /// Lets `bytes` more through from the server to its clients, then forgets all connections.
    pub fn strand_after_bytes(&self, bytes: u64) {
        self.link.after_bytes(Direction::ToClient, bytes, Fate::Stranded);
    }

    /// Waits until the requested cut or stranding has happened.
    #[track_caller]
    pub fn wait_cut(&self, within: Duration) {
        wait_until("the proxy to cut the link", within, || !self.link.is_cut_pending());
    }

    /// Keeps connections open and accepts new ones, but forwards nothing either way, not even
    /// the end of a connection.
    pub fn black_hole(&self) {
        self.enter(Mode::BlackHole);
    }

    /// Unplugs the network: a black hole that the machines at both ends don't notice, because
    /// packets are dropped before their kernels could acknowledge them. Open connections are lost:
    /// [`Self::cut`] and [`Self::pass`] reconnect the network.
    pub fn unplug(&self) {
        self.enter(Mode::BlackHole);
        self.link.deafen();
    }

    /// Refuses new connections; open ones continue until [`Self::cut`].
    pub fn refuse(&self) {
        self.enter(Mode::Refuse);
    }

    /// Bytes forwarded from the server to its clients so far.
    pub fn bytes_to_clients(&self) -> u64 {
        self.link.bytes_to_clients()
    }

    pub fn open_connections(&self) -> usize {
        self.link.open_connections()
    }

    // Returns when the acceptor has changed too, so that the next connection is in the new mode.
    fn enter(&self, mode: Mode) {
        self.link.set_mode(mode);
        wait_until("the proxy to change its mode", Duration::from_secs(10), || {
            self.link.accepted_mode() == Some(mode)
        });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.link.set_mode(Mode::End);
        self.link.cut();
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

fn accept(port: u16, link: &Arc<Link>) {
    let mut listener: Option<TcpListener> = None;
    let mut pumps: Vec<JoinHandle<()>> = Vec::new();
    loop {
        let mode = link.mode();
        match mode {
            Mode::End => break,
            Mode::Refuse => listener.take().into_iter().for_each(close),
            Mode::Pass | Mode::BlackHole => {
                listener.get_or_insert_with(|| listen(port));
            }
        }
        link.note_accepted_mode(mode);
        match listener.as_ref().map(TcpListener::accept) {
            Some(Ok((client, _))) => pumps.push(serve(client, link)),
            Some(Err(error)) if error.kind() != ErrorKind::WouldBlock => {
                panic!("the proxy cannot accept: {error}")
            }
            // A listener of std can't wait for a client and for a new mode at the same time.
            _ => std::thread::sleep(Duration::from_millis(2)),
        }
        pumps.retain(|pump| !pump.is_finished());
    }
    drop(listener);
    for pump in pumps {
        let _ = pump.join();
    }
}

fn listen(port: u16) -> TcpListener {
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("the proxy cannot listen");
    listener.set_nonblocking(true).expect("the proxy cannot listen without blocking");
    listener
}

// A process that another test is starting has a copy of the socket until it executes its program:
// if the socket were only dropped here, the port would accept connections until then.
fn close(listener: TcpListener) {
    SockRef::from(&listener).shutdown(Shutdown::Both).expect("the proxy cannot stop listening");
}

fn serve(client: TcpStream, link: &Arc<Link>) -> JoinHandle<()> {
    let link = Arc::clone(link);
    client.set_nonblocking(false).expect("cannot make a connection blocking");
    std::thread::spawn(move || link.serve(client))
}
