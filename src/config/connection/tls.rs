//! Whether and how the connection is encrypted, and which identity the server must prove
//! (<https://www.postgresql.org/docs/current/libpq-ssl.html>).

use std::path::PathBuf;

use super::{ConnectionInput, Value, permissions};
use crate::config::secrets;
use crate::postgres::{Identity, Roots, Tls, TlsMode};

/// Something is wrong, and was added to the problems.
struct Reported;

/// libpq's name for the certificates that the system trusts.
const SYSTEM: &str = "system";

pub(super) fn check(given: &mut ConnectionInput<'_>) -> Option<Tls> {
    let root = given.get("sslrootcert");
    let of_system = root.as_ref().is_some_and(|root| root.text == SYSTEM);
    let default = if of_system { TlsMode::VerifyFull } else { TlsMode::Prefer };
    let expected = "disable, prefer, require, verify-ca or verify-full";
    let mut mode = given.read("sslmode", default, expected, |text| match text {
        "disable" => Some(TlsMode::Disable),
        "prefer" => Some(TlsMode::Prefer),
        "require" => Some(TlsMode::Require),
        "verify-ca" => Some(TlsMode::VerifyCa),
        "verify-full" => Some(TlsMode::VerifyFull),
        _ => None,
    });
    if of_system && mode != TlsMode::VerifyFull {
        // Anybody can get a certificate from a public authority.
        let value = given.get("sslmode").or(given.get("sslrootcert"))?;
        given.wrong(&value, "must be verify-full with sslrootcert=system");
        return None;
    }
    let roots = roots(given, root.as_ref());
    if matches!(roots, Roots::File(_)) && mode == TlsMode::Require {
        // An authority that is named, or kept where libpq looks for it, is checked, as by libpq.
        mode = TlsMode::VerifyCa;
    }
    if mode == TlsMode::VerifyCa && matches!(roots, Roots::System) {
        // As above; libpq requires a file too.
        let value = given.get("sslmode")?;
        let message = "needs sslrootcert (or ~/.postgresql/root.crt): anybody can get a \
            certificate from a public authority; name the file of the authority that you trust, \
            or use verify-full";
        given.problems.push(crate::config::connection::Problem::at(
            &value.origin,
            format!("sslmode=verify-ca {message}"),
        ));
        return None;
    }
    let identity = identity(given).ok()?;
    let tls = Tls { mode, roots, identity };
    match tls.connector() {
        Ok(_) => Some(tls),
        Err(error) => {
            match given.get(error.option) {
                Some(value) => {
                    let path = error.path.to_string_lossy();
                    given.wrong(&value, format!("{}: {}", secrets::path(&path), error.reason));
                }
                None => given
                    .problems
                    .push(crate::config::connection::Problem::missing(error.to_string())),
            }
            None
        }
    }
}

fn roots(given: &ConnectionInput<'_>, root: Option<&Value>) -> Roots {
    match root {
        Some(root) if root.text == SYSTEM => Roots::System,
        Some(root) => Roots::File(PathBuf::from(&root.text)),
        None => match in_home(given, "root.crt") {
            Some(path) => Roots::File(path),
            None => Roots::System,
        },
    }
}

/// The certificate with which postrider authenticates itself to the server, if any.
fn identity(given: &mut ConnectionInput<'_>) -> Result<Option<Identity>, Reported> {
    let path = |value: Value| PathBuf::from(value.text);
    let (certificate, key) = (given.get("sslcert"), given.get("sslkey"));
    let password = given.get("sslpassword").map(|value| value.text);
    let (certificate, key) = match (certificate, key) {
        (Some(certificate), Some(key)) => (path(certificate), path(key)),
        (Some(alone), None) => {
            given.wrong(&alone, "needs sslkey, the private key of the certificate");
            return Err(Reported);
        }
        (None, Some(alone)) => {
            given.wrong(&alone, "needs sslcert, the certificate of the key");
            return Err(Reported);
        }
        (None, None) => {
            match (in_home(given, "postgresql.crt"), in_home(given, "postgresql.key")) {
                (Some(certificate), Some(key)) => (certificate, key),
                _ => return Ok(None),
            }
        }
    };
    if let Some(wrong) = permissions::key_file_problem(&key) {
        let message = format!("names {}, which {wrong}", key.display());
        match given.get("sslkey") {
            Some(value) => given.wrong(&value, message),
            None => given
                .problems
                .push(crate::config::connection::Problem::missing(format!("the key {message}"))),
        }
        return Err(Reported);
    }
    Ok(Some(Identity { certificate, key, password }))
}

/// Where libpq looks if no file is named.
fn in_home(given: &ConnectionInput<'_>, name: &str) -> Option<PathBuf> {
    let path = given.inputs.home.as_ref()?.join(".postgresql").join(name);
    path.exists().then_some(path)
}
