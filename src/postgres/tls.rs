//! TLS by OpenSSL, which librdkafka uses too, for both kinds of connection.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::PKey;
use openssl::ssl::{
    SslConnector, SslConnectorBuilder, SslMethod, SslRef, SslVerifyMode, SslVersion,
};
use openssl::x509::store::X509StoreBuilder;
use openssl::x509::{X509, X509VerifyResult};
use postgres_openssl::MakeTlsConnector;
use tokio::net::TcpStream;
use tokio_openssl::SslStream;

/// How much the server must prove, in libpq's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(crate) enum TlsMode {
    /// No encryption.
    Disable,
    /// Encrypted if the server supports it; proves nothing.
    Prefer,
    /// Encrypted; keeps out listeners, but not a man in the middle.
    Require,
    /// Encrypted, by a server with a certificate from an authority we trust.
    VerifyCa,
    /// The same, and the certificate is for the host we wanted.
    VerifyFull,
}

impl fmt::Display for TlsMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Disable => "disable",
            Self::Prefer => "prefer",
            Self::Require => "require",
            Self::VerifyCa => "verify-ca",
            Self::VerifyFull => "verify-full",
        })
    }
}

/// The authorities we trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Roots {
    /// Those of the system.
    System,
    /// Those of this PEM file, and no others.
    File(PathBuf),
}

/// The certificate that identifies us to the server.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// A PEM file, with the intermediate authorities after it.
    pub certificate: PathBuf,
    /// A PEM file.
    pub key: PathBuf,
    /// Decrypts the key, if it is encrypted.
    pub password: Option<String>,
}

/// Without the password.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("certificate", &self.certificate)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// How TLS is used. Files are read at each connect, so that renewed certificates are used
/// without a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tls {
    /// How much the server must prove.
    pub mode: TlsMode,
    /// Which authorities prove it.
    pub roots: Roots,
    /// Who we are.
    pub identity: Option<Identity>,
}

/// A file that can't be used.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {reason}", path = .path.display())]
pub(crate) struct TlsError {
    /// The connection option that names it.
    pub(crate) option: &'static str,
    pub(crate) path: PathBuf,
    pub(crate) reason: String,
}

impl Tls {
    /// Ready for handshakes.
    pub(crate) fn connector(&self) -> Result<TlsConnector, TlsError> {
        let builtin = |error: ErrorStack| TlsError {
            option: "sslmode",
            path: PathBuf::from("OpenSSL"),
            reason: error.to_string(),
        };
        let verifies = self.mode >= TlsMode::VerifyCa;
        let reads_files = verifies || self.identity.is_some();
        if let (false, Some(ssl)) = (reads_files, WITHOUT_FILES.get()) {
            return Ok(TlsConnector { ssl: ssl.clone(), verify_hostname: false });
        }
        // It begins with the system's authorities and verifies everything.
        let mut builder = SslConnector::builder(SslMethod::tls_client()).map_err(builtin)?;
        builder.set_min_proto_version(Some(SslVersion::TLS1_2)).map_err(builtin)?;
        match &self.roots {
            _ if !verifies => builder.set_verify(SslVerifyMode::NONE),
            Roots::File(path) => trust_only(&mut builder, path)?,
            Roots::System => {}
        }
        if let Some(identity) = &self.identity {
            present(&mut builder, identity)?;
        }
        let ssl = builder.build();
        if !reads_files {
            // Another thread may have been faster; both are the same.
            let _ = WITHOUT_FILES.set(ssl.clone());
        }
        Ok(TlsConnector { ssl, verify_hostname: self.mode == TlsMode::VerifyFull })
    }
}

/// Shared by all connections for which nothing but the mode matters: each new one would read the
/// system's authorities, trusted or not, which takes milliseconds and memory.
static WITHOUT_FILES: OnceLock<SslConnector> = OnceLock::new();

/// Encrypts connections.
#[derive(Clone)]
pub(crate) struct TlsConnector {
    ssl: SslConnector,
    verify_hostname: bool,
}

/// A handshake that failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeError {
    /// The server's certificate does not prove enough.
    #[error("the server's certificate is refused: {0}")]
    Certificate(X509VerifyResult),
    /// Anything else.
    #[error("{0}")]
    Ssl(#[from] openssl::ssl::Error),
}

impl From<ErrorStack> for HandshakeError {
    fn from(error: ErrorStack) -> Self {
        Self::Ssl(error.into())
    }
}

impl TlsConnector {
    /// For the ordinary connection.
    pub(super) fn for_tokio_postgres(&self) -> MakeTlsConnector {
        let mut connector = MakeTlsConnector::new(self.ssl.clone());
        let verify_hostname = self.verify_hostname;
        connector.set_callback(move |handshake, _| {
            handshake.set_verify_hostname(verify_hostname);
            Ok(())
        });
        connector
    }

    /// For the replication connection.
    pub(crate) async fn handshake(
        &self,
        socket: TcpStream,
        host: &str,
    ) -> Result<SslStream<TcpStream>, HandshakeError> {
        let mut configuration = self.ssl.configure()?;
        configuration.set_verify_hostname(self.verify_hostname);
        let mut stream = SslStream::new(configuration.into_ssl(host)?, socket)?;
        let result = std::pin::Pin::new(&mut stream).connect().await;
        match (result, stream.ssl().verify_result()) {
            (Ok(()), _) => Ok(stream),
            (Err(_), bad) if bad != X509VerifyResult::OK => Err(HandshakeError::Certificate(bad)),
            (Err(error), _) => Err(error.into()),
        }
    }
}

