//! The storage of a new Kafka.
//!
//! Formatting it needs a Java program, which takes a core for a second. Its files are small and
//! contain neither ports nor folders, so each kind of server is formatted once, and others get
//! copies.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use super::Release;

/// Servers whose storage is the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind {
    pub(super) release: Release,
    pub(super) cluster_id: String,
    pub(super) node_id: String,
    pub(super) roles: String,
    pub(super) arguments: Vec<String>,
}

type Files = Vec<(String, Vec<u8>)>;

static FORMATTED: Mutex<BTreeMap<Kind, Files>> = Mutex::new(BTreeMap::new());

/// Fills the folder of a server of this kind; `format` does it with Kafka's own program.
pub(super) fn fill(folder: &Path, kind: Kind, format: impl FnOnce()) {
    let mut formatted = FORMATTED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(files) = formatted.get(&kind) {
        write(folder, files);
    } else {
        format();
        formatted.insert(kind, read(folder));
    }
}

fn write(folder: &Path, files: &Files) {
    std::fs::create_dir_all(folder).expect("cannot create Kafka's folder");
    for (name, content) in files {
        std::fs::write(folder.join(name), content).expect("cannot write Kafka's storage");
    }
}

fn read(folder: &Path) -> Files {
    let entries = std::fs::read_dir(folder).expect("formatting created no folder");
    let read = |entry: std::fs::DirEntry| {
        let content = std::fs::read(entry.path()).expect("cannot read Kafka's storage");
        (entry.file_name().to_string_lossy().into_owned(), content)
    };
    entries.map(|entry| read(entry.expect("cannot list Kafka's storage"))).collect()
}
