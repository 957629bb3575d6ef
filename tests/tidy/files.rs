//! The files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders without a text of ours.
const SKIPPED: [&str; 4] = ["target", "bench-results", "node_modules", ".git"];

pub(crate) struct File {
    /// From the top of the repository.
    pub(crate) path: String,
    pub(crate) text: String,
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files below the folders with one of the endings.
pub(crate) fn below(folders: &[&str], endings: &[&str]) -> Vec<File> {
    let mut paths = Vec::new();
    for folder in folders {
        collect(&root().join(folder), &mut paths);
    }
    let mut files: Vec<File> = paths
        .into_iter()
        .filter(|path| endings.iter().any(|ending| path.to_str().unwrap().ends_with(ending)))
        .map(|path| {
            let text = fs::read_to_string(&path).unwrap();
            let path = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
            File { path, text }
        })
        .collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(!files.is_empty(), "no {endings:?} below {folders:?}");
    files
}

/// All Rust code.
pub(crate) fn rust() -> Vec<File> {
    below(&["src", "crates", "tests", "benches", "examples"], &[".rs"])
}

/// All pages.
pub(crate) fn pages() -> Vec<File> {
    below(&["."], &[".md"])
}

fn collect(path: &Path, into: &mut Vec<PathBuf>) {
    if path.is_file() {
        into.push(path.to_owned());
        return;
    }
    for entry in fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        if !SKIPPED.iter().any(|skipped| entry.file_name() == *skipped) {
            collect(&entry.path().components().collect::<PathBuf>(), into);
        }
    }
}