/// What SCRAM binds itself to: the hash of the server's certificate by the hash function of its
/// signature, but SHA-256 in place of weaker ones (RFC 5929, section 4). `None` if the signature
/// has no single hash function: the standard defines no binding for those.
pub(crate) fn server_end_point(ssl: &SslRef) -> Option<Vec<u8>> {
    let certificate = ssl.peer_certificate()?;
    let signature = certificate.signature_algorithm().object().nid();
    let digest = match signature.signature_algorithms()?.digest {
        Nid::MD5 | Nid::SHA1 => MessageDigest::sha256(),
        other => MessageDigest::from_nid(other)?,
    };
    certificate.digest(digest).ok().map(|hash| hash.to_vec())
}

/// The system's authorities must not vouch for a private server.
fn trust_only(builder: &mut SslConnectorBuilder, path: &Path) -> Result<(), TlsError> {
    let option = "sslrootcert";
    let pem = read(option, path)?;
    let wrong = |error: ErrorStack| failed(option, path, "holds no PEM certificates", &error);
    let certificates = X509::stack_from_pem(&pem).map_err(wrong)?;
    if certificates.is_empty() {
        let reason = "holds no PEM certificates".to_owned();
        return Err(TlsError { option, path: path.to_owned(), reason });
    }
    let mut store = X509StoreBuilder::new().map_err(wrong)?;
    for certificate in certificates {
        store.add_cert(certificate).map_err(wrong)?;
    }
    builder.set_cert_store(store.build());
    Ok(())
}

fn present(builder: &mut SslConnectorBuilder, identity: &Identity) -> Result<(), TlsError> {
    let path = &identity.certificate;
    read("sslcert", path)?;
    let wrong = |error| failed("sslcert", path, "is not a PEM certificate", &error);
    builder.set_certificate_chain_file(path).map_err(wrong)?;
    let path = &identity.key;
    let pem = read("sslkey", path)?;
    // Always with a password: without one OpenSSL would ask the terminal for it.
    let password = identity.password.as_deref().unwrap_or_default();
    let wrong = "is not a PEM private key, or sslpassword does not decrypt it";
    let key = PKey::private_key_from_pem_passphrase(&pem, password.as_bytes())
        .map_err(|error| failed("sslkey", path, wrong, &error))?;
    builder
        .set_private_key(&key)
        .and_then(|()| builder.check_private_key())
        .map_err(|error| failed("sslkey", path, "is not the key of sslcert", &error))
}

fn read(option: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|error| TlsError {
        option,
        path: path.to_owned(),
        reason: format!("can't be read: {error}"),
    })
}

fn failed(option: &'static str, path: &Path, what: &str, error: &ErrorStack) -> TlsError {
    TlsError { option, path: path.to_owned(), reason: format!("{what} ({error})") }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use openssl::ssl::{SslAcceptor, SslMethod};

    use super::*;
    use testkit::certificates::{Authority, Wanted};

    const GOOD: Wanted<'static> = Wanted { name: "postgres", hosts: &["localhost"], days_left: 20 };

    /// A handshake as the replication connection makes it, alone: no other connection has checked
    /// the server before. Trusts `trusted`, and asks for `host`.
    async fn shake(
        (signer, wanted): (&Authority, Wanted<'_>),
        (mode, trusted, host): (TlsMode, &Authority, &str),
    ) -> Result<(), HandshakeError> {
        let issued = signer.issue(wanted);
        let mut acceptor = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls_server()).unwrap();
        let certificate = X509::from_pem(&issued.certificate).unwrap();
        acceptor.set_certificate(&certificate).unwrap();
        acceptor.set_private_key(&PKey::private_key_from_pem(&issued.key).unwrap()).unwrap();
        let acceptor = acceptor.build();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // Ends with the client's socket, whether or not the handshake succeeds.
        let server = std::thread::spawn(move || {
            let (socket, _) = listener.accept().unwrap();
            acceptor.accept(socket).is_ok()
        });
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root.crt");
        std::fs::write(&root, trusted.pem()).unwrap();
        let tls = Tls { mode, roots: Roots::File(root), identity: None };
        let socket = TcpStream::connect(address).await.unwrap();
        let result = tls.connector().unwrap().handshake(socket, host).await.map(drop);
        server.join().unwrap();
        result
    }

    #[tokio::test]
    async fn the_replication_connection_believes_nobody_it_should_not() {
        let (ours, other) = (Authority::new("ours"), Authority::new("other"));
        let ended = Wanted { days_left: -1, ..GOOD };
        let (ca, full) = (TlsMode::VerifyCa, TlsMode::VerifyFull);
        shake((&ours, GOOD), (full, &ours, "localhost")).await.unwrap();
        shake((&ours, GOOD), (ca, &ours, "db.example")).await.unwrap();
        shake((&other, ended), (TlsMode::Require, &ours, "db.example")).await.unwrap();
        for (server, client, expect) in [
            ((&other, GOOD), (full, &ours, "localhost"), "unable to get local issuer certificate"),
            ((&other, GOOD), (ca, &ours, "localhost"), "unable to get local issuer certificate"),
            ((&ours, GOOD), (full, &ours, "db.example"), "hostname mismatch"),
            ((&ours, GOOD), (full, &ours, "127.0.0.1"), "IP address mismatch"),
            ((&ours, ended), (full, &ours, "localhost"), "certificate has expired"),
            ((&ours, ended), (ca, &ours, "localhost"), "certificate has expired"),
        ] {
            match shake(server, client).await {
                Err(HandshakeError::Certificate(reason)) => {
                    assert_eq!(reason.error_string(), expect);
                }
                other => panic!("{other:?}, not {expect:?}"),
            }
        }
    }
}
