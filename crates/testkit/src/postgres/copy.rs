//! A copy of a running server, as for backups and standbys: its files are copied now, and its log
//! comes from elsewhere.

use std::fs;
use std::path::{Path, PathBuf};

use super::address::{PASSWORD, USER};
use super::{PostgresAddress, PostgresServer, START_WITHIN};
use crate::guardian::{Ending, GuardedProcess};
use crate::port::free_port;

/// Leaves out what the manual lists: slots belong to their server; the log comes from elsewhere.
/// As a pipe, because files may change and vanish meanwhile.
const COPY: &str = "tar -C \"$1\" -cf - --exclude='./pg_wal/*' --exclude='./pg_replslot/*' \
    --exclude='./postmaster.*' . | tar -C \"$2\" -xpf -";

/// A copy that has not been started yet.
pub struct Copy {
    server: PostgresServer,
    settings: String,
}

impl PostgresServer {
    /// A hot standby that follows this server, with all its databases and without its slots.
    #[track_caller]
    pub fn start_standby(&self) -> PostgresServer {
        self.copy(free_port()).following(self).start()
    }

    /// Copies the files with the backup functions: not every version comes with `pg_basebackup`.
    #[track_caller]
    pub fn copy(&self, port: u16) -> Copy {
        let (start, stop) = match self.address.major_version() {
            ..15 => ("pg_start_backup('copy', true, false)", "pg_stop_backup(false)"),
            _ => ("pg_backup_start('copy', true)", "pg_backup_stop()"),
        };
        let copy = Copy::empty(self, port);
        let mut session = self.client(USER);
        session.query(&format!("SELECT {start}"), &[]).expect("cannot begin a backup");
        let Copy { mut server, settings } = copy;
        let mut command = server.server_command("/bin/sh");
        command.args(["-c", COPY, "copy"]).arg(self.data_dir()).arg(server.data_dir());
        server.process.run_to_end(command, START_WITHIN);
        let sql = format!("SELECT labelfile FROM {stop}");
        let label: String = session.query_one(&sql, &[]).expect("cannot end the backup").get(0);
        let copy = Copy { server, settings };
        copy.write("backup_label", &label);
        copy
    }

    /// The folder into which [`super::PostgresOptions::archiving`] archives the log.
    pub fn archive(&self) -> PathBuf {
        self.process.folder().join("archive")
    }
}

impl Copy {
    fn empty(of: &PostgresServer, port: u16) -> Copy {
        let process = GuardedProcess::new("copy", Ending::Quit);
        let folder = process.folder().to_owned();
        let settings = format!("port = {port}\nunix_socket_directories = '{}'\n", folder.display());
        let server = PostgresServer {
            process,
            address: PostgresAddress { port, socket_dir: folder },
            bin_dir: of.bin_dir.clone(),
            user: of.user,
            arguments: of.arguments.clone(),
        };
        fs::create_dir(server.data_dir()).expect("cannot create the data folder");
        if let Some(user) = server.user {
            user.own(server.process.folder());
            user.own(&server.data_dir());
        }
        Copy { server, settings }
    }

    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings += &format!("{name} = '{value}'\n");
        self
    }

    /// The copy will follow that server.
    #[must_use]
    pub fn following(self, primary: &PostgresServer) -> Self {
        self.write("standby.signal", "");
        let port = primary.port();
        let way =
            format!("host=127.0.0.1 port={port} user={USER} password={PASSWORD} dbname={USER}");
        self.setting("primary_conninfo", &way)
    }

    /// The copy will recover from the archived log to a restore point, and then be a primary.
    #[must_use]
    pub fn restored_to(self, restore_point: &str, archive: &Path) -> Self {
        self.write("recovery.signal", "");
        self.setting("restore_command", &format!("cp {}/%f %p", archive.display()))
            .setting("recovery_target_name", restore_point)
            .setting("recovery_target_action", "promote")
    }

    /// Returns when it answers queries.
    pub fn start(self) -> PostgresServer {
        // The file of ALTER SYSTEM: nothing that was copied overrides it.
        let path = self.server.data_dir().join("postgresql.auto.conf");
        let copied = fs::read_to_string(path).expect("no postgresql.auto.conf");
        self.write("postgresql.auto.conf", &format!("{copied}{}", self.settings));
        let mut server = self.server;
        server.start_again();
        server
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.server.data_dir().join(name);
        let written = fs::write(&path, text);
        written.unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
        if let Some(user) = self.server.user {
            user.own(&path);
        }
    }
}
