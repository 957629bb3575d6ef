//! libpq's password file: `host:port:database:user:password` on each line, `*` for any, `\` before
//! `:` and `\` (<https://www.postgresql.org/docs/current/libpq-pgpass.html>).

use std::path::PathBuf;

use super::{Address, ConnectionInput, permissions};
use crate::config::secrets;

/// The text of a password file. No `Debug`: it contains secrets.
pub(super) struct Passfile(String);

impl Passfile {
    /// The file that is named, else `~/.pgpass` if there is one.
    pub(super) fn find(given: &mut ConnectionInput<'_>) -> Option<Self> {
        let named = given.get("passfile");
        let default = || Some(given.inputs.home.as_ref()?.join(".pgpass"));
        let path = named.as_ref().map(|value| PathBuf::from(&value.text)).or_else(default)?;
        if let Some(wrong) = permissions::password_file_problem(&path) {
            let path = path.display();
            match named {
                Some(named) => given.wrong(&named, format!("names {path}, which {wrong}")),
                // Ignored with a warning, as by libpq.
                None => given.cautions.push(format!("{path} is not used: it {wrong}")),
            }
            return None;
        }
        match (given.inputs.read)(&path) {
            Ok(text) => return Some(Passfile(text)),
            Err(error) => {
                // The file in the home directory is optional, as in libpq. A password that is then
                // missing is reported when the server asks for it.
                if let Some(named) = named {
                    let path = secrets::path(&named.text);
                    given.wrong(&named, format!("names {path}, which can't be read: {error}"));
                }
            }
        }
        None
    }

    /// The password of the first line that matches.
    pub(super) fn password(&self, address: &Address, dbname: &str, user: &str) -> Option<String> {
        let port = address.port.to_string();
        let host = match (&address.host, address.hostaddr) {
            (Some(host), _) => host.clone(),
            (None, ip) => ip?.to_string(),
        };
        self.0.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
            let mut fields = Fields(line);
            let here = fields.next()?;
            // libpq's name for its own Unix socket.
            let local = address.is_unix() && here == "localhost";
            let fits = (here == "*" || here == host || local)
                && [port.as_str(), dbname, user].iter().all(|wanted| {
                    fields.next().is_some_and(|field| field == "*" || field == *wanted)
                });
            let password = fields.next().filter(|_| fits)?;
            (!password.is_empty()).then_some(password)
        })
    }
}

/// The rest of a line.
struct Fields<'a>(&'a str);

impl Iterator for Fields<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let mut field = String::new();
        let mut characters = self.0.char_indices();
        while let Some((index, character)) = characters.next() {
            match character {
                ':' => {
                    self.0 = self.0.get(index + 1..).unwrap_or_default();
                    return Some(field);
                }
                '\\' => field.extend(characters.next().map(|(_, escaped)| escaped)),
                character => field.push(character),
            }
        }
        self.0 = "";
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_fits_wins() {
        let file = "# db:5432:shop:u:comment\n\
                    db:5432:shop:u:one\n\
                    db:*:*:u:t\\:w\\\\o\n\
                    *:*:*:other:three\n\
                    localhost:*:*:u:socket\n\
                    10.0.0.1:5432:*:u:\n\
                    10.0.0.1:5432:*:u:four\n";
        let file = Passfile(file.to_owned());
        #[track_caller]
        fn check(file: &Passfile, host: &str, port: u16, user: &str, expect: Option<&str>) {
            let (host, hostaddr) = match host.parse() {
                Ok(ip) => (None, Some(ip)),
                Err(_) => (Some(host.to_owned()), None),
            };
            let address = Address { host, hostaddr, port };
            assert_eq!(file.password(&address, "shop", user).as_deref(), expect);
        }
        check(&file, "db", 5432, "u", Some("one"));
        check(&file, "db", 1, "u", Some("t:w\\o"));
        check(&file, "x", 1, "other", Some("three"));
        check(&file, "x", 1, "u", None);
        check(&file, "/run/postgresql", 5432, "u", Some("socket"));
        check(&file, "10.0.0.1", 5432, "u", Some("four"));
    }
}
