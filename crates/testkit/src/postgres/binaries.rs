//! The folders of the server's programs, and the user that runs them.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::cache::readable_cache_folder;

/// What `scripts/setup` fetches for tests of failover slots: it reads the same file.
const NEWER: &str = include_str!("version").trim_ascii();

/// The folder with `initdb`, `postgres`, `pg_recvlogical`.
pub(super) fn bin_dir() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        candidates().into_iter().find(|dir| dir.join("initdb").exists()).expect(
            "found no Postgres server (initdb): run `make setup`, or set PG_BIN to its bin folder",
        )
    })
}

/// The folder with `initdb` and `postgres` of this version, and perhaps nothing else.
pub(super) fn bin_dir_of(major: u32) -> PathBuf {
    let debian = PathBuf::from(format!("/usr/lib/postgresql/{major}/bin"));
    let fetched = readable_cache_folder().join(format!("postgres-{NEWER}/bin"));
    let dirs = [bin_dir().to_owned(), debian, fetched];
    let found = dirs.into_iter().find(|dir| major_version(dir) == Some(major));
    found.unwrap_or_else(|| panic!("found no Postgres {major}: run `make setup`, which fetches it"))
}

/// The line reads: `postgres (PostgreSQL) 17.10`.
fn major_version(dir: &Path) -> Option<u32> {
    let output = Command::new(dir.join("postgres")).arg("--version").output().ok()?;
    let line = String::from_utf8(output.stdout).ok()?;
    line.split_whitespace().nth(2)?.split('.').next()?.parse().ok()
}

fn candidates() -> Vec<PathBuf> {
    // If PG_BIN is set, that version is used, or an error reported, but never another one used.
    if let Some(dir) = std::env::var_os("PG_BIN") {
        return vec![dir.into()];
    }
    let mut dirs = Vec::new();
    if let Ok(output) = Command::new("pg_config").arg("--bindir").output() {
        dirs.push(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    }
    dirs.extend(debian_versions());
    dirs.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    dirs
}

// Debian keeps server programs out of PATH; the highest version first.
fn debian_versions() -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir("/usr/lib/postgresql") else {
        return Vec::new();
    };
    let mut versions: Vec<(u32, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
        .collect();
    versions.sort();
    versions.into_iter().rev().map(|(_, path)| path.join("bin")).collect()
}

/// A user for the server's processes: Postgres refuses to run as root.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerUser {
    uid: u32,
    gid: u32,
}

impl ServerUser {
    /// `None` if the tests do not run as root and the server can run as the same user.
    pub(super) fn when_root() -> Option<ServerUser> {
        if !rustix::process::getuid().is_root() {
            return None;
        }
        let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let user = ["postgres", "nobody"].iter().find_map(|name| lookup(&passwd, name));
        Some(user.expect("root needs a user `postgres` or `nobody` to run a Postgres server"))
    }

    /// Gives up root for a command. The standard library drops supplementary groups with it.
    pub(super) fn apply(self, command: &mut Command) {
        command.uid(self.uid).gid(self.gid);
    }

    pub(super) fn own(self, folder: &Path) {
        std::os::unix::fs::chown(folder, Some(self.uid), Some(self.gid))
            .expect("cannot give the server's folder to its user");
    }
}

fn lookup(passwd: &str, name: &str) -> Option<ServerUser> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then_some(())?;
        Some(ServerUser { uid: fields.nth(1)?.parse().ok()?, gid: fields.next()?.parse().ok()? })
    })
}
